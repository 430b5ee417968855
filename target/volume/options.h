// SPDX-License-Identifier: Apache-2.0
// The options that describe a volume, and its identity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss::volume {

// Each volume needs a disk queue per reactor, and fs.aio-max-nr limits their number.
constexpr uint32_t kVolumesMax = 1024;
constexpr uint32_t kLunMax = 16383;  // flat LUN addressing has 14 bits
constexpr size_t kNameMax = 63;
static_assert(kVolumesMax <= kLunMax + 1, "every volume needs a LUN of its own");

// A name: 1 to 63 of A-Z a-z 0-9 . _ -, not starting with '.' or '-'.
Status check_name(std::string_view name);
// The text of `failed` without a leading "volume NAME", for messages that already begin with the name.
std::string reason_of(const Status& failed, std::string_view name);

// Limits of a volume for all initiators together (rate_limit.h). 0: no limit.
struct RateLimits {
    uint64_t iops = 0;       // operations per second
    uint64_t bandwidth = 0;  // bytes per second
    bool any() const noexcept { return iops != 0 || bandwidth != 0; }
    bool operator==(const RateLimits&) const = default;
};

// A volume as the operator requested it.
struct VolumeOptions {
    std::string name;
    std::string backend;      // "aio:PATH", "ram:SIZE", ...
    uint64_t size = 0;        // bytes; 0: as large as the backend
    uint32_t block_size = 0;  // 512 or 4096; 0: 512, or 4096 if the backend requires it
    bool read_only = false;
    bool create = false;              // the file may be created
    std::vector<std::string> access;  // "INITIATOR=rw|ro|none" (access.h); empty: every initiator may write
    RateLimits limits;
    bool declared = false;  // by the configuration, which creates it at each start
    bool operator==(const VolumeOptions&) const = default;
};

// Identifies a volume to initiators for its whole life.
struct Identity {
    uint32_t lun = 0;
    uint64_t wwid = 0;  // 60 bits: NAA 3, locally assigned
    bool operator==(const Identity&) const = default;
};
constexpr uint64_t kWwidMask = (uint64_t{1} << 60) - 1;
// As initiators and operators see it: "naa.3" and 15 digits.
std::string wwid_text(uint64_t wwid);

}  // namespace wss::volume
