// SPDX-License-Identifier: Apache-2.0
// The shm fabric: peers on one host. Messages go through rings in shared memory; one-sided operations are
// loads and stores by the initiator, without the peer.
//
// How memory is reached
//  - allocate()d with read access: a memfd. On first use the initiator asks for it and maps it; from then on
//  a
//    READ or WRITE is a memcpy: no system call, no CPU of the peer. Memory that may only be read is sealed
//    (F_SEAL_FUTURE_WRITE): the peer cannot map it writable.
//  - register_memory(), and allocate()d write-only memory (a mapping could not keep the peer from reading):
//    process_vm_readv/writev where the kernel allows that (same user, no ptrace restriction).
//  - else, and whenever anything about an access is doubtful: the peer executes it, as with tcp. Whoever owns
//    the memory judges; nothing is refused by the initiator on its own authority.
//
// Revocation: each region has a word in a page that peers map read-only, checked before each operation. An
// operation that passed the check may still be moving when the word is cleared, as an operation in a NIC may
// be. For mapped memory that is harmless (the pages live on, nobody else uses them). Foreign memory may be
// freed right after, so the destructor of its region waits until no peer says that it is busy in it.
//
// What a hostile peer can do. Peers have our user id or are root (checked on both sides), so the kernel would
// let most of them read our memory anyway (ptrace); where it does not (restricted ptrace), this holds: frames
// and rings are validated as tcp's are; a peer can touch regions that it knows the key of, as long as it
// keeps its mapping (revoked or not: it then shares pages with nobody); it cannot make us fault (sizes are
// sealed), write read-only memory, or map a region that it may not read. It can waste our time: up to a
// second of wait, once, when a region of foreign memory is destroyed that it claims to be busy in.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::shm {

Result<std::unique_ptr<Fabric>> open();

}  // namespace wss::fabric::shm
