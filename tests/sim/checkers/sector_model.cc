// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/checkers/sector_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace wss::sim {

static bool contains(const std::vector<uint64_t>& set, uint64_t id) {
    return std::find(set.begin(), set.end(), id) != set.end();
}

void SectorModel::add(std::vector<uint64_t>& set, uint64_t id) {
    if (!contains(set, id)) set.push_back(id);
}

void SectorModel::allow_readers(Sector& sector) {
    if (sector.readers == 0) return;
    for (uint64_t id : sector.allowed) add(sector.for_readers, id);
}

bool SectorModel::busy(uint64_t first, uint64_t count) const {
    for (uint64_t i = first; i < first + count; ++i)
        if (sectors_[i].changing) return true;
    return false;
}

void SectorModel::change_begins(uint64_t first, uint64_t count, uint64_t id) {
    for (uint64_t i = first; i < first + count; ++i) {
        Sector& sector = sectors_[i];
        sector.changing = true;
        sector.lost_meanwhile = false;
        add(sector.allowed, id);
        sector.since.push_back({id, UINT64_MAX});
        allow_readers(sector);
    }
}

void SectorModel::change_acknowledged(uint64_t first, uint64_t count, uint64_t id, bool stable,
                                      bool may_keep_old) {
    ++acknowledged_;
    for (uint64_t i = first; i < first + count; ++i) {
        Sector& sector = sectors_[i];
        sector.changing = false;
        if (may_keep_old) continue;  // no flush covers the discard, so both contents stay allowed
        if (sector.lost_meanwhile && !stable) {
            add(sector.base, id);
            sector.since.clear();
            sector.allowed = sector.base;
            continue;
        }
        sector.allowed = {id};
        sector.since.back().acknowledged = acknowledged_;
        if (!stable) continue;
        sector.base = {id};
        sector.since.clear();
    }
}

void SectorModel::change_failed(uint64_t first, uint64_t count, uint64_t) {
    for (uint64_t i = first; i < first + count; ++i) sectors_[i].changing = false;
}

void SectorModel::read_begins(uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i) {
        ++sectors_[i].readers;
        allow_readers(sectors_[i]);
    }
}

void SectorModel::read_failed(uint64_t first, uint64_t count) {
    for (uint64_t i = first; i < first + count; ++i)
        if (--sectors_[i].readers == 0) sectors_[i].for_readers.clear();
}

std::string SectorModel::read_ends(uint64_t first, const std::vector<uint64_t>& found) {
    std::string wrong;
    for (uint64_t i = 0; i < found.size(); ++i) {
        const Sector& sector = sectors_[first + i];
        if (wrong.empty() && !contains(sector.for_readers, found[i]))
            wrong = fmt::format("sector {} shows write {}; allowed were {}", first + i, found[i],
                                fmt::join(sector.for_readers, ", "));
    }
    read_failed(first, found.size());
    return wrong;
}

void SectorModel::flush_acknowledged(uint64_t token) {
    for (Sector& sector : sectors_) {
        // The newest acknowledged change that the flush covers replaces all older ones.
        auto covered = std::find_if(sector.since.rbegin(), sector.since.rend(),
                                    [&](const Version& version) { return version.acknowledged <= token; });
        if (covered == sector.since.rend()) continue;
        sector.base = {covered->id};
        sector.since.erase(sector.since.begin(), covered.base());
    }
}

void SectorModel::crash_of_storage() {
    crash();
    for (Sector& sector : sectors_) sector.lost_meanwhile = sector.changing;
}

void SectorModel::crash() {
    for (Sector& sector : sectors_) {
        for (const Version& version : sector.since) add(sector.base, version.id);
        uint64_t under_way = sector.changing ? sector.since.back().id : 0;
        bool changing = sector.changing;
        sector.since.clear();
        sector.allowed = sector.base;
        // The change in flight is repeated after the restart, or fails.
        if (changing) sector.since.push_back({under_way, UINT64_MAX});
        allow_readers(sector);
    }
}

}  // namespace wss::sim
