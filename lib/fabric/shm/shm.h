// SPDX-License-Identifier: Apache-2.0
// The shm fabric: peers on one host. Messages go through rings in shared memory. One-sided operations are
// loads and stores by the side that posts them, without the peer.
//
// Access to memory
//  - Memory of allocate() with read access is a memfd. On first use the other side requests and maps it.
//    After that a READ or WRITE is a memcpy: it needs no system call and no CPU of the owner. Read-only
//    memory is sealed (F_SEAL_FUTURE_WRITE), so that the other side cannot map it writable.
//  - Memory of register_memory(), and write-only memory of allocate(), is accessed by frames through the
//    rings, which the owner executes, as with tcp. (A mapping could not prevent the other side from reading
//    write-only memory.) A page fault there (userfaultfd, a file on FUSE or NFS, swap) may last arbitrarily
//    long. The owner's thread waits for it, not the one that posted the operation.
//  - In every doubtful case frames are used, and the owner of the memory checks the access. The side that
//    posts an operation refuses nothing itself.
//
// Revocation: each region of the first kind has a word in a page that peers map read-only. A peer checks the
// word before each operation. An operation that passed the check may still be copying when the word is
// cleared, as an operation in a NIC may be. That is harmless: the mapping keeps the pages, and nothing else
// uses them.
//
// Hostile peers. A peer has our user id or is root (both sides check it), so in most cases the kernel would
// let it read our memory anyway (ptrace). Where the kernel would not (restricted ptrace), the following
// holds. Frames and rings are validated like those of tcp. A peer can access regions whose key it knows, as
// long as it keeps its mapping. After the revocation no other process uses those pages. A peer can neither
// write read-only memory nor map a region that it may not read. A userfaultfd of the peer has no effect on
// our mapping of its memfd. For the effect of holes see map_shared().
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::shm {

Result<std::unique_ptr<Fabric>> open();

}  // namespace wss::fabric::shm
