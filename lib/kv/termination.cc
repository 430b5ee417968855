// SPDX-License-Identifier: Apache-2.0
// Cooperative termination: what becomes of a transaction whose client prepared it and was not heard of again.
//
// The participants are asked. Any that has committed: commit. Any that has aborted, or never prepared (asking
// it makes it refuse for ever): abort. All prepared: commit, as the client might have. One that cannot be
// reached: wait; readers do not, that is RAMP's point. Those that wait so are asked about in turn, a bounded
// number at a time, and do not count as prepared ones; when they are very many, further transactions of that
// partition are not taken on.
//
// One that has forgotten what is that old refuses it for ever: had it committed, its client would have had
// our prepare, and it remembers commits for decision_window. So: abort. Where we have waited longer than that
// ourselves, nobody knows any more; it is an abort as well, counted apart and logged.
#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/kv/placement.h"
#include "lib/kv/service_peer.h"

namespace wss::kv {

namespace {

constexpr Nanoseconds kTerminationTick = from_ms(50);
constexpr size_t kTerminationsMax = 256;
// Of the replies: a participant that is connected and does not reply holds no place for longer.
constexpr Nanoseconds kInquiryLimit = from_s(3);
// After a restart: how long clients wait for partitions that cannot be asked.
constexpr Nanoseconds kRecoveryLimit = from_s(10);

}  // namespace

void Service::terminate_overdue() {
    Nanoseconds now = reactor_.now();
    if (now - last_termination_ < kTerminationTick) return;
    last_termination_ = now;
    // First: those that it defers are behind the others in what follows, and leave their places to these.
    give_up_late_inquiries(now);
    // What a restart found prepared is decided before clients are served.
    Nanoseconds age = ready_ ? options_.terminate_after : Nanoseconds{0};
    auto overdue = store_->overdue(age, kTerminationsMax);
    if (!ready_ && (overdue.empty() || now - started_ > kRecoveryLimit)) {
        if (!overdue.empty())
            log::warning(
                "key-value partition {}: serving with undecided transactions: their other partitions "
                "cannot be reached",
                options_.partition);
        ready_ = true;
    }
    counters_.terminations_waiting = store_->statistics().deferred;
    for (const store::Overdue& one : overdue)
        if (!terminations_.contains(one.timestamp.value) && terminations_.size() < kTerminationsMax)
            terminate(one);
}

void Service::give_up_late_inquiries(Nanoseconds now) {
    std::vector<Termination*> late;
    for (const auto& [timestamp, job] : terminations_)
        if (now >= job->deadline) late.push_back(job.get());
    for (Termination* job : late) {
        for (const auto& ask : job->asks) links_[ask->partition]->forget(ask->call);
        job->outstanding = 0;
        job->unsure = true;
        termination_over(*job);
    }
}

void Service::terminate(const store::Overdue& overdue) {
    auto made = std::make_unique<Termination>();
    Termination& job = *made;
    job.service = this;
    job.timestamp = overdue.timestamp;
    job.deadline = reactor_.now() + kInquiryLimit;
    job.is_old = overdue.age > options_.store.decision_window;
    terminations_[job.timestamp.value] = std::move(made);
    job.building = true;
    for (size_t i = 0; i + 1 < overdue.participants.size(); i += 2) {
        uint32_t partition = wire::get16(overdue.participants.data() + i);
        if (partition == options_.partition) continue;
        if (!ask_participant(job, partition)) job.unsure = true;
    }
    job.building = false;
    if (job.outstanding == 0) termination_over(job);
}

// What would be prepared could not be decided before that partition is back.
bool Service::waits_in_vain(std::span<const uint16_t> participants) const {
    return store_->defers_too_many() &&
           std::any_of(participants.begin(), participants.end(),
                       [&](uint16_t p) { return links_[p] != nullptr && !links_[p]->ready(); });
}

Link* Service::link_to(uint32_t partition) {
    if (partition >= links_.size()) return nullptr;
    auto& link = links_[partition];
    if (link) return link.get();
    auto address = fabric::Address::parse(options_.partitions[partition], kDefaultPort);
    if (!address) return nullptr;
    // Over the fabric that fits the address; partitions that listen on several name one in the map.
    std::string_view wanted = address->scheme == fabric::Scheme::kRdma  ? "verbs"
                              : address->scheme == fabric::Scheme::kTcp ? "tcp"
                              : address->scheme == fabric::Scheme::kShm ? "shm"
                                                                        : "sim";
    for (auto& lane : lanes_)
        if (lane->fabric().caps().name == wanted) {
            Link::Options options{.address = *address, .partition = partition};
            options.epoch = map_epoch(static_cast<uint32_t>(options_.partitions.size()));
            link = std::make_unique<Link>(*lane, std::move(options), *this);
            link->want();
            return link.get();
        }
    return nullptr;
}

bool Service::ask_participant(Termination& job, uint32_t partition) {
    Link* link = link_to(partition);
    if (link == nullptr) return false;
    auto ask = std::make_unique<Termination::Ask>();
    ask->partition = partition;
    ask->job = &job;
    ask->call.done = &Service::participant_answered;
    ask->call.context = ask.get();
    wire::KvDecision decision{.timestamp = job.timestamp.value};
    if (!link->call(ask->call, wire::KvKind::kCheck, 0, decision)) return false;
    job.asks.push_back(std::move(ask));
    ++job.outstanding;
    return true;
}

void Service::participant_answered(Call& call, const wire::KvHeader* header, wire::Bytes) noexcept {
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
    if (--job.outstanding == 0 && !job.building) job.service->termination_over(job);
}

void Service::termination_over(Termination& job) {
    Timestamp timestamp = job.timestamp;
    if (job.committed || (!job.aborted && !job.unsure && !job.forgot)) {
        if (store_->commit(timestamp) == store::Answer::kOk) ++counters_.terminated_commit;
    } else if (job.aborted || !job.unsure) {
        if (!job.aborted && job.is_old) guessed(timestamp);
        ++counters_.terminated_abort;
        store_->abort(timestamp, {});
    } else {
        store_->defer(timestamp);
    }
    terminations_.erase(timestamp.value);
}

void Service::guessed(Timestamp timestamp) {
    ++counters_.terminated_guess;
    log::warning(
        "key-value partition {}: transaction {} was aborted without knowing what became of it elsewhere: it "
        "was "
        "prepared here for longer than the others remember; its keys may have to be written again",
        options_.partition, timestamp.value);
}

}  // namespace wss::kv
