// SPDX-License-Identifier: Apache-2.0
#include "lib/io/sim/sim_disk.h"

#include <fmt/format.h>

#include <cerrno>

namespace wss::io {

std::string SimDisk::ownership() const {
    return owners_ == 0 ? "" : fmt::format("{} {}", number_, owners_);
}

int SimDisk::refusal(const Flight& flight) {
    if (taken_) return ESHUTDOWN;
    if (flight.silent) return ETIMEDOUT;
    if (refusing_) return EIO;
    return full_ && flight.request->op == Op::kWrite ? ENOSPC : 0;
}

void SimDisk::crash() {
    break_off();
    contents().lose_power(world().random());
}

}  // namespace wss::io
