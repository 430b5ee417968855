// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/check/checker.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>

#include "lib/base/assert.h"
#include "lib/base/clock.h"

namespace wss::kv::check {

constexpr size_t kExamplesMax = 20;
constexpr size_t kOwnKeysMax = 1 << 20;
constexpr size_t kTimestampsMax = 1 << 20;  // entries of one generation
constexpr uint32_t kProbesMax = 16;

std::string_view to_string(Violation violation) {
    static constexpr std::string_view kNames[kViolations] = {
        "fractured read", "torn value", "wrong key", "thin air", "dirty read", "identity",
        "stale read",     "own write",  "collision", "clock",    "condition",  "lost write"};
    return kNames[static_cast<size_t>(violation)];
}

uint64_t Report::total() const {
    uint64_t sum = 0;
    for (uint64_t count : violations) sum += count;
    return sum;
}

std::string Report::to_string() const {
    std::string text =
        fmt::format("{} reads and {} writes checked, {} not checked (forgotten), ", reads, writes, unchecked);
    if (total() == 0) return text + "no violation";
    text += fmt::format("{} VIOLATIONS:", total());
    for (size_t i = 0; i < kViolations; ++i)
        if (violations[i] != 0)
            text += fmt::format(" {} {};", violations[i], check::to_string(static_cast<Violation>(i)));
    for (const std::string& example : examples) text += "\n  " + example;
    return text;
}

// State of one write. begin_write() stores `sequence` last when it reuses the entry; readers check it before
// and after.
struct Checker::Write {
    std::atomic<uint64_t> sequence{UINT64_MAX};
    std::atomic<Outcome> outcome{Outcome::kPending};
    std::atomic<uint64_t> timestamp{0};
    std::atomic<bool> seen{false};
};

struct Checker::Ring {
    explicit Ring(uint32_t size) : writes(size) {}
    std::vector<Write> writes;
    std::atomic<uint64_t> begun{0};
};

// The highest timestamps of a key: of an acknowledged write, of an acknowledged deletion, and of a deletion
// of unknown outcome.
struct Checker::Key {
    std::atomic<uint64_t> fingerprint{0}, acknowledged{0}, deleted{0}, perhaps_deleted{0};
};

static void raise(std::atomic<uint64_t>& to, uint64_t value) {
    uint64_t before = to.load();
    while (before < value && !to.compare_exchange_weak(before, value)) {
    }
}

Checker::Checker(const Options& options)
    : options_(options),
      run_(options.run != 0 ? options.run : static_cast<uint32_t>(Random::entropy() | 1)),
      keys_(std::make_unique<Key[]>(std::bit_ceil(options.keys))) {}

Checker::~Checker() = default;

std::unique_ptr<CheckerSession> Checker::open_session() {
    uint32_t number = sessions_.fetch_add(1);
    WSS_ASSERT(number < kSessionsMax, "a session is a thread of the load");
    return std::unique_ptr<CheckerSession>(new CheckerSession(*this, number));
}

Report Checker::report() const {
    std::lock_guard lock(mutex_);
    Report copy = report_;
    copy.reads = reads_;
    copy.writes = writes_;
    copy.unchecked = unchecked_;
    return copy;
}

void Checker::retire(std::unique_ptr<Ring> ring) {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(ring));
}

void Checker::violate(Violation kind, std::string text) {
    if (kind == Violation::kFractured) {
        fractured_.fetch_add(1);
        if (!options_.atomic) return;
    }
    std::lock_guard lock(mutex_);
    ++report_.violations[static_cast<size_t>(kind)];
    if (report_.examples.size() < kExamplesMax)
        report_.examples.push_back(fmt::format("{}: {}", check::to_string(kind), text));
}

Checker::Write* Checker::find(const Writer& writer) const {
    if (writer.run != run_ || writer.session >= kSessionsMax) return nullptr;
    Ring* ring = rings_[writer.session].load(std::memory_order_acquire);
    if (ring == nullptr) return nullptr;
    Write& write = ring->writes[writer.sequence % ring->writes.size()];
    return write.sequence.load() == writer.sequence ? &write : nullptr;
}

bool Checker::was_seen(const Writer& writer) const {
    Write* write = find(writer);
    return write != nullptr && write->seen.load();
}

Checker::Key* Checker::key(uint64_t fingerprint, bool create) const {
    if (fingerprint == 0) return nullptr;  // 0 marks a free entry
    uint32_t mask = std::bit_ceil(options_.keys) - 1;
    for (uint32_t probe = 0; probe < kProbesMax; ++probe) {
        Key& slot = keys_[(fingerprint + probe) & mask];
        uint64_t there = slot.fingerprint.load(std::memory_order_acquire);
        if (there == 0 && create && slot.fingerprint.compare_exchange_strong(there, fingerprint))
            return &slot;
        if (there == fingerprint) return &slot;
        if (there == 0) return nullptr;
    }
    return nullptr;
}

static std::string name_of(const Writer& writer) {
    return fmt::format("write {} of session {}", writer.sequence, writer.session);
}

void Checker::check_timestamp(Timestamp timestamp, const Writer& writer) {
    Writer other = writer;
    {
        std::lock_guard lock(mutex_);
        if (timestamps_.size() >= kTimestampsMax) {
            older_timestamps_ = std::move(timestamps_);
            timestamps_.clear();
        }
        if (auto old = older_timestamps_.find(timestamp.value); old != older_timestamps_.end())
            other = old->second;
        else
            other = timestamps_.try_emplace(timestamp.value, writer).first->second;
    }
    if (other != writer)
        violate(Violation::kCollision, fmt::format("{} and {} have the timestamp {}", name_of(other),
                                                   name_of(writer), timestamp.value));
}

// ---- a session

CheckerSession::CheckerSession(Checker& checker, uint32_t number)
    : checker_(checker), number_(number), ring_(std::make_unique<Checker::Ring>(checker.options_.remember)) {
    checker.rings_[number].store(ring_.get(), std::memory_order_release);
}

// Other sessions may be reading the ring, so it lives as long as the checker.
CheckerSession::~CheckerSession() {
    checker_.retire(std::move(ring_));
}

Timestamp CheckerSession::floor_of(uint64_t key) const {
    Checker::Key* known = checker_.key(key, false);
    return {known == nullptr ? 0 : known->acknowledged.load(std::memory_order_acquire)};
}

Timestamp CheckerSession::forgotten_deletion(uint64_t key, Timestamp floor) const {
    Checker::Key* known = checker_.key(key, false);
    if (known == nullptr) return {};
    for (const Timestamp deletion : {Timestamp{known->deleted.load()}, {known->perhaps_deleted.load()}})
        if (!deletion.is_none() && deletion >= floor) return deletion;
    return {};
}

std::string CheckerSession::words(const ReadItem& item) const {
    return fmt::format("session {} read key {:016x} at {}", number_, item.key, item.timestamp.value);
}

bool CheckerSession::check_value(const ReadItem& item, Stamp& stamp) {
    stamp.siblings.clear();
    stamp.writer = {};
    if (!item.found) {
        stamp.siblings.assign(item.siblings.begin(), item.siblings.end());
        return false;
    }
    switch (read_stamp(item.value, stamp)) {
        case StampState::kForeign:
            checker_.violate(
                Violation::kThinAir,
                words(item) + ": the value has no stamp (was the table loaded with verification?)");
            return false;
        case StampState::kTorn:
            checker_.violate(Violation::kTorn, words(item) + ": the checksum does not match");
            stamp.siblings.clear();
            return false;
        case StampState::kGood:
            break;
    }
    if (stamp.key != item.key)
        checker_.violate(Violation::kWrongKey,
                         fmt::format("{}: the value is of key {:016x}", words(item), stamp.key));
    return true;
}

void CheckerSession::check_writer(const ReadItem& item, const Stamp& stamp) {
    if (!item.siblings.empty() && !std::is_permutation(item.siblings.begin(), item.siblings.end(),
                                                       stamp.siblings.begin(), stamp.siblings.end()))
        checker_.violate(Violation::kIdentity,
                         words(item) + ": the metadata names keys other than those written");
    if (stamp.writer.run != checker_.run_) return;  // another process wrote it
    Checker::Ring* ring =
        stamp.writer.session < Checker::kSessionsMax ? checker_.rings_[stamp.writer.session].load() : nullptr;
    if (ring == nullptr || stamp.writer.sequence >= ring->begun.load())
        return checker_.violate(Violation::kThinAir,
                                fmt::format("{}: {} was never begun", words(item), name_of(stamp.writer)));
    Checker::Write* write = checker_.find(stamp.writer);
    if (write == nullptr) {
        checker_.unchecked_.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    // Pairs with end_write(), which stores the outcome and then loads `seen`: at least one of the two detects
    // a dirty read.
    write->seen.store(true);
    Outcome outcome = write->outcome.load();
    uint64_t timestamp = 0;
    write->timestamp.compare_exchange_strong(timestamp, item.timestamp.value);
    if (write->sequence.load() != stamp.writer.sequence) return;  // reused in the meantime
    if (outcome == Outcome::kFailed)
        checker_.violate(Violation::kDirty,
                         fmt::format("{}: {} has failed", words(item), name_of(stamp.writer)));
    if (timestamp != 0 && timestamp != item.timestamp.value)
        checker_.violate(Violation::kIdentity, fmt::format("{}: {} has the timestamp {}", words(item),
                                                           name_of(stamp.writer), timestamp));
}

void CheckerSession::check_atomicity(std::span<const ReadItem> items) {
    for (size_t i = 0; i < items.size(); ++i)
        for (size_t j = 0; j < items.size(); ++j) {
            if (i == j || items[j].timestamp >= items[i].timestamp) continue;
            const auto& siblings = stamps_[i].siblings;
            if (std::find(siblings.begin(), siblings.end(), items[j].key) == siblings.end()) continue;
            checker_.violate(Violation::kFractured,
                             fmt::format("{}, written together with key {:016x}, of which it got {}",
                                         words(items[i]), items[j].key, items[j].timestamp.value));
        }
}

void CheckerSession::check_order(const ReadItem& item) {
    if (item.timestamp < item.floor)
        checker_.violate(Violation::kStale,
                         fmt::format("{}; {} was acknowledged before", words(item), item.floor.value));
    if (auto own = own_.find(item.key); own != own_.end() && item.timestamp < own->second)
        checker_.violate(Violation::kOwnWrite,
                         fmt::format("{}, but has written {} itself", words(item), own->second.value));
}

void CheckerSession::read(std::span<const ReadItem> items) {
    checker_.reads_.fetch_add(1, std::memory_order_relaxed);
    stamps_.resize(std::max(stamps_.size(), items.size()));
    for (size_t i = 0; i < items.size(); ++i)
        if (check_value(items[i], stamps_[i])) check_writer(items[i], stamps_[i]);
    check_atomicity(items);
    for (const ReadItem& item : items) {
        check_order(item);
        seen_ = std::max(seen_, item.timestamp);
    }
}

Writer CheckerSession::begin_write() {
    Writer writer{checker_.run_, number_, next_++};
    deleted_.clear();
    Checker::Write& write = ring_->writes[writer.sequence % ring_->writes.size()];
    write.sequence.store(UINT64_MAX);
    write.outcome.store(Outcome::kPending);
    write.timestamp.store(0);
    write.seen.store(false);
    write.sequence.store(writer.sequence);
    ring_->begun.store(next_);
    return writer;
}

void CheckerSession::end_write(const Writer& writer, Outcome outcome, Timestamp timestamp,
                               std::span<const uint64_t> keys, std::span<const Timestamp> floors) {
    checker_.writes_.fetch_add(1, std::memory_order_relaxed);
    Checker::Write* write = checker_.find(writer);
    WSS_ASSERT(write != nullptr, "a session has one write at a time");
    write->outcome.store(outcome);
    if (outcome == Outcome::kFailed) {
        if (write->seen.load())
            checker_.violate(Violation::kDirty,
                             fmt::format("{} failed, and was read before", name_of(writer)));
        return;
    }
    if (timestamp.is_none()) return;  // outcome unknown, and no timestamp either
    uint64_t known = 0;
    if (!write->timestamp.compare_exchange_strong(known, timestamp.value) && known != timestamp.value)
        checker_.violate(Violation::kIdentity, fmt::format("{} was read at {} and acknowledged at {}",
                                                           name_of(writer), known, timestamp.value));
    checker_.check_timestamp(timestamp, writer);
    if (timestamp <= seen_)
        checker_.violate(Violation::kClock,
                         fmt::format("{} got the timestamp {}, but the session has seen {}", name_of(writer),
                                     timestamp.value, seen_.value));
    seen_ = std::max(seen_, timestamp);
    note_deletions(outcome, timestamp);
    if (outcome != Outcome::kCommitted) return;
    check_place(writer, timestamp, keys, floors);
    for (uint64_t fingerprint : keys) {
        if (own_.size() < kOwnKeysMax || own_.contains(fingerprint)) own_[fingerprint] = timestamp;
        Checker::Key* key = checker_.key(fingerprint, true);
        if (key == nullptr) continue;
        raise(key->acknowledged, timestamp.value);
    }
}

void CheckerSession::note_deletions(Outcome outcome, Timestamp timestamp) {
    for (uint64_t fingerprint : deleted_)
        if (Checker::Key* key = checker_.key(fingerprint, true))
            raise(outcome == Outcome::kCommitted ? key->deleted : key->perhaps_deleted, timestamp.value);
}

void CheckerSession::check_place(const Writer& writer, Timestamp timestamp, std::span<const uint64_t> keys,
                                 std::span<const Timestamp> floors) {
    for (size_t i = 0; i < floors.size(); ++i)
        if (timestamp < floors[i])
            checker_.violate(Violation::kLost,
                             fmt::format("{} was acknowledged at {}, below {} of key {:016x}, which was "
                                         "acknowledged before it began",
                                         name_of(writer), timestamp.value, floors[i].value, keys[i]));
}

void CheckerSession::end_conditional(const Writer& writer, Timestamp timestamp,
                                     std::span<const uint64_t> keys, std::span<const Expected> conditions,
                                     std::span<const Timestamp> floors) {
    end_write(writer, Outcome::kCommitted, timestamp, keys, floors);
    for (const Expected& expected : conditions) {
        if (timestamp <= expected.version)
            checker_.violate(Violation::kCondition,
                             fmt::format("{} at {} is not above {}, which it expected", name_of(writer),
                                         timestamp.value, expected.version.value));
        if (expected.floor > expected.version)
            checker_.violate(
                Violation::kCondition,
                fmt::format("{} at {} expected {} of key {:016x}, but {} was acknowledged before it began",
                            name_of(writer), timestamp.value, expected.version.value, expected.key,
                            expected.floor.value));
    }
    check_conditions(writer, timestamp, keys, conditions);
}

void CheckerSession::check_conditions(const Writer& writer, Timestamp timestamp,
                                      std::span<const uint64_t> keys, std::span<const Expected> conditions) {
    std::vector<SerialOrder::Condition> found;
    for (const Expected& expected : conditions)
        found.push_back({expected.key, expected.version.value, expected.version.value});
    std::vector<uint64_t> cycle;
    {
        std::lock_guard lock(checker_.mutex_);
        cycle = checker_.order_.add(timestamp.value, found, keys);
    }
    if (cycle.empty()) return;
    std::string text = fmt::format(
        "{}: the conditions contradict each other, because each of these writers must precede the next:",
        name_of(writer));
    for (uint64_t one : cycle) text += fmt::format(" {} <", one);
    checker_.violate(Violation::kCondition, fmt::format("{} {}", text, timestamp.value));
}

}  // namespace wss::kv::check
