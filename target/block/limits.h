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
// READs outstanding of one connection; clipped to what the devices can.
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
constexpr size_t kArenaMin = 2 * kBufferMax;
// Answers of administrative commands that exceed a slot's own room (REPORT LUNS of a thousand volumes), and
// descriptor tables: their own pool, so that they never wait behind I/O. Whoever holds a piece of it may wait
// for an I/O buffer, never the other way round: no deadlock.
constexpr size_t kAdminArena = 2 * kBufferMax;

constexpr uint32_t kChannelsPerSession = 64;
constexpr uint32_t kSessionsMax = 1024;
constexpr uint32_t kReactorsMax = 64;
// Completions of one poller: soft RoCE's completion queues have at most 32767 entries.
constexpr uint32_t kPollerCompletions = 32000;

// A login that fences an old session waits this long for its storage writes to end: less than the five
// seconds after which a peer gives up connecting.
constexpr Nanoseconds kFenceTimeout = from_ms(4000);
// How long stop() lets commands in flight end before it closes their connections.
constexpr Nanoseconds kStopGently = from_s(2);
// ... and a channel that ends in order, for whatever reason, before it is closed all the same.
constexpr Nanoseconds kDrainTimeout = from_s(10);
// A channel whose peer never finishes connecting is given up.
constexpr Nanoseconds kEstablishTimeout = from_s(10);
// An initiator that wants to prove who it is has this long for it; less than the time it gives a connect.
constexpr Nanoseconds kAuthTimeout = from_s(4);
// Connections that have not proven yet who they are. Each holds a channel's memory: strangers get no more.
constexpr uint32_t kLobbyMax = 32;
// How often the session table looks for all of these.
constexpr Nanoseconds kSessionTick = from_ms(250);
constexpr uint32_t kKeepaliveDefault_ms = 5000;
// Short messages (keep-alive answers, notifications) waiting to be posted on one channel.
constexpr uint32_t kShortQueue = 32;

}  // namespace wss::block
