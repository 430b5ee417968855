// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/terminations.h"

#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/kv/placement.h"

namespace wss::kv {

namespace {

constexpr Nanoseconds kTerminationTick = from_ms(50);
constexpr size_t kTerminationsMax = 256;
// Limit for the replies: a connected participant that does not reply blocks the inquiry no longer than this.
constexpr Nanoseconds kInquiryLimit = from_s(3);
// After a restart: how long clients wait for partitions that cannot be reached. The time counts from the
// first tick: none could be asked while the logs of this process were loaded.
constexpr Nanoseconds kRecoveryLimit = from_s(10);

}  // namespace

void Terminations::tick() {
    const Nanoseconds now = partition_.reactor().now();
    if (now - last_ < kTerminationTick) return;
    last_ = now;
    if (!began_) began_ = now;
    // Late inquiries end first: they free their places, and their transactions go to the end of the deferred
    // ones.
    give_up_late(now);
    // Transactions that a restart found prepared are decided before clients are served.
    const Nanoseconds age = partition_.ready() ? partition_.options().terminate_after : Nanoseconds{0};
    auto overdue = partition_.store().overdue(age, kTerminationsMax);
    if (!partition_.ready() && (overdue.empty() || now - *began_ > kRecoveryLimit)) {
        if (!overdue.empty())
            log::warning(
                "key-value partition {}: serving with undecided transactions: their other partitions "
                "cannot be reached",
                partition_.options().partition);
        partition_.set_ready(true);
    }
    partition_.counters().terminations_waiting = partition_.store().statistics().deferred;
    for (const store::Overdue& one : overdue)
        if (!jobs_.contains(one.timestamp.value) && jobs_.size() < kTerminationsMax) terminate(one);
}

void Terminations::give_up_late(Nanoseconds now) {
    std::vector<Termination*> late;
    for (const auto& [timestamp, job] : jobs_)
        if (now >= job->deadline) late.push_back(job.get());
    for (Termination* job : late) {
        for (const auto& ask : job->asks) links_[ask->partition]->forget(ask->call);
        job->outstanding = 0;
        job->unsure = true;
        over(*job);
    }
}

void Terminations::terminate(const store::Overdue& overdue) {
    auto made = std::make_unique<Termination>();
    Termination& job = *made;
    job.owner = this;
    job.timestamp = overdue.timestamp;
    job.deadline = partition_.reactor().now() + kInquiryLimit;
    job.is_old = overdue.age > partition_.options().store.decision_window;
    jobs_[job.timestamp.value] = std::move(made);
    job.building = true;
    for (size_t i = 0; i + 1 < overdue.participants.size(); i += 2) {
        uint32_t partition = wire::get16(overdue.participants.data() + i);
        if (partition == partition_.options().partition) continue;
        if (!ask(job, partition)) job.unsure = true;
    }
    job.building = false;
    if (job.outstanding == 0) over(job);
}

bool Terminations::waits_in_vain(std::span<const uint16_t> participants) const {
    return partition_.store().defers_too_many() &&
           std::any_of(participants.begin(), participants.end(),
                       [&](uint16_t p) { return links_[p] != nullptr && !links_[p]->ready(); });
}

void Terminations::stop() {
    for (auto& [timestamp, job] : jobs_)
        for (auto& ask : job->asks)
            if (links_[ask->partition]) links_[ask->partition]->forget(ask->call);
    jobs_.clear();
    for (auto& link : links_)
        if (link) link->close();
}

Link* Terminations::link_to(uint32_t partition) {
    if (partition >= links_.size()) return nullptr;
    auto& link = links_[partition];
    if (link) return link.get();
    auto address = fabric::Address::parse(partition_.options().partitions[partition], kDefaultPort);
    if (!address) return nullptr;
    // Use the fabric of the address's scheme. A partition that listens on several fabrics has one of them in
    // the map.
    const std::string_view wanted = fabric::fabric_name(address->scheme);
    for (const auto& lane : lanes_)
        if (lane->fabric().caps().name == wanted) {
            Link::Options options{.address = *address, .partition = partition};
            options.epoch = map_epoch(partition_.count());
            link = std::make_unique<Link>(*lane, std::move(options), *this);
            link->want();
            return link.get();
        }
    return nullptr;
}

bool Terminations::ask(Termination& job, uint32_t partition) {
    Link* link = link_to(partition);
    if (link == nullptr) return false;
    if (link->refusal().code() == Code::kPermission) {
        static log::Limiter limiter(1);
        if (limiter.allow())
            log::warning(
                "key-value partition {}: undecided transactions wait: {}; add NAME=partition to --kv-access "
                "there, for the name in this partition's --secret-file",
                partition_.options().partition, link->refusal().text());
        return false;
    }
    auto made = std::make_unique<Termination::Ask>();
    made->partition = partition;
    made->job = &job;
    made->call.done = &Terminations::answered;
    made->call.context = made.get();
    wire::KvDecision decision{.timestamp = job.timestamp.value};
    if (!link->call(made->call, wire::KvKind::kInquire, 0, decision)) return false;
    job.asks.push_back(std::move(made));
    ++job.outstanding;
    return true;
}

void Terminations::answered(Call& call, const wire::KvHeader* header, wire::Bytes) noexcept {
    auto& ask = *static_cast<Termination::Ask*>(call.context);
    Termination& job = *ask.job;
    wire::KvStatus status = header != nullptr ? header->status : wire::KvStatus::kNotReady;
    if (status == wire::KvStatus::kCommitted)
        job.committed = true;
    else if (status == wire::KvStatus::kAborted)
        job.aborted = true;
    else if (status == wire::KvStatus::kTooOld)
        job.forgot = true;
    else if (status != wire::KvStatus::kPrepared)
        job.unsure = true;
    if (--job.outstanding == 0 && !job.building) job.owner->over(job);
}

void Terminations::over(Termination& job) {
    const Timestamp timestamp = job.timestamp;
    store::Store& store = partition_.store();
    if (job.committed || (!job.aborted && !job.unsure && !job.forgot)) {
        if (store.commit(timestamp) == store::Answer::kOk) ++partition_.counters().terminated_commit;
    } else if (job.aborted || !job.unsure) {
        if (!job.aborted && job.is_old) guessed(timestamp);
        ++partition_.counters().terminated_abort;
        store.abort(timestamp, {});
    } else {
        store.defer(timestamp);
    }
    jobs_.erase(timestamp.value);
}

void Terminations::guessed(Timestamp timestamp) {
    ++partition_.counters().terminated_guess;
    log::warning(
        "key-value partition {}: transaction {} was aborted although its outcome on the other partitions is "
        "unknown: it was prepared here for longer than the others keep outcomes; its keys may have to be "
        "written again",
        partition_.options().partition, timestamp.value);
}

}  // namespace wss::kv
