// SPDX-License-Identifier: Apache-2.0
// Range locks make COMPARE AND WRITE atomic against all other writes, on every reactor, while ordinary writes
// take no lock.
//
// COMPARE AND WRITE is rare and ordinary writes are not, so COMPARE AND WRITE bears the cost. It requests its
// range from reactor 0. Reactor 0 makes every reactor hold back overlapping writes that have not begun, and
// report when overlapping writes that have begun are done. Then it grants the lock. An ordinary write checks
// one list of its own reactor, which is usually empty.
//
//   worker w                 reactor 0                     every worker
//   acquire(range) --------> queue; no overlap with an
//                            earlier lock?
//                            hold(id, range) ------------> Unit::holds; wait for overlapping writers
//                                             <----------- quiet(id)
//   lock_granted <---------- all quiet
//   read, compare, write
//   release(id) -----------> lift(id) -------------------> held writes begin
//                            hold for the next that overlaps
//
// Tasks posted from one reactor to another keep their order, so a lift arrives before the next hold. A lock
// waits for every earlier lock that overlaps it, granted or not, so none starves.
//
// Thread-safety: belongs to reactor 0.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "target/block/unit.h"

namespace wss::block {

class Service;
struct ChannelRecord;

class RangeLocks {
  public:
    explicit RangeLocks(Service& service) : service_(service) {}

    void acquire(uint64_t lun, ByteRange range, std::shared_ptr<ChannelRecord> requester, uint16_t slot);
    void quiet(uint64_t lock_id);
    void release(uint64_t lock_id);
    size_t count() const noexcept { return locks_.size(); }

  private:
    struct Lock {
        uint64_t id = 0;
        uint64_t lun = 0;
        ByteRange range;
        std::shared_ptr<ChannelRecord> requester;
        uint16_t slot = 0;
        bool asked = false;       // every worker was sent a hold of the range
        size_t workers_left = 0;  // workers that are not quiet yet
    };
    void ask_next();
    void ask(Lock& lock);

    Service& service_;
    std::list<Lock> locks_;  // in order of arrival
    uint64_t next_id_ = 1;
};

}  // namespace wss::block
