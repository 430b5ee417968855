// SPDX-License-Identifier: Apache-2.0
// Request: one read, write, flush, … of a volume, from submission to completion.
//
// Terms. A *request* is what the user submits; it belongs to the user again once `done` has been called. A
// *command* is sent over the wire: a request that exceeds the target's transfer limit is split into several
// commands.
//
// Life of a request
//   idle ──submit()──▶ queued ──all commands sent──▶ issued ──last response──▶ idle (done called)
//                        ▲                             │
//                        └── connection lost, or ──────┘
//                            "try again": from the start
//
// Rules
//  IQ1  `done` is called exactly once for each submit() that returned true, on the session's thread, in
//       bounded time: no later than `timeout` after submission, plus kTick, plus the time that the fabric
//       needs to close a connection.
//  IQ2  From submit() until `done` the session and the peer own the buffers. A request that timed out ends
//       only when its connection has ended, because until then the peer may still write to them.
//  IQ3  After a lost connection a request is repeated from its start. This is harmless for every operation
//       except compare-and-write, which fails with kConnectionLost; its effect is then unknown.
//  IQ4  A write that failed may or may not have taken effect.
//
// Thread-safety: a request belongs to its session's thread from submit() to `done`.
// Ownership: intrusive; the submitter reuses requests. Nothing is allocated per request.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/initiator/cursor.h"
#include "lib/wire/scsi.h"

namespace wss::initiator {

class Volume;

enum class Operation : uint8_t {
    kRead,
    kWrite,
    kFlush,
    kDiscard,  // later reads return zeroes or the old data
    kWriteZeroes,
    kCompareAndWrite,  // buffers: `length` bytes to compare, then `length` bytes to write
    kAdmin,            // sends `cdb` to `lun`; the answer goes to `buffers`. For the session itself.
};
std::string_view to_string(Operation operation);

// How a request ended.
enum class Outcome : uint8_t {
    kOk = 0,
    kMismatch,    // compare-and-write: the data differ, nothing was written
    kUnaligned,   // offset or length is not a multiple of the block size
    kOutOfRange,  // beyond the end of the volume
    kReadOnly,
    kUnsupported,  // the target does not support the operation
    kTooLong,      // compare-and-write beyond the target's limit
    kBadBuffers,   // the buffers are smaller than the request needs
    kMediumError,  // the target could not read or write its medium; see sense
    kNoSpace,      // the target's medium is full
    kRefused,      // the target refused the command; see sense
    kShort,        // the target transferred less data than requested but reported GOOD
    kTimedOut,
    kConnectionLost,  // the connection was lost and not restored in time
    kWritesLost,      // kFlush: the target's machine has restarted, and earlier writes may be lost
    kVolumeGone,      // deleted, or replaced by another with that name
    kClosed,          // the session is closing
};
std::string_view to_string(Outcome outcome);
int to_errno(Outcome outcome);  // 0 for kOk; kMismatch is EILSEQ

class Request : public ListNode<> {
  public:
    using Done = void (*)(Request& request, void* context) noexcept;

    // Set by the submitter.
    Operation operation = Operation::kRead;
    bool fua = false;       // a change: on stable storage when done
    bool may_unmap = true;  // kWriteZeroes: the target may deallocate the space
    Volume* volume = nullptr;
    uint64_t offset = 0;             // bytes, from the volume's start
    uint64_t length = 0;             // bytes
    std::span<const iovec> buffers;  // kRead, kWrite, kCompareAndWrite; stays valid until done
    Nanoseconds timeout{};           // 0: Options::request_timeout
    Done done = nullptr;
    void* context = nullptr;
    // kAdmin only.
    uint64_t lun = 0;
    wire::Cdb cdb{};

    // Set by the session.
    Outcome outcome = Outcome::kOk;
    wire::Sense sense;             // sense data of the target; kNoSense if none
    uint64_t mismatch_offset = 0;  // kMismatch: first byte that differs, from `offset`
    uint64_t received = 0;         // kAdmin: bytes of answer

  private:
    friend class Session;
    friend class Volume;
    enum class State : uint8_t { kIdle, kQueued, kIssued };
    // If a change has FUA but its command does not carry that bit, it is executed as the change and then a
    // flush.
    enum class Stage : uint8_t { kMain, kFlushAfter };

    bool fully_issued() const { return issued_ == total_ && !owes_command_; }
    void rewind() {
        issued_ = 0;
        owes_command_ = stage_ == Stage::kFlushAfter || total_ == 0;
        cursor_ = Cursor(buffers);
        again_ = delayed_ = false;
    }

    State state_ = State::kIdle;
    Stage stage_ = Stage::kMain;
    bool again_ = false;         // repeat the request once no command is outstanding
    bool delayed_ = false;       // the same, but after a delay
    bool owes_command_ = false;  // a command without data is still to be sent
    uint8_t retries_ = 0;
    uint32_t outstanding_ = 0;  // commands on the wire
    uint64_t issued_ = 0;       // bytes of `total_` that commands cover so far
    uint64_t total_ = 0;
    uint64_t covers_ = 0;  // kFlush: number of changes (Volume::written_) that the flush covers
    Cursor cursor_;        // position in `buffers` of the next command
    Nanoseconds deadline_{};
};

// Text for people, such as "write of 4096 bytes at 8192 of volume 'disk1': medium error (…)".
std::string describe(const Request& request);

}  // namespace wss::initiator
