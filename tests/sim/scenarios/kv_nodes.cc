// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/kv_nodes.h"

#include <fmt/format.h>

#include <algorithm>

namespace wss::sim {

namespace {

constexpr Nanoseconds kRequestTimeout = from_s(8);
// A request may outlive its limit by the interval of the timer that checks limits.
constexpr Nanoseconds kGrace = from_s(1);

}  // namespace

// --- partition ---

KvPartition::KvPartition(Node& node, uint32_t index, const KvOptions& options, std::vector<std::string> map,
                         kv::store::Log& log)
    : node_(node),
      index_(index),
      options_(options),
      map_(std::move(map)),
      log_(log),
      wall_(node),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, options.network)),
      lane_(std::move(*kv::Lane::create(reactor_, *fabric_))) {
    const auto arm = [this] {
        return lane_->poller().arm() && lane_->arm() && (!service_ || service_->store().arm());
    };
    options.sleep ? node_.run(reactor_, arm) : node_.run(reactor_);
}

KvPartition::~KvPartition() {
    node_.forget(reactor_);
}

Status KvPartition::start() {
    kv::ServiceOptions options;
    options.partition = index_;
    options.partitions = map_;
    options.arena_bytes = options_.arena_bytes;
    options.store.durability = kv::store::Durability::kSync;
    options.store.window = from_ms(options_.window_ms);
    options.store.window_floor = std::min(options.store.window, options.store.window_floor);
    if (kv::mutated(kv::Mutation::kNoWindow)) options.store.window = options.store.window_floor = {0};
    options.terminate_after = from_ms(300);
    options.seed = node_.world().random().next();
    auto service = kv::Service::create(reactor_, {lane_}, wall_, &log_, options);
    if (!service) return service.status();
    service_ = std::move(*service);
    node_.wake();
    auto bound = service_->listen(0, *fabric::Address::parse(map_[index_], kv::kDefaultPort));
    return bound.status();
}

void KvPartition::stop() {
    if (service_) service_->stop([this] { stopped_ = true; });
    node_.wake();
}

bool KvPartition::sleeps_on_frame() {
    return node_.asleep(reactor_) && lane_->rings_have_frames();
}

bool KvPartition::calm() {
    return service_ && service_->ready() && service_->store().statistics().prepared == 0;
}

// --- client ---

kv::check::CheckerOptions KvShared::checker_options(const KvOptions& options) {
    return {
        .atomic = options.algorithm != kv::Algorithm::kNone, .remember = 1 << 12, .keys = 1 << 10, .run = 7};
}

KvClient::KvClient(Node& node, std::vector<std::string> map, kv::Algorithm algorithm, KvShared& shared)
    : node_(node),
      shared_(shared),
      wall_(node),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, shared.options.network)),
      lane_(std::move(*kv::Lane::create(reactor_, *fabric_))),
      random_(node.world().random().next()) {
    kv::Options options;
    options.partitions = std::move(map);
    options.algorithm = algorithm;
    options.transport = shared.options.transport;
    options.one_sided = shared.options.one_sided;
    options.timeout = kRequestTimeout;
    options.connect_timeout = from_s(600);                 // partitions restart meanwhile
    options.address_cache = shared.options.address_cache;  // empty in each restarted client
    session_ = std::make_unique<kv::ClientSession>(*lane_, wall_, random_.next(), std::move(options));
    for (uint32_t i = 0; i < shared.options.depth; ++i) {
        auto transaction = std::make_unique<Transaction>();
        transaction->client = this;
        transaction->checker = shared.checker.open_session();
        transaction->get.context = transaction->put.context = transaction->put_if.context = transaction.get();
        transaction->get.done = [](kv::Request& request) noexcept {
            auto& over = *static_cast<Transaction*>(request.context);
            over.client->get_over(over);
        };
        transaction->put.done = [](kv::Request& request) noexcept {
            auto& over = *static_cast<Transaction*>(request.context);
            over.client->put_over(over);
        };
        transaction->put_if.done = [](kv::Request& request) noexcept {
            auto& over = *static_cast<Transaction*>(request.context);
            over.client->put_if_over(over);
        };
        transactions_.push_back(std::move(transaction));
    }
    const auto arm = [this] { return lane_->poller().arm() && lane_->arm(); };
    shared.options.sleep ? node_.run(reactor_, arm) : node_.run(reactor_);
}

KvClient::~KvClient() {
    node_.forget(reactor_);
}

bool KvClient::sleeps_on_frame() {
    return node_.asleep(reactor_) && lane_->rings_have_frames();
}

void KvClient::close() {
    session_->close();
    node_.wake();
}

void KvClient::start() {
    node_.wake();
    session_->start([this](const Status& status) {
        ready_ = status.is_ok();
        failed_ = !ready_;
    });
}

void KvClient::died() {
    for (auto& transaction : transactions_)
        if (transaction->used && transaction->writing)
            transaction->checker->end_write(
                transaction->writer, kv::check::Outcome::kUnknown,
                transaction->conditional ? transaction->put_if.timestamp : transaction->put.timestamp,
                transaction->prints);
}

void KvClient::choose(Transaction& transaction) {
    const KvOptions& options = shared_.options;
    uint64_t count = 1 + random_.below(options.keys_per_transaction);
    keys_.clear();
    transaction.prints.clear();
    while (keys_.size() < count) {
        // The square makes some keys hot.
        uint64_t key = random_.below(options.keys) * random_.below(options.keys) / options.keys;
        std::string name = fmt::format("key{}", key);
        if (std::find(keys_.begin(), keys_.end(), name) != keys_.end()) {
            --count;
            continue;
        }
        transaction.prints.push_back(kv::fingerprint(name));
        keys_.push_back(std::move(name));
    }
}

bool KvClient::begin_one() {
    if (!ready_) return false;
    auto free = std::find_if(transactions_.begin(), transactions_.end(),
                             [](const auto& transaction) { return !transaction->used; });
    if (free == transactions_.end()) return false;
    Transaction& transaction = **free;
    choose(transaction);
    if (keys_.empty()) return false;
    transaction.used = true;
    transaction.begun = node_.world().now();
    const bool writing = random_.below(100) < shared_.options.write_percent;
    ++under_way_;
    ++shared_.begun;
    const bool expecting = writing && random_.below(100) < shared_.options.conditional_percent;
    transaction.conditional = expecting && random_.chance(3);
    transaction.updating = expecting && !transaction.conditional;
    transaction.writing = writing && !transaction.updating;  // an update reads first
    if (transaction.conditional)
        begin_put_if(transaction);
    else
        transaction.writing ? begin_put(transaction) : begin_get(transaction);
    node_.wake();  // an idle client may be asleep
    return true;
}

void KvClient::begin_put(Transaction& transaction) {
    transaction.put.conditions.clear();
    note_floors(transaction);
    stamp_put(transaction);
}

// Writes some of the keys that were read, on condition that none of them has changed.
void KvClient::begin_update(Transaction& transaction) {
    transaction.writing = true;
    transaction.begun = node_.world().now();
    transaction.put.conditions.clear();
    transaction.put.expect_unchanged(transaction.get);
    note_floors(transaction);
    transaction.expected.clear();
    for (size_t i = 0; i < transaction.prints.size(); ++i)
        transaction.expected.push_back(
            {transaction.prints[i], transaction.put.conditions[i].expected, transaction.floors[i]});
    const size_t written = 1 + random_.below(transaction.prints.size());
    keys_.clear();
    for (size_t i = 0; i < written; ++i) keys_.push_back(transaction.get.items[i].key);
    transaction.prints.resize(written);
    transaction.floors.resize(written);
    stamp_put(transaction);
}

void KvClient::stamp_put(Transaction& transaction) {
    transaction.writer = transaction.checker->begin_write();
    transaction.put.items.clear();
    transaction.put.fault = {};
    transaction.put.timestamp = {};
    if (!shared_.healed && random_.chance(shared_.options.half_one_in)) {
        transaction.put.fault.skip_prepare = random_.chance(2) ? random_.next() : 0;
        transaction.put.fault.skip_commit = random_.next();
        // A client that has not prepared everywhere must not commit anywhere: no RAMP client would do that.
        transaction.put.fault.die_after_prepare =
            transaction.put.fault.skip_prepare != 0 || random_.chance(2);
    }
    size_t length = std::max<size_t>(shared_.options.value_bytes, kv::check::stamp_bytes(keys_.size()));
    for (size_t i = 0; i < keys_.size(); ++i) {
        auto& item = transaction.put.items.emplace_back();
        item.key = keys_[i];
        kv::check::write_stamp(item.value, length, transaction.writer, transaction.prints[i],
                               transaction.prints);
    }
    session_->submit(transaction.put);
}

// Replaces the version that was read last, or creates the first one.
void KvClient::begin_put_if(Transaction& transaction) {
    keys_.resize(1);
    transaction.prints.resize(1);
    note_floors(transaction);
    transaction.writer = transaction.checker->begin_write();
    kv::PutIf& put = transaction.put_if;
    put.key = keys_[0];
    put.expected = versions_[put.key];
    put.condition = put.expected.is_none() ? kv::PutIf::Condition::kAbsent : kv::PutIf::Condition::kTimestamp;
    put.timestamp = {};
    size_t length = std::max<size_t>(shared_.options.value_bytes, kv::check::stamp_bytes(1));
    kv::check::write_stamp(put.value, length, transaction.writer, transaction.prints[0], transaction.prints);
    session_->submit(put);
}

void KvClient::begin_get(Transaction& transaction) {
    transaction.get.items.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) transaction.get.items[i].key = keys_[i];
    note_floors(transaction);
    session_->submit(transaction.get);
}

void KvClient::note_floors(Transaction& transaction) {
    transaction.floors.clear();
    for (uint64_t print : transaction.prints)
        transaction.floors.push_back(transaction.checker->floor_of(print));
}

void KvClient::put_over(Transaction& transaction) {
    using kv::check::Outcome;
    const kv::PutAll& put = transaction.put;
    bool halved = put.fault.skip_prepare != 0 || put.fault.skip_commit != 0 || put.fault.die_after_prepare;
    const bool lost = put.failed_condition.has_value();
    Outcome outcome = put.status            ? Outcome::kCommitted
                      : put.outcome_unknown ? Outcome::kUnknown
                                            : Outcome::kFailed;
    // A commit that skipped messages gives no guarantee.
    if (halved && !lost) outcome = Outcome::kUnknown;
    // Without concurrency control, a write takes effect on one partition after another, in no guaranteed
    // order.
    const bool in_order = shared_.options.algorithm != kv::Algorithm::kNone || !put.conditions.empty();
    const auto floors =
        in_order ? std::span<const kv::Timestamp>(transaction.floors) : std::span<const kv::Timestamp>();
    if (outcome == Outcome::kCommitted && !put.conditions.empty())
        transaction.checker->end_conditional(transaction.writer, put.timestamp, transaction.prints,
                                             transaction.expected, floors);
    else
        transaction.checker->end_write(transaction.writer, outcome, put.timestamp, transaction.prints,
                                       floors);
    shared_.conditions_won += outcome == Outcome::kCommitted && !put.conditions.empty();
    shared_.conditions_lost += lost;
    node_.world().note(put.timestamp.value);
    write_over(transaction, outcome, !halved && !lost, put.status);
}

void KvClient::put_if_over(Transaction& transaction) {
    using kv::check::Outcome;
    const kv::PutIf& put = transaction.put_if;
    const bool lost = put.status.code() == Code::kRefused;
    Outcome outcome = put.status            ? Outcome::kCommitted
                      : put.outcome_unknown ? Outcome::kUnknown
                                            : Outcome::kFailed;
    shared_.conditions_won += outcome == Outcome::kCommitted;
    shared_.conditions_lost += lost;
    if (outcome == Outcome::kCommitted)
        transaction.checker->end_conditional(transaction.writer, put.timestamp, transaction.prints,
                                             {{{transaction.prints[0], put.expected, transaction.floors[0]}}},
                                             transaction.floors);
    else
        transaction.checker->end_write(transaction.writer, outcome,
                                       outcome == Outcome::kUnknown ? put.timestamp : kv::Timestamp{},
                                       transaction.prints);
    node_.world().note(put.timestamp.value);
    versions_[put.key] = lost || outcome == Outcome::kCommitted ? put.timestamp : kv::Timestamp{};
    write_over(transaction, outcome, !lost, put.status);
}

void KvClient::write_over(Transaction& transaction, kv::check::Outcome outcome, bool promised,
                          const Status& status) {
    using kv::check::Outcome;
    if (status.code() == Code::kInternal) shared_.fail(status.to_string());
    shared_.failed += outcome == Outcome::kFailed;
    shared_.unknown += outcome == Outcome::kUnknown;
    ++shared_.writes;
    ++shared_.ended;
    --under_way_;
    transaction.used = false;
    if (node_.world().now() - transaction.begun > kRequestTimeout + kGrace)
        shared_.fail("a write outlived its limit");
    if (shared_.healed && promised && outcome != Outcome::kCommitted &&
        transaction.begun >= shared_.healed_at)
        shared_.fail("a write failed after everything was healed: " + status.to_string());
}

void KvClient::get_over(Transaction& transaction) {
    ++shared_.reads;
    check_read(transaction);
    if (transaction.updating && transaction.get.status) return begin_update(transaction);
    ++shared_.ended;
    --under_way_;
    transaction.used = false;
}

void KvClient::check_read(Transaction& transaction) {
    if (node_.world().now() - transaction.begun > kRequestTimeout + kGrace)
        shared_.fail("a read outlived its limit");
    if (!transaction.get.status) {
        ++shared_.failed;
        if (shared_.healed && transaction.begun >= shared_.healed_at)
            shared_.fail("a read failed after everything was healed: " + transaction.get.status.to_string());
        return;
    }
    std::vector<kv::check::ReadItem> items;
    for (size_t i = 0; i < transaction.get.items.size(); ++i) {
        const kv::GetAll::Item& item = transaction.get.items[i];
        items.push_back({.key = transaction.prints[i],
                         .timestamp = item.timestamp,
                         .found = item.found,
                         .value = item.value,
                         .siblings = item.siblings,
                         .floor = transaction.floors[i]});
        node_.world().note(item.timestamp.value);
        versions_[item.key] = item.timestamp;
    }
    transaction.checker->read(items);
    shared_.second_rounds += transaction.get.rounds > 1;
    for (const auto& item : transaction.get.items)
        shared_.one_sided += item.explain.path == kv::Path::kOneSided;
}

}  // namespace wss::sim
