// SPDX-License-Identifier: Apache-2.0
// The budget of file descriptors: peers may take most of them, never the last ones.
//
// Thread-safety: functions.
#pragma once

#include <cstdint>

namespace wss {

// Kept free of peers' sockets, for what the process itself has to open: control clients, volumes, the state
// file.
constexpr uint64_t kDescriptorReserve = 128;

// Raises the soft limit of open files to the hard one: shells and service managers start programs with 1024
// for the sake of select(), which nothing here calls. Returns the limit that counts.
uint64_t raise_descriptor_limit() noexcept;

// … of the present limit: of a very small one the reserve is a quarter.
uint64_t descriptor_reserve() noexcept;

// How many more the process can open. Reads /proc/self/fd; without that there is no limit.
uint64_t descriptors_left() noexcept;

// Whether `fd`, opened for a peer a moment ago, leaves the reserve untouched. The kernel gives the lowest
// number that is free, so that the number shows how many are open.
bool within_descriptor_budget(int fd) noexcept;

}  // namespace wss
