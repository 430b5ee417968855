// SPDX-License-Identifier: Apache-2.0
// The shm fabric: peers on one host. Messages go through rings in shared memory. One-sided operations are
// loads and stores by the initiator, without the peer.
//
// Access to memory
//  - allocate()d with read access: a memfd. On first use the initiator requests it and maps it. After that a
//    READ or WRITE is a memcpy: no system call, no CPU of the peer. Read-only memory is sealed
//    (F_SEAL_FUTURE_WRITE): the peer cannot map it writable.
//  - register_memory(), and allocate()d write-only memory (a mapping could not prevent the peer from
//    reading): frames through the rings, which the owner executes, as with tcp. A page fault there
//    (userfaultfd, a file on FUSE or NFS, swap) may last arbitrarily long; the owner's thread waits for it,
//    not ours.
//  - in all doubtful cases: frames. The owner of the memory checks the access; the initiator refuses nothing
//    itself.
//
// Revocation: each region of the first kind has a word in a page that peers map read-only, checked before
// each operation. An operation that passed the check may still be copying when the word is cleared, as an
// operation in a NIC may be. That is harmless: the mapping keeps the pages, and nothing else uses them.
//
// Hostile peers. A peer has our user id or is root (both sides check it), so in most cases the kernel would
// let it read our memory anyway (ptrace). Where the kernel does not (restricted ptrace), the following holds.
// Frames and rings are validated like those of tcp. A peer can access regions whose key it knows, while it
// keeps its mapping; after revocation no other process uses those pages. It cannot write read-only memory, or
// map a region that it may not read. A userfaultfd of the peer has no effect on our mapping of its memfd. For
// the effect of holes see map_shared().
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::shm {

Result<std::unique_ptr<Fabric>> open();

}  // namespace wss::fabric::shm
