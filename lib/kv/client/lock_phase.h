// SPDX-License-Identifier: Apache-2.0
// LockPhase: getting and releasing the locks of a transaction (strict two-phase locking, the baselines).
//
//   sequential  key after key in the order of keys, waiting for each: the paper's. Order keeps it from
//               deadlock; each key costs a round trip.
//   parallel    one message to each partition, refused at once on conflict; who is refused releases all and
//               tries again after a random wait.
//
// Thread-safety: none; belongs to its job.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/kv/transport/link.h"

namespace wss::kv {

// How long after it began to lock a transaction relies on its locks: less than their lease, with time for
// messages to arrive. Partitions check the locks of a write; those of a read end unnoticed.
constexpr Nanoseconds kLockedFor = from_s(4);

class Session;

enum class LockResult : uint8_t { kGranted, kConflict, kLost };

class LockPhase {
  public:
    explicit LockPhase(Session& session) : session_(session) {}
    struct Wanted {
        uint32_t partition = 0;
        std::string_view key;  // the request's
    };
    std::vector<Wanted>& wanted() { return wanted_; }
    // Who writes under the locks does so later than all who held them.
    Timestamp latest() const { return latest_; }
    bool was_full() const { return was_full_; }  // a partition has room for no more locks
    // A partition whose clock is so far behind the owner that it would not take the write.
    struct Behind {
        uint32_t partition = 0;
        Timestamp clock;
    };
    const std::optional<Behind>& behind() const { return behind_; }

    // `done` is called once, from within when no partition can be reached.
    void acquire(uint64_t owner, bool exclusive, bool sequential, void (*done)(void*, LockResult) noexcept,
                 void* context);
    // Tells every partition of `wanted` to release what `owner` holds; no reply is waited for.
    void release(uint64_t owner) noexcept;
    void forget() noexcept;  // the calls under way

  private:
    struct Ask {
        Call call;
        uint32_t partition = 0;
        LockPhase* phase = nullptr;
    };
    void send_next() noexcept;
    void send(uint32_t partition, std::vector<std::string_view> keys, bool wait) noexcept;
    static void on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept;
    void answered(LockResult result) noexcept;

    Session& session_;
    std::vector<Wanted> wanted_;
    std::vector<std::unique_ptr<Ask>> asks_;
    uint32_t outstanding_ = 0;
    size_t next_ = 0;
    uint64_t owner_ = 0;
    Timestamp latest_;
    std::optional<Behind> behind_;
    bool was_full_ = false;
    bool exclusive_ = false, sequential_ = false;
    LockResult result_ = LockResult::kGranted;
    void (*done_)(void*, LockResult) noexcept = nullptr;
    void* context_ = nullptr;
};

}  // namespace wss::kv
