// SPDX-License-Identifier: Apache-2.0
// What a session may be told, with its defaults, and the bounds of everything in lib/initiator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/base/clock.h"
#include "lib/base/secrets.h"
#include "lib/fabric/address.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

// Commands on the wire of one channel, at most: a tag keeps its slot in ten bits.
constexpr uint32_t kQueueDepthMax = 1024;
constexpr uint32_t kChannelsMax = 16;
// Pieces of memory that one command names. Each costs the target one RDMA operation: more are copied into one
// piece instead.
constexpr uint32_t kDescriptorsMax = 16;
// Larger requests are cut; what targets commonly take.
constexpr uint32_t kTransferMax = 1024 * 1024;
// Room of the smallest bounce buffer. A channel's worth of small requests fits in the default arena.
constexpr uint32_t kBounceChunk = 32 * 1024;
// One command may need two blocks' worth of a transfer (compare and write).
constexpr size_t kBounceMin = 2 * kTransferMax;
// A target that answers "look again" more often than this to one request means something else.
constexpr uint32_t kRetriesMax = 16;
constexpr uint32_t kVolumesMax = 2047;  // that fit into the answer we ask for
// How often deadlines are looked at; they are that much late at most.
constexpr Nanoseconds kTick = from_ms(100);
// A target that is busy is asked again after this.
constexpr Nanoseconds kBusyDelay = from_ms(10);

struct Options {
    fabric::Address address;
    wire::PortId
        target_port{};  // zero: whoever listens there (a stock ib_srpt wants its service GUID, twice)
    wire::PortId initiator_port{};  // zero: drawn by chance
    uint32_t channels = 1;
    uint32_t queue_depth = 128;  // commands on the wire of one channel, if the target grants as many
    uint32_t caps = WSS_CAP_FUSED_COMPLETION | WSS_CAP_BATCHED_COMPLETION | WSS_CAP_KEEPALIVE |
                    WSS_CAP_NOTIFY | WSS_CAP_CACHE;  // wished for

    // Who we are, and the secret that proves it. With one, a target that does not prove to know it as well is
    // refused; without (empty), a target that wants one refuses us.
    // Over tls:// it also is the pre-shared key.
    NamedSecret identity;
    fabric::tls::Files tls;  // for tls:// addresses, of the target and of cache engines

    Nanoseconds connect_timeout = from_s(5);
    // From submission to completion, whatever happens in between. A request may set its own.
    Nanoseconds request_timeout = from_s(30);
    // After the connection is lost: requests wait this long for a new one, then fail until there is one.
    Nanoseconds reconnect_timeout = from_s(15);
    // Pause between attempts: doubles from the first to the second.
    Nanoseconds reconnect_delay = from_ms(100);
    Nanoseconds reconnect_delay_max = from_s(2);

    // Writes up to this size travel in the command. The target may allow less.
    uint32_t immediate_max = WSS_SRP_IMM_DATA_MAX;
    // Registered memory through which the data of unregistered buffers passes.
    size_t bounce_bytes = size_t{16} * 1024 * 1024;
    // Unregistered buffers of at least this size are registered instead of copied, and stay registered for
    // the next time; 0: never. Only for callers that invalidate memory before they give it back to the
    // system: over RDMA hardware a stale registration reaches pages that are somebody else's by then.
    uint32_t pin_at_least = 0;
    uint32_t pins_max = 64;
    size_t pin_bytes_max = size_t{64} * 1024 * 1024;
};

}  // namespace wss::initiator
