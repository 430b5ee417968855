// SPDX-License-Identifier: Apache-2.0
// The budget of file descriptors: peers may use most of them, but never the reserve.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <cstdint>

namespace wss {

// Reserved for descriptors that the process itself opens: control clients, volumes, the state file.
constexpr uint64_t kDescriptorReserve = 128;

// Raises the soft limit of open files to the hard one. Shells and service managers start programs with 1024
// because of select(), which this project does not use. Returns the resulting limit, or 0 if the limit cannot
// be read.
uint64_t raise_descriptor_limit() noexcept;

// The reserve under the current limit of open files: kDescriptorReserve, but at most a quarter of the limit.
uint64_t descriptor_reserve() noexcept;

// Number of descriptors that the process can still open. Reads /proc/self/fd. Returns RLIM_INFINITY if there
// is no limit, or if that directory cannot be opened.
uint64_t descriptors_left() noexcept;

// True if `fd`, which was just opened for a peer, leaves the reserve untouched. The kernel assigns the lowest
// free number, so the number shows how many descriptors are open.
bool within_descriptor_budget(int fd) noexcept;

}  // namespace wss
