// SPDX-License-Identifier: Apache-2.0
// LockPhase: obtains and releases the locks of a transaction (strict two-phase locking, the baselines).
//
//   sequential  one key after the other, in key order, waiting for each (the paper's algorithm). The order
//               prevents deadlock; each key costs a round trip.
//   parallel    one message to each partition, refused at once on conflict. A refused transaction releases
//               all locks and retries after a random wait.
//
// Thread-safety: none; belongs to its job.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/kv/transport/link.h"

namespace wss::kv {

// How long a transaction relies on its locks, from the start of locking. Shorter than their lease by the
// transit time of messages. Partitions check the locks of a write; a read is not notified when its locks end.
constexpr Nanoseconds kLockedFor = from_s(4);

class ClientSession;

// The results, in order of precedence.
enum class LockResult : uint8_t { kGranted, kConflict, kLost, kDenied };

class LockPhase {
  public:
    explicit LockPhase(ClientSession& session) : session_(session) {}
    struct Wanted {
        uint32_t partition = 0;
        std::string_view key;  // the request's
    };
    std::vector<Wanted>& wanted() { return wanted_; }
    // A write under the locks must be later than this, the highest bound that the partitions have reported
    // (Locks::newest_of()).
    Timestamp latest() const { return latest_; }
    bool was_full() const { return was_full_; }  // a partition's lock table was full
    // A partition whose clock is so far behind the owner timestamp that it would refuse the write.
    struct Behind {
        uint32_t partition = 0;
        Timestamp clock;
    };
    const std::optional<Behind>& behind() const { return behind_; }

    const Status& denial() const { return denial_; }  // valid after kDenied

    // `done` is called once; from within acquire() if no partition can be reached.
    void acquire(uint64_t owner, bool exclusive, bool sequential, void (*done)(void*, LockResult) noexcept,
                 void* context);
    // Sends every partition of `wanted` a release of all locks of `owner`; does not wait for a reply.
    void release(uint64_t owner) noexcept;
    void forget() noexcept;  // abandons the outstanding calls

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

    ClientSession& session_;
    std::vector<Wanted> wanted_;
    std::vector<std::unique_ptr<Ask>> asks_;
    uint32_t outstanding_ = 0;
    size_t next_ = 0;
    uint64_t owner_ = 0;
    Timestamp latest_;
    std::optional<Behind> behind_;
    Status denial_;
    bool was_full_ = false;
    bool exclusive_ = false, sequential_ = false;
    LockResult result_ = LockResult::kGranted;
    void (*done_)(void*, LockResult) noexcept = nullptr;
    void* context_ = nullptr;
};

}  // namespace wss::kv
