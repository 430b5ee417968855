// SPDX-License-Identifier: Apache-2.0
// SectorModel: which contents each sector of a volume may show, given what was acknowledged, flushed, failed
// and lost.
//
// Every write has an id and fills its sectors with it, so that a sector's content names the write it came
// from; id 0 is zeroes. The scenario never lets two changes of a sector overlap in time, so that the order of
// writes is known and the model needs no guesses:
//
//   acknowledged write    the only content allowed, until the next change
//   write under way       the old contents or the new one
//   failed write          may have happened: its content stays allowed until the next acknowledged change
//   crash of the target   what was flushed, or any write since; afterwards what was found is as good as any
//
// A stale write that lands after a later one was acknowledged shows up as a content that is not allowed any
// more.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wss::sim {

class SectorModel {
  public:
    explicit SectorModel(uint64_t sectors) : sectors_(sectors) {}
    uint64_t sectors() const { return sectors_.size(); }

    // True while a change of any of these is under way.
    bool busy(uint64_t first, uint64_t count) const;

    void change_begins(uint64_t first, uint64_t count, uint64_t id);
    // `stable`: it had FUA. `may_keep_old`: a discard, which promises nothing.
    void change_acknowledged(uint64_t first, uint64_t count, uint64_t id, bool stable, bool may_keep_old);
    void change_failed(uint64_t first, uint64_t count, uint64_t id);

    void read_begins(uint64_t first, uint64_t count);
    // Empty, or what is wrong. `found` has the id of each sector.
    std::string read_ends(uint64_t first, const std::vector<uint64_t>& found);
    void read_failed(uint64_t first, uint64_t count);

    // A flush covers what was acknowledged before it began.
    uint64_t flush_begins() const { return acknowledged_; }
    void flush_acknowledged(uint64_t token);

    // The target lost what was not stable.
    void crash();
    // Storage on another node did. What was under way may be acknowledged still, of what storage had done
    // before.
    void crash_of_storage();

  private:
    struct Version {
        uint64_t id;
        uint64_t acknowledged;  // its number, UINT64_MAX if it never was
    };
    struct Sector {
        std::vector<uint64_t> base{0};     // what stable storage may hold
        std::vector<Version> since;        // changes after that, oldest first
        std::vector<uint64_t> allowed{0};  // what a read may show now
        std::vector<uint64_t>
            for_readers;  // what was allowed at some time since the oldest read under way began
        uint32_t readers = 0;
        bool changing = false;
        bool lost_meanwhile = false;  // storage crashed since the change began
    };
    static void add(std::vector<uint64_t>& set, uint64_t id);
    static void allow_readers(Sector& sector);

    std::vector<Sector> sectors_;
    uint64_t acknowledged_ = 0;  // changes so far
};

}  // namespace wss::sim
