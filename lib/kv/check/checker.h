// SPDX-License-Identifier: Apache-2.0
// A white-box checker of Read Atomic isolation. It runs alongside the load, at the load's speed.
//
// White-box: versions carry timestamps and, in their stamps, the set of keys written together. Bailis'
// definition is therefore decided directly, in time linear in the reads, without a search. Each read is
// checked for (names as in Violation):
//   fractured   a version of transaction T was returned, and for another key of T in the same read an older
//               version
//   torn        the value's checksum does not match
//   wrong key   the value belongs to another key
//   thin air    the value was never written: no stamp, or the stamp of a write that never began
//   dirty       the write was reported as failed, so it must never become visible
//   identity    one write has two timestamps, or its metadata and its stamp name different keys
//   stale       older than a version that was acknowledged, to any session, before the read began (all
//               partitions acknowledge commits)
//   own write   older than a write of the reading session
// and each write for:
//   collision   two writes have the same timestamp
//   clock       the timestamp is not above all timestamps that the session has seen. Without this rule an
//               update can vanish although its writer had read the version that it replaces. Checkers with
//               session order report that as a violation of Read Atomic.
//   condition   a condition names a version that was replaced before the write began, or the transactions
//               with conditions have no order in which each finds the versions that it expected
//               (serial_order.h)
//   lost        an acknowledged write has a timestamp below a write of the same key that was acknowledged
//               before it began: it is never read, although the key has not been written since
//
// Memory is bounded: the last Options::remember writes of each session, and a table of Options::keys keys.
// Forgotten writes are not checked but counted (Report::unchecked).
//
// Thread-safety: all methods of Checker may be called from any thread; a CheckerSession belongs to one thread
// and is destroyed before its Checker.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/kv/check/serial_order.h"
#include "lib/kv/check/stamp.h"
#include "lib/kv/types.h"

namespace wss::kv::check {

enum class Violation : uint8_t {
    kFractured,
    kTorn,
    kWrongKey,
    kThinAir,
    kDirty,
    kIdentity,
    kStale,
    kOwnWrite,
    kCollision,
    kClock,
    kCondition,
    kLost,
};
constexpr size_t kViolations = 12;
std::string_view to_string(Violation violation);

enum class Outcome : uint8_t {
    kPending,
    kCommitted,
    kFailed,   // never visible
    kUnknown,  // visible as a whole, or never
};

struct ReadItem {
    uint64_t key = 0;  // fingerprint
    Timestamp timestamp;
    bool found = false;                  // false with a timestamp: deleted
    std::string_view value;              // set only if found
    std::span<const uint64_t> siblings;  // named by the store's metadata; may be empty
    Timestamp floor;                     // result of CheckerSession::floor_of() before the read was sent
};

// A condition of a committed write: the version that it expected of a key. If that is none, the key had not
// been written yet. Conditions on keys that may have been deleted are left out.
struct Expected {
    uint64_t key = 0;  // fingerprint
    Timestamp version;
    Timestamp floor;  // result of CheckerSession::floor_of() before the write was sent
};

struct Report {
    uint64_t reads = 0, writes = 0, unchecked = 0;
    std::array<uint64_t, kViolations> violations{};
    std::vector<std::string> examples;  // the first few, in words
    uint64_t total() const;
    std::string to_string() const;
};

struct CheckerOptions {
    bool atomic =
        true;  // false: the mode promises no atomicity; fractured reads are counted, but are not a violation
    uint32_t remember = 1 << 18;  // writes of each session
    uint32_t keys = 1 << 20;
    uint32_t run = 0;  // 0: a random one
};

class CheckerSession;

class Checker {
  public:
    using Options = CheckerOptions;
    static constexpr uint32_t kSessionsMax = 4096;  // must not exceed kInitialSessions of history.h

    explicit Checker(const Options& options);
    ~Checker();

    std::unique_ptr<CheckerSession> open_session();
    // Covers all reads and writes so far.
    Report report() const;
    // Number of fractured reads, even in modes that allow them.
    uint64_t fractured() const { return fractured_.load(); }
    uint32_t run() const { return run_; }
    // Whether any read has returned a version of this write.
    bool was_seen(const Writer& writer) const;

  private:
    friend class CheckerSession;
    struct Write;
    struct Ring;
    struct Key;
    void violate(Violation kind, std::string text);
    Write* find(const Writer& writer) const;
    Key* key(uint64_t fingerprint, bool create) const;
    void check_timestamp(Timestamp timestamp, const Writer& writer);
    void retire(std::unique_ptr<Ring> ring);

    const Options options_;
    const uint32_t run_;
    std::array<std::atomic<Ring*>, kSessionsMax> rings_{};
    std::atomic<uint32_t> sessions_{0};
    std::unique_ptr<Key[]> keys_;
    std::atomic<uint64_t> reads_{0}, writes_{0}, unchecked_{0}, fractured_{0};
    mutable std::mutex mutex_;  // protects the members below
    Report report_;
    std::unordered_map<uint64_t, Writer> timestamps_, older_timestamps_;  // two generations
    std::vector<std::unique_ptr<Ring>> retired_;
    SerialOrder order_;
};

class CheckerSession {
  public:
    ~CheckerSession();
    uint32_t number() const { return number_; }

    // Call it before a read is sent (the read must return at least this version) or before a write is sent
    // (the write must be later).
    Timestamp floor_of(uint64_t key) const;
    void read(std::span<const ReadItem> items);

    // A read has returned neither the key nor a timestamp: it was never written, or the store has forgotten
    // its deletion. Returns that deletion, or none if none explains the read. `floor` has the same meaning as
    // in ReadItem.
    Timestamp forgotten_deletion(uint64_t key, Timestamp floor) const;

    // Call it before a write is sent, and stamp its values with the result.
    Writer begin_write();
    // Call it before end_write() if the write deletes some of its keys.
    void will_delete(std::span<const uint64_t> keys) { deleted_.assign(keys.begin(), keys.end()); }
    // `floors` has floor_of() of each key, taken before the write was sent. If it is empty, the write's place
    // in the order of writes is not checked.
    void end_write(const Writer& writer, Outcome outcome, Timestamp timestamp, std::span<const uint64_t> keys,
                   std::span<const Timestamp> floors = {});
    // The same as end_write(), for a committed write that had conditions.
    void end_conditional(const Writer& writer, Timestamp timestamp, std::span<const uint64_t> keys,
                         std::span<const Expected> conditions, std::span<const Timestamp> floors = {});

  private:
    friend class Checker;
    CheckerSession(Checker& checker, uint32_t number);
    void note_deletions(Outcome outcome, Timestamp timestamp);
    void check_place(const Writer& writer, Timestamp timestamp, std::span<const uint64_t> keys,
                     std::span<const Timestamp> floors);
    void check_conditions(const Writer& writer, Timestamp timestamp, std::span<const uint64_t> keys,
                          std::span<const Expected> conditions);
    bool check_value(const ReadItem& item, Stamp& stamp);
    void check_writer(const ReadItem& item, const Stamp& stamp);
    void check_atomicity(std::span<const ReadItem> items);
    void check_order(const ReadItem& item);
    std::string words(const ReadItem& item) const;

    Checker& checker_;
    const uint32_t number_;
    std::unique_ptr<Checker::Ring> ring_;
    uint64_t next_ = 0;
    Timestamp seen_;  // the highest timestamp that this session has read or written
    std::unordered_map<uint64_t, Timestamp> own_;
    std::vector<Stamp> stamps_;      // stamps of the read being checked
    std::vector<uint64_t> deleted_;  // keys that the write in progress deletes
};

}  // namespace wss::kv::check
