// SPDX-License-Identifier: Apache-2.0
// Every bound of the block service, with its reason. Nothing in target/block grows beyond what is named here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/clock.h"

namespace wss::block {

constexpr size_t kPage = 4096;

// Requests that one channel may have outstanding: what a stock ib_srpt grants, and twice a usual queue depth.
constexpr uint32_t kCreditsDefault = 128;
constexpr uint32_t kCreditsMin = 2;  // a peer keeps one for task management
constexpr uint32_t kCreditsMax = 255;
// What a channel gets at least, however many there are (receive_budget.h): enough for a queue of one thread.
constexpr uint32_t kCreditsFloor = 16;
// What all channels receive into. Beyond the first each takes no more than the floor costs (a megabyte with
// the driver's IU length), beyond the second there are no more.
constexpr uint64_t kReceiveBytes = 512ull << 20;
constexpr uint64_t kReceiveBytesMax = 4 * kReceiveBytes;

// A response may reach the peer, and its next command us, before our own completion frees the slot of the
// answered request. These receives catch such commands; without them they would wait in the fabric.
constexpr uint32_t kSpareReceives = 32;

// Work requests of one connection: each command may have one data transfer and one response outstanding, and
// the queue may be full of the half that waits for its completion.
constexpr uint32_t kSendDepthPerCredit = 2;
constexpr uint32_t kSendDepthExtra = 32;  // keep-alive answers, notifications
// One signalled completion per this many unsignalled work requests keeps the send queue moving.
constexpr uint32_t kSignalEvery = 16;
static_assert(kSignalEvery * 2 <= kCreditsMin * kSendDepthPerCredit + kSendDepthExtra,
              "a send queue of the least depth sees a signal before it is full");
// Work requests built before one post(): a reactor's turn rarely has more for one channel.
constexpr uint32_t kBatch = 32;
// READs in flight of one connection; fewer where the devices agreed on fewer.
constexpr uint32_t kReadDepth = 16;
// Sixteen bytes of header and tag need it, a good response 36; a response with sense is rarer than the space
// that more would take in every slot of every send queue.
constexpr uint32_t kInlineWish = 64;

// Initiator-to-target IU lengths we serve. Below: no room for a command with one descriptor. Above: no room.
constexpr uint32_t kIuMin = 64;
constexpr uint32_t kIuMax = WSS_SRP_MAX_IT_IU_LEN;
static_assert(kIuMax >= 8260, "a stock ib_srp asks for 68 + 8192 and warns when it gets less");

// One command moves at most this much: what a stock initiator and blk-mq's 256 segments of 4 KiB reach.
constexpr uint32_t kTransferMax = 1024 * 1024;
// What initiators are told to prefer. Linux reads ahead twice this, so that a sequential reader has one
// command on its way while it copies another; a power of two, or partitioning tools align to something odd.
constexpr uint32_t kTransferOptimal = kTransferMax / 2;
// A VERIFY or COMPARE AND WRITE compares in pieces of this size, behind the data-out in the same buffer.
constexpr uint32_t kCompareChunk = 64 * 1024;
// The largest block a buffer pool hands out: the data-out and one chunk to compare with.
constexpr uint32_t kBufferMax = 2 * kTransferMax;
static_assert(kBufferMax >= kTransferMax + kCompareChunk, "a compare needs one buffer, never two");
constexpr size_t kArenaDefault = 32 * 1024 * 1024;  // I/O buffers of one reactor and fabric
// A part of them is for buffers of up to kSmallBuffer bytes (arena.h): a quarter has room for two thousand of
// 4 KiB or 128 of 64 KiB, which is as much as storage makes use of.
constexpr uint32_t kSmallBuffer = 64 * 1024;
constexpr uint32_t kSmallPart = 4;
constexpr size_t kArenaMin = 3 * kBufferMax;
// Answers of administrative commands that exceed a slot's own room (REPORT LUNS of a thousand volumes), and
// descriptor tables: their own pool, so that they never wait behind I/O. Whoever holds a piece of it may wait
// for an I/O buffer, never the other way round: no deadlock.
constexpr size_t kAdminArena = 2 * kBufferMax;

constexpr uint32_t kChannelsPerSession = 64;
constexpr uint32_t kReactorsMax = 64;
constexpr uint32_t kSessionsMax = 1024;
// … of one initiator name, and of one source.
constexpr uint32_t kSessionsPerName = kSessionsMax / 4;
constexpr uint32_t kSessionsPerSource = kSessionsMax / 4;
// Channels of all sessions together, and of one source of them.
constexpr uint32_t kChannelsMax = 4096;
constexpr uint32_t kChannelsPerSource = kChannelsMax / 4;

// A command waits no longer for the limits of its volume before it is refused, less than the thirty seconds
// after which initiators give a command up; and how often the target looks for these.
constexpr Nanoseconds kThrottleMax = from_s(20);
constexpr Nanoseconds kThrottleLook = from_ms(500);
// One that was sent first so long ago begins, whatever the limits are: initiators send a refused command
// again for three minutes and fail it then.
constexpr Nanoseconds kThrottleTotal = from_s(60);
// Refused commands of one channel for one volume whose places are kept: as many as it may have outstanding;
// and for how long: an initiator sends one again within a second, or when it has a credit.
constexpr uint32_t kThrottlePlaces = 256;
static_assert(kThrottlePlaces > kCreditsMax, "all that are outstanding have one");
constexpr Nanoseconds kThrottlePlaceKept = from_s(30);

// A login that fences an old session waits this long for its storage writes to end: less than the five
// seconds after which a peer gives up connecting.
constexpr Nanoseconds kFenceTimeout = from_ms(4000);
// How long stop() lets commands in flight end before it closes their connections.
constexpr Nanoseconds kStopGently = from_s(2);
// ... and a channel that ends in order, for whatever reason, before it is closed all the same.
constexpr Nanoseconds kDrainTimeout = from_s(10);
// A peer that completes no RDMA operation and takes no message of ours for so long is disconnected: it holds
// buffers. As long as initiators wait for a command: what they did not take by then they do not want any
// more.
constexpr Nanoseconds kTakeTimeout = from_s(30);
// A channel whose peer never finishes connecting is given up.
constexpr Nanoseconds kEstablishTimeout = from_s(10);
// An initiator that wants to prove who it is has this long for it; less than the time it gives a connect.
constexpr Nanoseconds kAuthTimeout = from_s(4);
// Channels whose authentication is pending. Each holds a channel's memory: strangers get no more. One more
// evicts another (lib/fabric/stranger_places.h); as many again may be closing after their eviction.
constexpr uint32_t kPendingAuthMax = 32;
constexpr uint32_t kEvictedMax = 32;
// Channels that were refused after their proof and have not taken note of it.
constexpr uint32_t kRefusedMax = 32;
// How often the session table looks for all of these.
constexpr Nanoseconds kSessionTick = from_ms(250);
constexpr uint32_t kKeepaliveDefault_ms = 5000;
// Initiators without keep-alive (stock ones) may be idle for ever, or dead. One that was silent for the first
// time gets a CRED_REQ, which every SRP initiator answers; one that is still silent after the second is
// logged out.
constexpr Nanoseconds kSilenceProbe = from_s(60);
constexpr Nanoseconds kSilenceMax = from_s(90);
// Short messages (keep-alive answers, notifications) waiting to be posted on one channel.
constexpr uint32_t kShortQueue = 32;

}  // namespace wss::block
