// SPDX-License-Identifier: Apache-2.0
#include "target/block/range_locks.h"

#include <algorithm>

#include "target/block/service.h"

namespace wss::block {

void RangeLocks::acquire(uint64_t lun, ByteRange range, std::shared_ptr<ChannelRecord> requester,
                         uint16_t slot) {
    locks_.push_back(
        {.id = next_id_++, .lun = lun, .range = range, .requester = std::move(requester), .slot = slot});
    ask_next();
}

void RangeLocks::ask_next() {
    for (auto lock = locks_.begin(); lock != locks_.end(); ++lock) {
        if (lock->asked) continue;
        bool blocked = std::any_of(locks_.begin(), lock, [&](const Lock& earlier) {
            return earlier.lun == lock->lun && earlier.range.overlaps(lock->range);
        });
        if (!blocked) ask(*lock);
    }
}

void RangeLocks::ask(Lock& lock) {
    lock.asked = true;
    lock.workers_left = service_.workers();
    for (size_t i = 0; i < service_.workers(); ++i) {
        Worker& worker = service_.worker(i);
        worker.reactor().post([&worker, id = lock.id, lun = lock.lun, range = lock.range] {
            worker.hold_range(id, lun, range);
        });
    }
}

void RangeLocks::quiet(uint64_t lock_id) {
    auto lock = std::find_if(locks_.begin(), locks_.end(), [&](const Lock& l) { return l.id == lock_id; });
    WSS_ASSERT(lock != locks_.end() && lock->workers_left > 0,
               "each worker reports once, before the release");
    if (--lock->workers_left > 0) return;
    Worker& worker = service_.worker(lock->requester->worker);
    worker.reactor().post([record = lock->requester, slot = lock->slot, id = lock_id] {
        // The channel lives at least as long as one of its requests waits for a lock.
        WSS_ASSERT(record->channel != nullptr, "the channel waits for its locks");
        record->channel->lock_granted(slot, id);
    });
}

void RangeLocks::release(uint64_t lock_id) {
    std::erase_if(locks_, [&](const Lock& lock) { return lock.id == lock_id; });
    for (size_t i = 0; i < service_.workers(); ++i) {
        Worker& worker = service_.worker(i);
        worker.reactor().post([&worker, lock_id] { worker.lift_hold(lock_id); });
    }
    ask_next();
}

}  // namespace wss::block
