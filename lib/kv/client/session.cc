// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/session.h"

#include <algorithm>
#include <utility>

#include "lib/kv/client/get_job.h"
#include "lib/kv/client/put_job.h"
#include "lib/kv/client/simple_job.h"
#include "lib/kv/client/snapshot_job.h"

namespace wss::kv {

void Job::wake_in(Nanoseconds delay) noexcept {
    wake_at = session_.now() + delay;
    session_.want_tick(wake_at);
}

ClientSession::ClientSession(Lane& lane, WallClock& wall, uint64_t seed, Options options)
    : lane_(lane),
      options_(std::move(options)),
      shared_(options_.shared ? options_.shared : std::make_shared<SharedState>(options_.address_cache)),
      clock_(wall),
      random_(seed),
      nonce_(random_.next() | 1),
      times_(lane.reactor(), clock_),
      id_(clock_, links_),
      timer_(&ClientSession::on_tick, this) {}

ClientSession::~ClientSession() {
    close();
    lane_.reactor().cancel(timer_);
}

// --- starting ---

void ClientSession::start(std::function<void(const Status&)> ready) {
    ready_ = std::move(ready);
    start_deadline_ = now() + options_.connect_timeout;
    if (options_.partitions.empty() || options_.partitions.size() > kPartitionsMax)
        return started(failure(Code::kInvalid, "{} partitions: give between 1 and {} addresses",
                               options_.partitions.size(), kPartitionsMax));
    if (options_.session_order && options_.algorithm != Algorithm::kRampFast)
        return started(Status(
            Code::kInvalid, "session order needs RAMP-Fast: other algorithms do not list a version's keys"));
    if (options_.session_order) versions_ = std::make_unique<SessionVersions>(kSessionVersions);
    if (options_.one_sided != OneSided::kOff)
        if (Status status = reads_.buffers().open(lane_.fabric()); !status) return started(status);
    for (uint32_t i = 0; i < options_.partitions.size(); ++i)
        if (Status status = make_link(i, options_.partitions[i]); !status) return started(status);
    // With one address the partition's index is not yet known.
    if (links_.size() == 1) links_[0]->options().partition = UINT32_MAX;
    try_next_link();
    want_tick(now() + kTick);
}

bool reads_one_sidedly(const Options& options) {
    // GET* needs an algorithm whose first round returns the latest versions; RAMP-Small's returns timestamps.
    const Algorithm algorithm = options.algorithm;
    return options.one_sided != OneSided::kOff &&
           (algorithm == Algorithm::kRampFast || algorithm == Algorithm::kRampHybrid ||
            algorithm == Algorithm::kNone);
}

Status ClientSession::make_link(uint32_t partition, const std::string& uri) {
    auto address = fabric::Address::parse(uri, kDefaultPort);
    if (!address) return address.status();
    const auto count = static_cast<uint32_t>(options_.partitions.size());
    Link::Options link{.address = *address,
                       .partition = partition,
                       .partitions = count > 1 ? count : 0,
                       .nonce = nonce_,
                       .client_id = clock_.client(),
                       .transport = options_.transport,
                       .epoch = map_epoch(count),
                       .one_sided = reads_one_sidedly(options_)};
    links_.push_back(std::make_unique<Link>(lane_, std::move(link), *this));
    return Status::ok();
}

// Start with a partition chosen by the nonce: clients spread over the partitions, which then lease ids
// evenly.
void ClientSession::try_next_link() noexcept {
    next_try_ = now() + kTryNext;
    for (size_t i = 0; i < links_.size(); ++i) {
        Link& link = *links_[(nonce_ + i) % links_.size()];
        if (!link.wanted()) return link.want();
    }
}

// One address was given; its partition sends the others.
Status ClientSession::take_map(Link& link) {
    const uint32_t partition = link.facts().partition;
    options_.partitions = split_map(link.facts().map);
    if (options_.partitions.size() != link.facts().partitions)
        return failure(Code::kInvalid, "{} serves a store of {} partitions, but its map has {} addresses",
                       link.options().address.to_string(), link.facts().partitions,
                       options_.partitions.size());
    std::unique_ptr<Link> first = std::move(links_[0]);
    links_.clear();
    for (uint32_t i = 0; i < options_.partitions.size(); ++i) WSS_TRY(make_link(i, options_.partitions[i]));
    first->options().partition = partition;
    first->options().partitions = static_cast<uint32_t>(links_.size());
    first->options().epoch = map_epoch(static_cast<uint32_t>(links_.size()));
    links_[partition] = std::move(first);
    return Status::ok();
}

void ClientSession::on_ready(Link& link) noexcept {
    const PartitionFacts& facts = link.facts();
    if (!id_.greeted(link, now())) return;
    if (id_.is_changing()) want_tick(now());
    if (link.options().partition == UINT32_MAX)
        if (Status status = take_map(link); !status) return started(status);
    times_.greeted(facts.partition, partitions(), facts.ticks);
    clock_.observe(Timestamp::make(facts.ticks, 0));
    // Readers must end well before versions that they may still request are collected.
    read_window_ = std::min(read_window_, from_ms(std::max(facts.window_ms * 3 / 4, 10u)));
    if (!is_ready_) return started(Status::ok());
    wake_waiting();
}

void ClientSession::on_lost(Link&, const Status&) noexcept {
    if (!closed_) ++statistics_.reconnects;
}

void ClientSession::on_id_taken(Link& link) noexcept {
    id_.refused(link, now());
}

void ClientSession::started(const Status& status) noexcept {
    is_ready_ = status.is_ok();
    if (auto ready = std::exchange(ready_, nullptr)) ready(status);
}

Status ClientSession::check_links() const {
    for (const auto& link : links_)
        if (link->wanted() && !link->ready())
            return link->why().is_ok()
                       ? failure(Code::kUnavailable, "{}: no answer", link->options().address.to_string())
                       : Status(Code::kUnavailable, link->why().to_string());
    return Status(Code::kUnavailable, "the partitions did not answer");
}

// The error of a request whose deadline has passed. Names only partitions that the request needs.
Status ClientSession::why_late(const Job& job) const {
    const uint32_t partition = job.waits_for();
    if (partition >= links_.size()) return Status(Code::kTimedOut, "the partitions did not answer in time");
    const Link& link = *links_[partition];
    if (!link.ready())
        return failure(Code::kTimedOut, "{} cannot be reached{}{}", link.name(),
                       link.why().is_ok() ? "" : ": ", link.why().is_ok() ? "" : link.why().text());
    if (job.put_off_by == partition)
        return failure(Code::kTimedOut,
                       "{} was not ready in time: it is starting, is busy with its disk, or waits for a "
                       "partition that is down",
                       link.name());
    return failure(Code::kTimedOut, "{} did not answer in time", link.name());
}

Status ClientSession::too_far_ahead(uint32_t partition, Timestamp mine, Timestamp theirs) const {
    const uint64_t ahead_ms = mine > theirs ? (mine.ticks() - theirs.ticks()) / 1000 : 0;
    return failure(Code::kUnavailable,
                   "{} refuses a write whose timestamp is {}.{:03} s ahead of its clock (at most {} s are "
                   "allowed): the clock of that host, of this host, or of the host of another partition in "
                   "the same write is wrong; compare them (date) and run a time service on each",
                   links_[partition]->name(), ahead_ms / 1000, ahead_ms % 1000, kAheadMax_ticks / 1'000'000);
}

// Requests that wait to retry may wait for the partition that has just become ready.
void ClientSession::wake_waiting() noexcept {
    active_.for_each([&](Job& job) {
        if (job.wake_at != kNever) job.wake_at = now();
    });
    if (!active_.empty()) want_tick(now());
}

// --- requests ---

Job& JobPool::take(ClientSession& session, Request::Kind kind) {
    auto& idle = idle_[static_cast<size_t>(kind)];
    if (idle.empty()) {
        switch (kind) {
            case Request::Kind::kGetAll:
                idle.push_back(std::make_unique<GetJob>(session));
                break;
            case Request::Kind::kPutAll:
                idle.push_back(std::make_unique<PutJob>(session));
                break;
            case Request::Kind::kSnapshot:
                idle.push_back(std::make_unique<SnapshotJob>(session));
                break;
            default:
                idle.push_back(std::make_unique<SimpleJob>(session));
        }
        idle.back()->kind = kind;
    }
    busy_.push_back(std::move(idle.back()));
    idle.pop_back();
    busy_.back()->place = busy_.size() - 1;
    return *busy_.back();
}

void JobPool::give(Job& job) noexcept {
    const size_t at = job.place;
    std::swap(busy_[at], busy_.back());
    busy_[at]->place = at;
    idle_[static_cast<size_t>(job.kind)].push_back(std::move(busy_.back()));
    busy_.pop_back();
}

void ClientSession::submit(Request& request) noexcept {
    request.status = Status();
    request.rounds = request.retries = 0;
    if (closed_ || !is_ready_) {
        request.status = closed_ ? Status(Code::kClosed, "the client is closing") : check_links();
        if (request.done != nullptr) request.done(request);
        return;
    }
    Job& job = jobs_.take(*this, request.kind);
    job.deadline = lane_.reactor().clock().now() + options_.timeout;
    job.wake_at = kNever;
    job.put_off_by = kPartitionsMax;
    active_.push_back(job);
    want_tick(now() + kTick);
    job.begin(request);
}

void ClientSession::finish(Job& job, Request& request, Status status) noexcept {
    job.unlink();
    if (request.kind == Request::Kind::kGetAll) ++statistics_.get_all;
    if (request.kind == Request::Kind::kPutAll) ++statistics_.put_all;
    if (!status) ++statistics_.failed;
    statistics_.restarts += request.retries;
    request.status = std::move(status);
    jobs_.give(job);
    if (request.done != nullptr) request.done(request);
}

void ClientSession::close() noexcept {
    if (std::exchange(closed_, true)) return;
    while (Job* job = active_.front()) job->give_up(Status(Code::kClosed, "the client is closing"));
    for (auto& link : links_) {
        // Timestamps issued with a former id of this session are not later than those of the current id.
        const Timestamp last = Timestamp::make(clock_.issued().ticks(), link->facts().client_id);
        link->send_only(wire::KvKind::kGoodbye, 0, wire::KvDecision{.timestamp = last.value});
        link->close();
    }
    started(Status(Code::kClosed, "the client is closing"));
}

// --- one-sided reads ---

void ClientSession::on_read_done(Link&, uint64_t cookie, fabric::CompletionStatus status) noexcept {
    const OneSidedReads::Ended ended = reads_.end(cookie);
    if (ended.job != nullptr) ended.job->on_read_done(ended.index, status == fabric::CompletionStatus::kOk);
}

// --- time ---

// Deadlines are checked every kTick; a job can request an earlier wake-up.
void ClientSession::want_tick(Nanoseconds at) noexcept {
    at = std::min(at, now() + kTick);
    if (timer_.is_set() && at >= next_tick_) return;
    next_tick_ = at;
    lane_.reactor().set(timer_, at);
}

void ClientSession::on_tick(void* self) noexcept {
    static_cast<ClientSession*>(self)->tick();
}

Job* ClientSession::find_due() noexcept {
    Job* due = nullptr;
    active_.for_each([&](Job& job) {
        if (due == nullptr && (now() >= job.deadline || now() >= job.wake_at)) due = &job;
    });
    return due;
}

// If all partitions have refused this map or this client, returns the refusal of one of them. Otherwise
// returns nullptr, because a partition that has not answered yet may accept both.
const Status* ClientSession::refusal_of_all() const {
    for (const auto& link : links_)
        if (link->refusal()) return nullptr;
    return links_.empty() ? nullptr : &links_[nonce_ % links_.size()]->refusal();
}

// Runs at every tick until a partition has answered.
void ClientSession::begin_anywhere() noexcept {
    bool all_failed = true;
    for (const auto& link : links_) all_failed = all_failed && (!link->wanted() || !link->why().is_ok());
    if (const Status* refusal = refusal_of_all()) return started(*refusal);
    if (now() >= start_deadline_) return started(check_links());
    if (all_failed || now() >= next_try_) try_next_link();
}

void ClientSession::change_id() noexcept {
    if (!id_.is_changing()) return;
    bool is_used = false;
    active_.for_each([&](const Job& job) { is_used = is_used || job.uses_id(); });
    if (id_.change(is_used, now())) wake_waiting();
}

void ClientSession::tick() noexcept {
    if (closed_) return;
    if (!is_ready_ && ready_) begin_anywhere();
    change_id();
    // Handling one job may end another: search again after each. A tick has few due jobs.
    for (Job* due = find_due(); due != nullptr && !closed_; due = find_due()) {
        if (now() >= due->deadline) {
            due->give_up(why_late(*due));
        } else if (const uint32_t p = due->waits_for(); p < links_.size() && links_[p]->is_denied()) {
            due->give_up(Status(links_[p]->refusal()));
        } else {
            due->wake_at = kNever;
            due->on_wake();
        }
    }
    if (active_.empty() && (is_ready_ || !ready_)) return;
    Nanoseconds next = now() + kTick;
    active_.for_each([&](const Job& job) { next = std::min(next, job.wake_at); });
    want_tick(next);
}

}  // namespace wss::kv
