// SPDX-License-Identifier: Apache-2.0
// Every bound of the block service, with its reason. Nothing in target/block grows beyond these bounds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/clock.h"

namespace wss::block {

constexpr size_t kPage = 4096;

// Requests that one channel may have outstanding. A stock ib_srpt grants as many. It is twice a usual queue
// depth.
constexpr uint32_t kCreditsDefault = 128;
constexpr uint32_t kCreditsMin = 2;  // a peer reserves one for task management
constexpr uint32_t kCreditsMax = 255;
// The minimum per channel, whatever the number of channels (receive_budget.h). It is enough for the queue of
// one thread.
constexpr uint32_t kCreditsFloor = 16;
// Receive memory of all channels. Beyond the first bound, a new channel gets only kCreditsFloor credits: a
// megabyte, with the driver's IU length. Beyond the second bound, new channels are refused.
constexpr uint64_t kReceiveBytes = 512ull << 20;
constexpr uint64_t kReceiveBytesMax = 4 * kReceiveBytes;

// A response may reach the peer, and its next command may arrive, before the target's own completion
// frees the slot of the answered request. These receives accept such commands, which would otherwise wait in
// the fabric.
constexpr uint32_t kSpareReceives = 32;

// Send queue depth: each credit allows one data transfer and one response outstanding.
constexpr uint32_t kSendDepthPerCredit = 2;
constexpr uint32_t kSendDepthExtra = 32;  // keep-alive answers, notifications
// One signalled completion per this many unsignalled work requests keeps the send queue moving.
constexpr uint32_t kSignalEvery = 16;
static_assert(kSignalEvery * 2 <= kCreditsMin * kSendDepthPerCredit + kSendDepthExtra,
              "even the shortest send queue gets a signal before it is full");
// Work requests built before one post(): a turn of the reactor rarely has more for one channel.
constexpr uint32_t kBatch = 32;
// READs in flight per connection; fewer if the two devices have negotiated fewer.
constexpr uint32_t kReadDepth = 16;
// Inline bytes requested per work request. Short messages have 16 bytes, a good response 36. Responses with
// sense data are too rare to pay for more space in every entry of every send queue.
constexpr uint32_t kInlineWish = 64;

// Limits of the length of initiator-to-target IUs. An IU shorter than kIuMin has no room for a command with
// one descriptor. kIuMax has room for the largest immediate data of the protocol.
constexpr uint32_t kIuMin = 64;
constexpr uint32_t kIuMax = WSS_SRP_MAX_IT_IU_LEN;
static_assert(kIuMax >= 8260, "a stock ib_srp requests 68 + 8192 and warns when it gets less");

// The largest transfer of one command: the maximum of a stock initiator, and of blk-mq's 256 segments of
// 4 KiB.
constexpr uint32_t kTransferMax = 1024 * 1024;
// The optimal transfer length reported to initiators. Linux reads ahead twice this, so a sequential reader
// has one command in flight while it copies another. A power of two, because partitioning tools align to it.
constexpr uint32_t kTransferOptimal = kTransferMax / 2;
// VERIFY reads and compares in chunks of this size. A chunk follows the data-out in the same buffer.
constexpr uint32_t kCompareChunk = 64 * 1024;
// The largest block of a buffer pool: the data-out and one chunk to compare with, rounded up to a power of
// two.
constexpr uint32_t kBufferMax = 2 * kTransferMax;
static_assert(kBufferMax >= kTransferMax + kCompareChunk, "a compare needs one buffer, never two");
constexpr size_t kArenaDefault = 32 * 1024 * 1024;  // I/O buffers of one reactor and fabric
// One part of the arena is for buffers of up to kSmallBuffer bytes (arena.h). A quarter of the default arena
// has room for two thousand buffers of 4 KiB, or 128 of 64 KiB. Storage does not use more at once.
constexpr uint32_t kSmallBuffer = 64 * 1024;
constexpr uint32_t kSmallPart = 4;
constexpr size_t kArenaMin = 3 * kBufferMax;
// Descriptor tables, and answers of administrative commands that do not fit in a slot (REPORT LUNS of a
// thousand volumes). They have their own pool, so they never wait behind I/O. A command that holds a block of
// this pool may wait for an I/O buffer, but never the reverse, so there is no deadlock.
constexpr size_t kAdminArena = 2 * kBufferMax;

constexpr uint32_t kChannelsPerSession = 64;
constexpr uint32_t kReactorsMax = 64;
constexpr uint32_t kSessionsMax = 1024;
// Maximum number of sessions of one initiator name, and of one source.
constexpr uint32_t kSessionsPerName = kSessionsMax / 4;
constexpr uint32_t kSessionsPerSource = kSessionsMax / 4;
// Maximum number of channels of all sessions together, and of one source.
constexpr uint32_t kChannelsMax = 4096;
constexpr uint32_t kChannelsPerSource = kChannelsMax / 4;

// A command that has waited this long for the limits of its volume is refused. This is less than the thirty
// seconds after which initiators time out a command. The second value is the interval of the check.
constexpr Nanoseconds kThrottleMax = from_s(20);
constexpr Nanoseconds kThrottleLook = from_ms(500);
// A command that was first sent this long ago begins regardless of the limits. Initiators repeat a refused
// command for three minutes and then fail it.
constexpr Nanoseconds kThrottleTotal = from_s(60);
// Number of places that are kept for the refused commands of one channel for one volume: as many as the
// channel may have outstanding. kThrottlePlaceKept is how long a place is kept: an initiator repeats the
// command within a second, or when it has a credit.
constexpr uint32_t kThrottlePlaces = 256;
static_assert(kThrottlePlaces > kCreditsMax, "every outstanding command has a place");
constexpr Nanoseconds kThrottlePlaceKept = from_s(30);

// A login that fences an old session waits this long for the old session's storage writes to end. This is
// less than the connect timeouts of initiators: 5 s in lib/initiator, 10 s in the driver.
constexpr Nanoseconds kFenceTimeout = from_ms(4000);
// How long stop() waits for commands in flight before it closes their connections.
constexpr Nanoseconds kStopGently = from_s(2);
// How long a channel may drain before it is closed.
constexpr Nanoseconds kDrainTimeout = from_s(10);
// A peer that completes no RDMA operation and receives no message for this long is disconnected, because it
// holds buffers. Equal to the command timeout of initiators, which then no longer need the data.
constexpr Nanoseconds kTakeTimeout = from_s(30);
// A channel whose peer does not finish connecting within this time is closed.
constexpr Nanoseconds kEstablishTimeout = from_s(10);
// Time within which an initiator must authenticate; less than its connect timeout.
constexpr Nanoseconds kAuthTimeout = from_s(4);
// Maximum number of channels with pending authentication. Each holds a connection, its queues and
// kAuthSlots receive slots: about 200 KiB. One more channel evicts another (lib/fabric/pending_places.h).
// kEvictedMax more may be closing after their eviction. That takes a few turns, in which as many may arrive.
constexpr uint32_t kPendingAuthMax = 1024;
constexpr uint32_t kEvictedMax = 1024;
// Receive slots of a channel until it has authenticated: one for START and one for PROOF.
constexpr uint32_t kAuthSlots = 2;
static_assert(kAuthSlots <= kCreditsMin + kSpareReceives, "an authenticated channel has more slots");
// Maximum number of channels that were refused after their proof and have not closed yet.
constexpr uint32_t kRefusedMax = 32;
// How often the session table checks these deadlines and the silence of initiators.
constexpr Nanoseconds kSessionTick = from_ms(250);
constexpr uint32_t kKeepaliveDefault_ms = 5000;
// A silent initiator without keep-alive (a stock one) may be idle or dead. After kSilenceProbe it gets a
// CRED_REQ, which every SRP initiator answers. If it is silent until kSilenceMax, its session is closed.
constexpr Nanoseconds kSilenceProbe = from_s(60);
constexpr Nanoseconds kSilenceMax = from_s(90);
// Short messages (keep-alive answers, notifications) waiting to be posted on one channel.
constexpr uint32_t kShortQueue = 32;

}  // namespace wss::block
