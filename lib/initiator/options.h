// SPDX-License-Identifier: Apache-2.0
// Options of a session with their defaults, and the limits of lib/initiator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/clock.h"
#include "lib/base/secrets.h"
#include "lib/fabric/address.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/wire/srp.h"

namespace wss::initiator {

// Maximum number of commands in flight on one channel: a tag has ten bits for its slot.
constexpr uint32_t kQueueDepthMax = 1024;
constexpr uint32_t kChannelsMax = 16;
// Maximum number of memory segments that one command names. Each costs the target one RDMA operation. With
// more, the data is copied into one segment instead.
constexpr uint32_t kDescriptorsMax = 16;
// Larger requests are split. The value is a common limit of targets.
constexpr uint32_t kTransferMax = 1024 * 1024;
// Smallest bounce buffer. A channel's small requests all fit in the default arena.
constexpr uint32_t kBounceChunk = 32 * 1024;
// A compare-and-write moves twice the data of a transfer.
constexpr size_t kBounceMin = 2 * kTransferMax;
// After more retries than this the response to a request is final. Retries after BUSY are not counted:
// the deadline limits them.
constexpr uint32_t kRetriesMax = 16;
constexpr uint32_t kVolumesMax = 2047;  // number that fits in the requested REPORT LUNS answer
// Interval of deadline checks, which is their maximum delay.
constexpr Nanoseconds kTick = from_ms(100);
// Delay before a command is sent again to a busy target.
constexpr Nanoseconds kBusyDelay = from_ms(10);

struct Options {
    fabric::Address address;
    wire::PortId target_port{};  // zero: any target there (a stock ib_srpt requires its service GUID, twice)
    wire::PortId initiator_port{};  // zero: chosen at random
    uint32_t channels = 1;
    uint32_t queue_depth = 128;  // commands in flight on one channel, if the target grants as many
    uint32_t caps = WSS_CAP_FUSED_COMPLETION | WSS_CAP_BATCHED_COMPLETION | WSS_CAP_KEEPALIVE |
                    WSS_CAP_NOTIFY | WSS_CAP_CACHE;  // requested

    // The initiator's name, and the secret that proves it. With a secret, the session refuses a target that
    // cannot prove that it knows the secret. Without one (empty), a target that requires authentication
    // refuses the session. Over tls:// the secret is also the source of the pre-shared key.
    NamedSecret identity;
    // The name that the target must prove, with a secret only. If it is empty, the first login accepts any
    // name, and later logins of the session require the same name.
    std::string target_name;
    fabric::tls::Files tls;  // used for tls:// addresses of the target and of cache engines

    Nanoseconds connect_timeout = from_s(5);
    // From submission to completion, reconnects included. A request may set its own.
    Nanoseconds request_timeout = from_s(30);
    // After a loss, requests wait this long for a new connection. Then they fail until there is one.
    Nanoseconds reconnect_timeout = from_s(15);
    // The first attempt after a loss follows at once. The pause before each later attempt is random, between
    // half of a maximum and the maximum. The maximum is the first of these values at the beginning and
    // doubles up to the second.
    Nanoseconds reconnect_delay = from_ms(100);
    Nanoseconds reconnect_delay_max = from_s(2);

    // Writes up to this size are sent as immediate data. The target may allow less.
    uint32_t immediate_max = WSS_SRP_IMM_DATA_MAX;
    // Registered memory for copies of unregistered buffers.
    size_t bounce_bytes = size_t{16} * 1024 * 1024;
    // Unregistered buffers of at least this size are registered instead of copied, and stay registered for
    // later requests; 0: never. Set it only if memory is invalidated before it is returned to the system:
    // over RDMA hardware, a stale registration accesses pages that may then belong to another owner.
    uint32_t pin_at_least = 0;
    uint32_t pins_max = 64;
    size_t pin_bytes_max = size_t{64} * 1024 * 1024;
};

}  // namespace wss::initiator
