// SPDX-License-Identifier: Apache-2.0
// The course of a get_all: start, messages, end. The one-sided reads are in get_job_read.cc, the RAMP
// algorithms in get_job_rounds.cc.
#include "lib/kv/client/get_job.h"

#include <algorithm>

namespace wss::kv {

namespace {

constexpr Nanoseconds kRetryAfterLoss = from_ms(10);
constexpr int64_t kLockBackoff_us = 50;
// Number of retries after a failure that a retry is not expected to cure.
constexpr uint32_t kFailuresMax = 3;

void remember_address(ClientSession& session, const ReadSet::KeyRead& key,
                      const wire::KvGetReply::Item& reply) noexcept {
    if (reply.slot_bytes == 0) return;
    const PartitionFacts& facts = session.link(key.partition).facts();
    session.addresses().put(
        key.fingerprint, facts.arena_epoch,
        {.offset = reply.slot, .bytes = reply.slot_bytes, .incarnation = reply.slot_incarnation});
}

}  // namespace

bool GetJob::one_sided() const {
    return reads_one_sidedly(session_.options());
}

void GetJob::begin(Request& request) noexcept {
    base_ = &request;
    request_ = static_cast<GetAll*>(&request);
    denial_ = Status();
    if (Status status = prepare_items(); !status) return end(std::move(status));
    if (request_->items.empty()) return end(Status::ok());
    start_transaction();
}

Status GetJob::prepare_items() {
    size_t count = request_->items.size();
    if (count > kItemsMax)
        return failure(Code::kInvalid, "{} keys in one transaction: at most {} are allowed", count,
                       kItemsMax);
    set_.begin(count);
    waiting_.resize(session_.partitions());
    for (size_t i = 0; i < count; ++i) {
        const std::string& key = request_->items[i].key;
        if (key.empty() || key.size() > kKeyMax)
            return failure(Code::kInvalid, "a key of {} bytes: between 1 and {} are allowed", key.size(),
                           kKeyMax);
        set_[i].fingerprint = fingerprint(key);
        set_[i].partition = partition_of(set_[i].fingerprint, session_.partitions());
    }
    set_.sort();
    return Status::ok();
}

bool GetJob::reaches_all() {
    bool all = true;  // link() starts missing connections, all at once
    for (size_t i = 0; i < request_->items.size(); ++i) all = session_.link(set_[i].partition).ready() && all;
    return all;
}

void GetJob::start_transaction() noexcept {
    // Reading only some of the partitions now is useless: they would have to be read again.
    if (!reaches_all()) return wake_in(kRetryAfterLoss);
    began_ = session_.now();
    round_ = 1;
    failed_ = false;
    failure_ = nullptr;
    only_partition_ = true;
    const SessionVersions* order = session_.order();
    for (size_t i = 0; i < request_->items.size(); ++i) {
        KeyRead& key = set_[i];
        key.timestamp = {};
        key.required = key.floor = order != nullptr ? order->of(key.fingerprint) : Timestamp{};
        key.fallback = Fallback::kNone;
        key.expires = 0;
        key.deleted = key.settled = key.has_view = key.has_cells = false;
        key.torn = 0;
        key.metadata.clear();
        GetAll::Item& item = request_->items[i];
        item.value.clear();
        item.found = false;
        item.explain = {};
        only_partition_ = only_partition_ && key.partition == set_[0].partition;
    }
    Algorithm algorithm = session_.options().algorithm;
    bool locks = algorithm == Algorithm::kLockSequential || algorithm == Algorithm::kLockParallel;
    owner_ = locks ? session_.clock().next().value : 0;
    locked_ = false;
    if (locks) {
        auto& wanted = locks_.wanted();
        wanted.clear();
        for (size_t i = 0; i < request_->items.size(); ++i)
            wanted.push_back({set_[i].partition, request_->items[i].key});
    }
    if (algorithm != Algorithm::kLockSequential) return round_one();
    locks_.acquire(
        owner_, false, true,
        [](void* self, LockResult result) noexcept {
            GetJob& job = *static_cast<GetJob*>(self);
            job.locked_ = true;
            if (result == LockResult::kGranted) return job.round_one();
            if (result == LockResult::kDenied) job.denial_ = job.locks_.denial();
            job.restart("could not obtain a lock");
        },
        this);
}

void GetJob::round_one() noexcept {
    starting_ = true;
    for (uint32_t i = 0; i < request_->items.size(); ++i)
        if (!one_sided() || !try_read(i)) ask_later(i);
    send_asks();
    starting_ = false;
    step_done();
}

// --- messages ---

void GetJob::ask_later(uint32_t item) {
    waiting_[set_[item].partition].push_back(item);
}

void GetJob::send_asks() noexcept {
    for (uint32_t partition = 0; partition < waiting_.size(); ++partition) {
        if (waiting_[partition].empty()) continue;
        auto free = std::find_if(asks_.begin(), asks_.end(), [](const auto& ask) { return !ask->busy; });
        if (free == asks_.end()) free = asks_.insert(asks_.end(), std::make_unique<Ask>());
        Ask& ask = **free;
        ask.busy = true;
        ask.partition = partition;
        ask.items.swap(waiting_[partition]);
        waiting_[partition].clear();
        ask.call.done = &GetJob::on_reply;
        ask.call.context = this;
        ask.call.index = static_cast<uint32_t>(free - asks_.begin());
        send_ask(ask);
    }
}

void GetJob::send_ask(Ask& ask) noexcept {
    const Options& options = session_.options();
    wire::KvGet& get = session_.scratch().request;
    get.items.clear();
    get.among.clear();
    get.owner = 0;
    uint8_t flags = wire::kKvGetValues;
    if (options.algorithm == Algorithm::kRampSmall && round_ == 1 && !only_partition_) flags = 0;
    if (one_sided()) flags |= wire::kKvGetAddresses;
    if (options.algorithm == Algorithm::kLockParallel) {
        flags |= wire::kKvGetLocked;
        get.owner = owner_;
        locked_ = true;
    }
    if (!ask.items.empty())
        flags |=
            static_cast<uint8_t>(static_cast<uint8_t>(set_[ask.items[0]].fallback) << wire::kKvFallbackShift);
    bool by_set = round_ > 1 && options.algorithm != Algorithm::kRampFast;
    if (by_set) get.among = set_.among();
    for (uint32_t item : ask.items) {
        wire::KvGet::Item& wanted = get.items.emplace_back();
        wanted.key = request_->items[item].key;
        if (round_ == 1) continue;
        wanted.select = by_set ? wire::KvSelect::kAmong : wire::KvSelect::kExact;
        wanted.timestamp = set_[item].required.value;
    }
    ++session_.statistics().messages;
    session_.statistics().reads_by_message += ask.items.size();
    if (session_.link(ask.partition).call(ask.call, wire::KvKind::kGet, flags, get)) {
        ++outstanding_;
    } else {
        ask.busy = false;
        failed_ = true;
    }
}

void GetJob::on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
    GetJob& job = *static_cast<GetJob*>(call.context);
    Ask& ask = *job.asks_[call.index];
    --job.outstanding_;
    ask.busy = false;
    job.reply_arrived(ask, header, message);
    job.step_done();
}

void GetJob::reply_arrived(Ask& ask, const wire::KvHeader* header, wire::Bytes message) noexcept {
    put_off_by =
        header != nullptr && header->status == wire::KvStatus::kNotReady ? ask.partition : kPartitionsMax;
    if (header == nullptr) {
        failed_ = true;
        return;
    }
    if (header->status != wire::KvStatus::kOk) return refused(ask, header->status, message);
    wire::KvGetReply& reply = session_.scratch().reply;
    if (!wire::parse(message, reply) || reply.items.size() != ask.items.size()) {
        failed_ = true;
        failure_ = "a partition's answer was malformed";
        return;
    }
    for (size_t i = 0; i < ask.items.size(); ++i) take_reply(ask.items[i], reply.items[i]);
}

void GetJob::refused(const Ask& ask, wire::KvStatus status, wire::Bytes message) noexcept {
    failed_ = true;
    if (status == wire::KvStatus::kPermission) denial_ = session_.link(ask.partition).denied(message);
    if (status == wire::KvStatus::kLockConflict) ++session_.statistics().lock_conflicts;
    if (status == wire::KvStatus::kWrongPartition)
        failure_ =
            "the partitions disagree about which partition holds a key: check the addresses and their order";
    else if (status == wire::KvStatus::kNoMemory)
        failure_ = "a partition has no room for more locks";
    if (status != wire::KvStatus::kMalformed && status != wire::KvStatus::kUnsupported &&
        status != wire::KvStatus::kIo)
        return;
    wire::KvText text;
    const bool says_why = wire::parse(message, text) && !text.text.empty();
    refusal_ = fmt::format("{} refuses the request: {}", session_.link(ask.partition).name(),
                           says_why ? text.text.substr(0, 200) : wire::to_string(status));
    failure_ = refusal_.c_str();
}

void GetJob::take_reply(uint32_t index, const wire::KvGetReply::Item& reply) noexcept {
    KeyRead& key = set_[index];
    GetAll::Item& item = request_->items[index];
    remember_address(session_, key, reply);
    item.explain.rounds += 1;
    item.explain.bytes += reply.value.size() + reply.metadata.size();
    item.explain.path = Path::kMessage;
    bool exists = reply.found == wire::KvFound::kExact || reply.found == wire::KvFound::kNewer;
    if (round_ > 1 && !exists) {
        // With RAMP-Fast the version was written (unless two keys have one fingerprint), so its partition has
        // lost it. The other algorithms guessed from a set and keep the version that they have.
        key.settled = true;
        // A version that this session has seen may have been collected since, if the key was deleted.
        bool owed = key.required > key.timestamp && key.required > key.floor;
        if (session_.options().algorithm == Algorithm::kRampFast && owed) {
            failed_ = true;
            failure_ = "a version that was written is gone: its partition has lost data";
        }
        // RAMP-Small has no value yet for the version that its first round named.
        if (session_.options().algorithm == Algorithm::kRampSmall && !key.timestamp.is_none()) failed_ = true;
        return;
    }
    // The best version of the set. A filter that required a newer one was a false positive.
    if (round_ > 1 && session_.options().algorithm == Algorithm::kRampHybrid) key.settled = true;
    if (!exists || Timestamp{reply.timestamp} < key.timestamp) return;
    key.timestamp = {reply.timestamp};
    key.expires = reply.expires;
    key.deleted = reply.is_deleted;
    key.metadata.assign(reply.metadata.begin(), reply.metadata.end());
    auto* text = reinterpret_cast<const char*>(reply.value.data());
    item.value.assign(text, reply.value.size());
}

// --- steps ---

void GetJob::step_done() noexcept {
    if (outstanding_ > 0 || starting_) return;
    // Keys whose one-sided reads failed are read by message now.
    if (!failed_) {
        starting_ = true;
        send_asks();
        starting_ = false;
        if (outstanding_ > 0) return;
    }
    if (failed_) return restart(failure_);
    evaluate();
}

void GetJob::restart(const char* why) noexcept {
    release_reads();
    for (auto& waiting : waiting_) waiting.clear();
    if (locked_) locks_.release(owner_);
    locked_ = false;
    if (!denial_) return end(std::move(denial_));
    if (failure_ != nullptr && base_->retries >= kFailuresMax)
        return end(Status(Code::kUnavailable, failure_));
    if (++base_->retries > kRestartsMax)
        return end(
            Status(Code::kUnavailable, why != nullptr ? why : "the transaction was restarted too often"));
    bool locking = owner_ != 0;
    int64_t spread = kLockBackoff_us << std::min(base_->retries, 7u);
    wake_in(locking ? from_us(static_cast<int64_t>(session_.random().below(static_cast<uint64_t>(spread))))
                    : kRetryAfterLoss);
}

void GetJob::on_wake() noexcept {
    start_transaction();
}

uint32_t GetJob::waits_for() const {
    for (size_t i = 0; i < request_->items.size(); ++i)
        if (!session_.link(set_[i].partition).ready()) return set_[i].partition;
    for (const auto& ask : asks_)
        if (ask->busy) return ask->partition;
    return put_off_by;
}

void GetJob::give_up(const Status& why) noexcept {
    for (auto& ask : asks_) {
        if (!ask->busy) continue;
        session_.link(ask->partition).forget(ask->call);
        ask->busy = false;
    }
    locks_.forget();
    if (owner_ != 0) locks_.release(owner_);
    for (KeyRead& key : set_.all()) {
        if (key.reading == Reading::kNone) continue;
        session_.reads().abandon(key.cookie);
        key.reading = Reading::kNone;
        key.chunk = ReadBuffers::kNone;
    }
    for (auto& waiting : waiting_) waiting.clear();
    release_reads();
    outstanding_ = 0;
    end(why);
}

void GetJob::release_reads() noexcept {
    for (KeyRead& key : set_.all()) {
        key.has_view = key.has_cells = false;
        if (key.chunk == ReadBuffers::kNone || key.reading != Reading::kNone) continue;
        session_.reads().buffers().give_back(key.chunk);
        key.chunk = ReadBuffers::kNone;
    }
}

void GetJob::end(Status status) noexcept {
    release_reads();
    owner_ = 0;
    session_.finish(*this, *base_, std::move(status));
}

}  // namespace wss::kv
