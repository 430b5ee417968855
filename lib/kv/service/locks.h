// SPDX-License-Identifier: Apache-2.0
// Locks: handles lock and unlock messages (two-phase locking).
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: must be destroyed before the store. Its
// destructor removes its waits from the store's lock table.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/kv/service/access.h"
#include "lib/kv/service/partition.h"

namespace wss::kv {

class Locks {
  public:
    Locks(Partition& partition, Access& access) : partition_(partition), access_(access) {}
    ~Locks();
    void lock(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void unlock(Peer& peer, wire::Bytes message);

  private:
    // A waiting lock request.
    struct Wait : Owed {
        Locks* locks = nullptr;
        size_t at = 0;  // position in the pool
        uint64_t owner = 0;
        bool exclusive = false;
        std::string key;
    };

    static void answered(void* context, store::LockAnswer answer) noexcept;
    Timestamp newest_of(const Peer& peer, uint64_t owner, std::span<const std::string_view> keys);
    bool is_spent(const Peer& peer) const;
    bool is_of_use(const Wait& wait) const;

    Partition& partition_;
    Access& access_;
    OwedPool<Wait> waits_;
    // Scratch for one message at a time.
    wire::KvLock lock_;
    std::vector<store::Write> writes_;
};

}  // namespace wss::kv
