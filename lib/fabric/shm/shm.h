// SPDX-License-Identifier: Apache-2.0
// The shm fabric: peers on one host. Messages go through rings in shared memory; one-sided operations are
// loads and stores by the initiator, without the peer.
//
// How memory is reached
//  - allocate()d with read access: a memfd. On first use the initiator asks for it and maps it; from then on
//    a READ or WRITE is a memcpy: no system call, no CPU of the peer. Memory that may only be read is sealed
//    (F_SEAL_FUTURE_WRITE): the peer cannot map it writable.
//  - register_memory(), and allocate()d write-only memory (a mapping could not keep the peer from reading):
//    frames through the rings, which the owner executes, as with tcp. A page fault there (userfaultfd, a file
//    on FUSE or NFS, swap) lasts as long as its handler likes. The owner's thread waits for it, not ours.
//  - whenever anything about an access is doubtful: frames. The owner of the memory checks; nothing is
//    refused by the initiator on its own authority.
//
// Revocation: each region of the first kind has a word in a page that peers map read-only, checked before
// each operation. An operation that passed the check may still be moving when the word is cleared, as an
// operation in a NIC may be. That is harmless: the pages live on, and nobody else uses them.
//
// What a hostile peer can do. Peers have our user id or are root (checked on both sides), so the kernel would
// let most of them read our memory anyway (ptrace); where it does not (restricted ptrace), this holds: frames
// and rings are validated as tcp's are; a peer can touch regions that it knows the key of, as long as it
// keeps its mapping (revoked or not: it then shares pages with nobody); it cannot write read-only memory, or
// map a region that it may not read. The pages of a memfd fault us through our own mapping only, on which a
// userfaultfd of the peer has no effect. What it can do to them: see map_shared().
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"

namespace wss::fabric::shm {

Result<std::unique_ptr<Fabric>> open();

}  // namespace wss::fabric::shm
