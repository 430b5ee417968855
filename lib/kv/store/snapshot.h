// SPDX-License-Identifier: Apache-2.0
// A read-atomic snapshot of a partition at a timestamp S: every transaction at or below S as a whole, and
// none above it. Snapshots at the same S on every partition form a snapshot of the whole store. Reads and
// writes continue meanwhile; only prepares at or below S are refused from its beginning, and their clients
// retry with a newer timestamp.
//
// A snapshot is a directory in the format of the log (rocks_log.h), so a server can start from a copy of it.
// It has a temporary name until it is complete and on stable storage.
//
// The store's thread never waits for the disk: other threads create, complete and remove the directory.
//
// Thread-safety: none; belongs to the store's thread, and is destroyed before the store.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/base/blocking_call.h"
#include "lib/base/status.h"
#include "lib/kv/store/rocks_log.h"
#include "lib/kv/store/store.h"

namespace wss::kv::store {

class Snapshot {
  public:
    // Fails with kNotFound if the store no longer has all versions of that time. `directory` must not exist;
    // otherwise step() fails with kExists. `identity` is that of RocksOptions.
    static Result<std::unique_ptr<Snapshot>> begin(Store& store, Timestamp at, const std::string& directory,
                                                   const std::string& identity);
    // Waits for the disk, unless clean_up() has returned true.
    ~Snapshot();

    // Does a bounded amount of work; call it from the reactor's turns. Returns true when the snapshot is
    // complete. While a transaction at or below S is undecided, the snapshot waits for its termination. After
    // a failure only clean_up() may be called.
    Result<bool> step(size_t keys = 256);

    // Runs steps for a fraction of a millisecond; call it once per tick. Fails if there was no progress for
    // kProgressLimit, whatever the reason.
    Result<bool> turn(Clock& clock);
    static constexpr Nanoseconds kProgressLimit = from_s(600);

    // Call it, once per tick, when a step or turn has failed or the snapshot is complete. Removes what an
    // incomplete snapshot has written. Returns true when no work is left.
    bool clean_up();

    bool is_waiting() const { return phase_ == Phase::kCopying && !settled_; }
    bool waits_for_disk() const { return disk_.is_in_progress(); }
    uint64_t keys() const { return keys_; }
    uint64_t bytes() const { return bytes_; }

  private:
    // In this order; kAbandoned can follow each of the first three. disk_ is in progress in kOpening,
    // kCompleting and kRemoving, and uses log_ and batch_ then.
    enum class Phase : uint8_t {
        kOpening,
        kCopying,
        kCompleting,
        kComplete,
        kAbandoned,
        kRemoving,
        kRemoved
    };

    Snapshot(Store& store, Pin pin, std::string directory)
        : store_(store), at_(pin.timestamp()), directory_(std::move(directory)), pin_(std::move(pin)) {}
    // These run on the thread of disk_.
    Status open(const std::string& identity);
    Status complete();
    void remove();

    Result<bool> advance(size_t keys);
    Result<bool> copy_step(size_t keys);
    Status copy(size_t keys);
    void add(const Found& found);
    void on_fetched(const Found& found);
    Status abandon(Status why);

    Store& store_;
    const Timestamp at_;
    const std::string directory_;
    Phase phase_ = Phase::kOpening;
    std::unique_ptr<RocksLog> log_;
    Pin pin_;
    bool settled_ = false;  // no transaction at or below S can be added any more
    std::string cursor_;
    bool at_end_ = false;
    const char* lost_ = nullptr;  // why it cannot become complete
    size_t fetching_ = 0;
    uint64_t progress_ = 0;  // grows with each step that made progress
    std::optional<Nanoseconds> progressed_at_;
    uint64_t keys_ = 0;
    uint64_t bytes_ = 0;
    LogBatch batch_;
    BlockingCall disk_;  // the last member: its thread uses the others
};

}  // namespace wss::kv::store
