// SPDX-License-Identifier: Apache-2.0
// The contents of simulated storage, by sectors of 512 bytes.
//
// Each sector has a stable content, and the versions written since. A flush makes versions stable. When power
// is lost, each sector keeps, at random, its stable content or any later version: writes vanish, survive,
// tear and overtake one another.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/backend.h"

namespace wss::io {

class SimContents {
  public:
    static constexpr uint32_t kSector = 512;
    using Bytes = std::array<std::byte, kSector>;

    explicit SimContents(uint64_t size) : size_(size) {}

    uint64_t size() const noexcept { return size_; }
    void resize(uint64_t bytes) noexcept { size_ = bytes; }
    bool is_volatile() const noexcept { return !stable_; }
    // Every later write is stable.
    void make_stable() noexcept { stable_ = true; }
    // Number of executed requests that changed the contents.
    uint64_t writes() const noexcept { return writes_; }

    bool has(const Request& request) const noexcept;
    void read(uint64_t offset, std::span<std::byte> data) const;
    // Executes the first `sectors` of a request that changes the contents.
    void change(const Request& request, uint64_t sectors);
    // Makes the changes up to this number of writes() stable.
    void flush(uint64_t up_to);
    void lose_power(Random& random);

  private:
    struct Version {
        uint64_t order;
        Bytes bytes;
    };
    struct Sector {
        Bytes stable{};
        std::vector<Version> pending;  // oldest first
        const Bytes& current() const { return pending.empty() ? stable : pending.back().bytes; }
    };

    uint64_t size_;
    std::map<uint64_t, Sector> sectors_;
    uint64_t writes_ = 0;
    bool stable_ = false;
};

}  // namespace wss::io
