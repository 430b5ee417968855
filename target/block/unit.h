// SPDX-License-Identifier: Apache-2.0
// Unit: one reactor's view of a volume (SCSI's logical unit). UnitTable: all units of a reactor.
//
// A unit keeps the state that a datapath without locks needs: the volume's SCSI description, the local keys
// of its memory, the writes in flight on this reactor, and the ranges that a COMPARE AND WRITE of any reactor
// has locked (see range_locks.h).
//
// Thread-safety: belongs to the reactor.
// Lifetime: a Unit lives until its volume was removed and its last user has released it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "lib/base/gate.h"
#include "lib/base/list.h"
#include "target/block/arena.h"
#include "target/block/awaiting.h"
#include "target/block/request.h"
#include "target/block/throttle.h"
#include "target/block/volume_regions.h"
#include "target/cache/cached_volume.h"
#include "target/volume/reservation_book.h"
#include "target/volume/volume.h"

namespace wss::block {

// A locked range. Overlapping writes that have not begun wait in `Unit::held`.
struct Hold : ListNode<> {
    uint64_t lock_id = 0;
    ByteRange range;
    uint32_t writers_left = 0;  // overlapping writes that began before and have not ended
};

struct Unit final {
    Unit(reactor::Reactor& reactor, volume::OpenVolume& volume) : open(&volume), throttle(reactor, volume) {}
    volume::OpenVolume* const open;
    const VolumeRegions* regions = nullptr;
    std::byte* memory = nullptr;  // of a RAM volume
    // nullptr: not cached, as long as the unit lives. On other reactors than the cache's, only its address
    // and its constants may be used.
    cache::CachedVolume* cached = nullptr;
    Gate::Holder cached_place;  // place in the gate of `cached`, on the cache's reactor
    cache::CommandShareRef cached_commands = cache::CommandShareRef::make();  // as in Gateway::take_command()
    scsi::Device device;
    volume::ReservationBook::Shared reservations;  // nullptr: no initiator has been registered
    uint32_t users = 0;
    bool removed = false;
    std::array<ShareRef, kFabricsMax> shares;  // shares of the arenas, by lane

    Throttle throttle;  // commands wait here before they begin

    List<Request, WriterTag> writers;  // commands that have begun to change the volume
    List<Hold> holds;
    List<Request> held;
    // Shrinks that wait for `beyond` commands, which change blocks beyond the new end.
    std::vector<std::shared_ptr<volume::Shrink>> shrinks;
    uint32_t beyond = 0;
    Awaiting awaiting;  // commands that wait for cache engines

    uint64_t lun() const { return open->volume().lun(); }
    // Reads the state that may change at any time (TV2). Called once per command. `may_write`: whether the
    // initiator of the command may write.
    void refresh(bool may_write) noexcept {
        device.blocks = open->volume().blocks();
        device.read_only = !may_write || open->volume().read_only();
    }
};

inline uint64_t Request::unit_block() const {
    return unit == nullptr ? 512 : unit->device.block_size;
}

inline bool is_cached(const Request& request) noexcept {
    return request.unit != nullptr && request.unit->cached != nullptr;
}

// The bytes that a read or write of a cached volume moves, in whole blocks.
uint32_t cached_length(const Request& request);

class UnitTable {
  public:
    UnitTable(reactor::Reactor& reactor, volume::ReservationBook& reservations)
        : reactor_(reactor), reservations_(reservations) {}
    ~UnitTable();
    UnitTable(const UnitTable&) = delete;
    UnitTable& operator=(const UnitTable&) = delete;

    Unit* find(uint64_t lun) const noexcept {
        return lun < by_lun_.size() ? by_lun_[static_cast<size_t>(lun)] : nullptr;
    }
    // All LUNs, ascending, for REPORT LUNS.
    std::span<const uint64_t> luns() const noexcept { return luns_; }

    void hold(Unit& unit) noexcept {
        ++unit.users;
        unit.open->hold();
    }
    void release(Unit& unit) noexcept;

    Unit& add(volume::OpenVolume& volume);
    void remove(volume::OpenVolume& volume);

  private:
    reactor::Reactor& reactor_;
    volume::ReservationBook& reservations_;
    std::vector<Unit*> by_lun_;
    std::vector<uint64_t> luns_;
};

}  // namespace wss::block
