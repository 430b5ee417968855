// SPDX-License-Identifier: Apache-2.0
// SectorModel computes which contents each sector of a volume may show, from the operations that were
// acknowledged, flushed, failed or lost.
//
// Every write has an id, which its sectors contain (sector_stamp.h), so the content of a sector identifies
// the write. Id 0 means zeroes. The scenario never lets two changes of a sector overlap in time. The order of
// the writes is therefore known:
//
//   acknowledged write    the only content allowed, until the next change
//   write in flight       the old content or the new one
//   failed write          may have happened: its content stays allowed until the next acknowledged change
//   crash of the target   the flushed content or any later write; each of them stays allowed afterwards
//
// A stale write that takes effect after a later one was acknowledged shows up as content that is no longer
// allowed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wss::sim {

class SectorModel {
  public:
    explicit SectorModel(uint64_t sectors) : sectors_(sectors) {}
    uint64_t sectors() const { return sectors_.size(); }

    // Returns true while a change of any of these sectors is in flight.
    bool busy(uint64_t first, uint64_t count) const;

    void change_begins(uint64_t first, uint64_t count, uint64_t id);
    // `stable` means that the write had FUA, and `may_keep_old` that it is a discard, which guarantees no
    // content.
    void change_acknowledged(uint64_t first, uint64_t count, uint64_t id, bool stable, bool may_keep_old);
    void change_failed(uint64_t first, uint64_t count, uint64_t id);

    void read_begins(uint64_t first, uint64_t count);
    // Returns an empty string or a description of the violation. `found` has the id of each sector.
    std::string read_ends(uint64_t first, const std::vector<uint64_t>& found);
    void read_failed(uint64_t first, uint64_t count);

    // A flush covers the changes that were acknowledged before it began.
    uint64_t flush_begins() const { return acknowledged_; }
    void flush_acknowledged(uint64_t token);

    // The target lost all changes that were not stable.
    void crash();
    // Storage on another node lost its unflushed changes. A change that was in flight may still be
    // acknowledged although the crash undid a part of it.
    void crash_of_storage();

  private:
    struct Version {
        uint64_t id;
        uint64_t acknowledged;  // number of the acknowledgement; UINT64_MAX if there is none
    };
    struct Sector {
        std::vector<uint64_t> base{0};      // contents that stable storage may hold
        std::vector<Version> since;         // changes after that, oldest first
        std::vector<uint64_t> allowed{0};   // contents that a read may return now
        std::vector<uint64_t> for_readers;  // contents allowed since the oldest read in flight began
        uint32_t readers = 0;
        bool changing = false;
        bool lost_meanwhile = false;  // storage crashed since the change began
    };
    static void add(std::vector<uint64_t>& set, uint64_t id);
    static void allow_readers(Sector& sector);

    std::vector<Sector> sectors_;
    uint64_t acknowledged_ = 0;  // acknowledged changes so far
};

}  // namespace wss::sim
