// SPDX-License-Identifier: Apache-2.0
#include "lib/io/sim/sim_contents.h"

#include <algorithm>
#include <cstring>

namespace wss::io {

bool SimContents::has(const Request& request) const noexcept {
    return request.offset <= size_ && request.length <= size_ - request.offset;
}

void SimContents::read(uint64_t offset, std::span<std::byte> data) const {
    for (uint64_t at = 0; at < data.size(); at += kSector) {
        auto sector = sectors_.find((offset + at) / kSector);
        if (sector == sectors_.end())
            std::memset(data.data() + at, 0, kSector);
        else
            std::memcpy(data.data() + at, sector->second.current().data(), kSector);
    }
}

void SimContents::change(const Request& request, uint64_t sectors) {
    const uint64_t order = ++writes_;
    for (uint64_t i = 0; i < sectors; ++i) {
        Bytes bytes{};  // discarded and zeroed sectors read as zeroes
        if (request.op == Op::kWrite) std::memcpy(bytes.data(), request.data + i * kSector, kSector);
        Sector& sector = sectors_[request.offset / kSector + i];
        if (request.fua || stable_) {
            sector.pending.clear();
            sector.stable = bytes;
        } else {
            sector.pending.push_back({order, bytes});
        }
    }
}

void SimContents::flush(uint64_t up_to) {
    for (auto& [number, sector] : sectors_) {
        auto later = std::find_if(sector.pending.begin(), sector.pending.end(),
                                  [&](auto& v) { return v.order > up_to; });
        if (later == sector.pending.begin()) continue;
        sector.stable = std::prev(later)->bytes;
        sector.pending.erase(sector.pending.begin(), later);
    }
}

void SimContents::lose_power(Random& random) {
    for (auto& [number, sector] : sectors_) {
        const size_t kept = random.below(sector.pending.size() + 1);
        if (kept > 0) sector.stable = sector.pending[kept - 1].bytes;
        sector.pending.clear();
    }
}

}  // namespace wss::io
