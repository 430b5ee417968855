// SPDX-License-Identifier: Apache-2.0
// The fabric of the simulated world (lib/reactor/sim/world.h): rules F1-F7 of fabric.h with virtual delays
// and seeded faults. Bytes that are not inlined are copied when they arrive, not when they are posted. So a
// buffer that is reused too early leads to corrupt data.
//
// Faults (SimNetwork): every message takes a random delay. It may overtake messages of other connections, but
// never those of its own. A connection breaks at a random operation, connecting is refused, or memory cannot
// be registered. A cut link delays posted operations until it heals, or fails them with kPeerLost if that
// takes longer than the retries. A crashed node does not answer.
#pragma once

#include <memory>

#include "lib/fabric/fabric.h"
#include "lib/reactor/sim/world.h"

namespace wss::fabric {

// Behaviour of the network of a world. Odds are "one in N"; 0: never.
struct SimNetwork {
    Nanoseconds delay_min = from_us(2);
    Nanoseconds delay_max = from_us(40);
    uint32_t slow_one_in = 0;  // a message that takes slow_delay
    Nanoseconds slow_delay = from_ms(50);
    uint32_t break_one_in = 0;        // per operation: the connection breaks
    uint32_t refuse_one_in = 0;       // per connect: it is refused
    uint32_t register_one_in = 0;     // per registration: fails
    bool direct = false;              // Connection::move_now() works, as over shm
    uint32_t indirect_one_in = 0;     // per call of move_now(): fails this time
    bool channel_binding = true;      // connections have one, as over rdma and tls
    Nanoseconds retries = from_s(2);  // after this time an unanswered operation fails with kPeerLost
};

// The device of `node` in its current incarnation. `network` must outlive it. Peers have addresses
// sim://<node name>. Several listeners on a node differ by port.
std::unique_ptr<Fabric> open_sim(sim::Node& node, const SimNetwork& network);

}  // namespace wss::fabric
