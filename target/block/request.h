// SPDX-License-Identifier: Apache-2.0
// Request: one command in the target, and its life cycle.
//
// A channel has a fixed number of slots (credits + spare). A slot is a Request and a part of the channel's
// registered receive memory:
//
//        0        256                         4028   4096
//        +---------+---------------------------+------+---------------- ... -+
//        | answer  | data of administrative    |  IU: header | immediate data |
//        | IU      | commands (INQUIRY, ...)   |      |      |                |
//        +---------+---------------------------+------+---------------- ... -+
//
// The IU is received at 4028, so that immediate data, which begins 68 bytes into it, is page-aligned and goes
// to storage without a copy.
//
// States, and in each the owner of the request, of its buffer and of the access to the initiator's memory:
//   kReceiving      the fabric: its receive is posted or about to be
//   kWaiting        the channel, while it parses the command; a flow, for a buffer or for the cache
//   kThrottled      the unit's throttle: the volume has reached its limits
//   kFetchingTable  the fabric: RDMA READ of the descriptor table
//   kFetchingData   the fabric: RDMA READs from the initiator into the buffer (or into a RAM volume)
//   kHeld           the unit: a COMPARE AND WRITE has locked blocks that this command would write
//   kAwaiting       the unit: the data is in cache engines that are away
//   kLocking        the range locks: a COMPARE AND WRITE that waits for its lock
//   kReserving      the reservations: a PERSISTENT RESERVE OUT, until it is in effect on every reactor
//   kStorage        the volume's queue, or the cache
//   kSending        the channel: the answer waits for room in the send queue; then the fabric: posted
//   kAborting       none: task management or PREEMPT AND ABORT waits for the aborted commands to end; an
//                   authentication waits to be admitted
//
//   [kThrottled] comes before all other waits of a command.
//   read   kReceiving → [kWaiting] → kStorage → kSending → kReceiving
//          RAM volume: kReceiving → kSending → kReceiving
//   write  kReceiving → [kWaiting] → kFetchingData → [kHeld] → kStorage → kSending → kReceiving
//          immediate data: kReceiving → [kHeld] → kStorage → kSending → kReceiving
//          RAM volume: kReceiving → [kHeld] → kFetchingData → kSending → kReceiving
//
// Invariants
//  Q1  A slot's receive is posted again when nothing refers to its bytes: immediately when the answer is
//      inlined and unsignalled, otherwise when the request's last signalled work request completes (F2).
//  Q2  A buffer returns to its pool after the fabric and the storage are done with it: in Channel::release(),
//      or in Channel::await_engines() before the command waits. The cache returns the buffers that it owns
//      (Lane::give_back()).
//  Q3  An aborted request completes the steps that it has begun, and notifies its abort job. It is not
//      answered, unless only other initiators aborted it: then it ends with TASK ABORTED.
//  Q4  When the connection closes, requests in storage, range locks or reservations stay until those return
//      them. All others are released immediately. The cache returns requests that it has not begun at once
//      (Gateway::end_cancelled()), also those that are aborted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/io/backend.h"
#include "lib/wire/srp.h"
#include "target/scsi/scsi.h"
#include "target/volume/volume.h"

namespace wss::cache {
struct CacheCommand;
}

namespace wss::block {

class Channel;
struct AbortJob;
struct LimitFlow;
struct Unit;

enum class State : uint8_t {
    kReceiving,
    kWaiting,
    kThrottled,
    kFetchingTable,
    kFetchingData,
    kHeld,
    kAwaiting,
    kLocking,
    kReserving,
    kStorage,
    kSending,
    kAborting,
};
std::string_view to_string(State state);

// The parts of a lane's arena (arena.h).
enum class Part : uint8_t { kSmall, kLarge, kAdmin };
constexpr size_t kParts = 3;

// Cookie of a short message that was not inlined (a Request's address is a multiple of 64).
constexpr uint64_t kShortCookie = 2;
// Cookie of a notice about a cache engine.
constexpr uint64_t kNoticeCookie = 6;
// Cookie of the empty WRITE whose completion proves that everything posted before it is complete.
constexpr uint64_t kFenceCookie = 4;

// The parts of a slot, in bytes from its start.
constexpr size_t kSlotAnswer = 0;
constexpr size_t kSlotAnswerBytes = WSS_SRP_MAX_TI_IU_LEN;
constexpr size_t kSlotAdmin = kSlotAnswer + kSlotAnswerBytes;
constexpr size_t kSlotIu = 4096 - WSS_SRP_IMM_DATA_OFFSET;
constexpr size_t kSlotAdminBytes = kSlotIu - kSlotAdmin;
constexpr size_t kSlotImmediate = 4096;
static_assert(kSlotIu + WSS_SRP_IMM_DATA_OFFSET == kSlotImmediate, "immediate data is page-aligned");

struct ByteRange {
    uint64_t begin = 0, end = 0;
    bool overlaps(const ByteRange& other) const noexcept { return begin < other.end && other.begin < end; }
};

struct WriterTag {};  // names the list of a unit's writes in flight

struct alignas(64) Request : ListNode<>, ListNode<WriterTag> {
    // Immutable once the channel is created.
    Channel* channel = nullptr;
    std::byte* slot = nullptr;
    uint32_t slot_lkey = 0;
    uint16_t index = 0;

    State state = State::kReceiving;
    Nanoseconds received{};  // start of the turn in which the command arrived
    // Q3, or its channel has closed. The cache's reactor reads it (cache::Cancelled).
    std::atomic<bool> aborted{false};
    bool report_aborted = false;  // ... by another initiator: the request ends with TASK ABORTED
    bool is_task_management = false;
    bool locked = false;            // holds a range lock
    uint8_t phase = 0;              // phase of a command that needs several storage operations
    AbortJob* abort_job = nullptr;  // waits for the end of this request (Q3)

    uint32_t iu_length = 0;
    wire::Command command;
    scsi::Action action;
    Unit* unit = nullptr;  // held by the request

    // The data: a pool's buffer, the receive slot, or the memory of a RAM volume.
    std::byte* data = nullptr;
    uint32_t data_lkey = 0;
    bool data_is_volume = false;  // the memory of a RAM volume: outlives the request
    uint32_t buffer_bytes = 0;    // size of the I/O buffer at `data`; 0: `data` is not an I/O buffer
    std::byte* admin = nullptr;   // block of the admin pool: a descriptor table or a long answer
    uint32_t admin_bytes = 0;
    uint32_t wanted_bytes = 0;  // kWaiting: size of the buffer that it waits for
    Part part = Part::kSmall;   // ... and the part of the arena

    // Data movement: `moved` of `to_move` bytes are covered by work requests built so far.
    const wire::DataBuffer* remote = nullptr;
    std::byte* local = nullptr;
    uint32_t local_lkey = 0;
    uint32_t to_move = 0;
    uint32_t moved = 0;
    uint32_t descriptor = 0;         // the next one
    uint32_t descriptor_offset = 0;  // bytes of it already covered
    uint32_t outstanding = 0;        // signalled READs

    // The answer.
    uint8_t status = 0;
    uint8_t task_status = 0;
    uint16_t ready_bytes = 0;  // length of a complete answer in the slot that is not an SRP_RSP; 0: none
    bool has_sense = false;
    bool answer_waits = false;  // the answer was not inlined: the slot is in use until it completes
    uint32_t in_given = 0;      // bytes of data-in, whether they fit in the initiator's buffer or not
    uint32_t out_taken = 0;     // bytes taken from the data-out buffer
    wire::Sense sense;

    uint64_t progress = 0;  // bytes (for UNMAP: ranges) done of a command of several operations
    uint64_t lock_id = 0;
    ByteRange range;              // the range of the volume that the command changes
    bool beyond = false;          // changes blocks beyond the new end of the volume: a shrink waits for it
    volume::FencedWrites fences;  // fences wait for this request: it begins no further step
    // kThrottled
    LimitFlow* limit_flow = nullptr;
    Nanoseconds throttled_since{};
    Nanoseconds first_sent{};  // when it first arrived: it may have been refused and repeated since
    uint64_t throttled_bytes = 0;
    bool is_charged = false;                       // has passed the limits
    cache::CacheCommand* cache_command = nullptr;  // its cache command
    bool waited = false;                           // has waited for cache engines
    bool froze = false;                            // froze the cached volume, until the end of the command
    io::Request io;

    std::byte* iu() const { return slot + kSlotIu; }
    uint64_t unit_block() const;
};

}  // namespace wss::block
