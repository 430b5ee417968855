// SPDX-License-Identifier: Apache-2.0
// Real storage (RS): the storage behind the cache that holds a volume's data.
//
// A Backend is one opened file, device or memory. A Queue is one reactor's way into it. Requests are
// intrusive: the caller owns the Request and its buffer until done() is called. Submitting allocates nothing
// and never fails; errors are reported through done().
//
// Rules
//  R1  A write is on stable storage only after a later flush of the same backend has completed, or if it has
//      `fua`.
//  R2  done() is called exactly once, from Queue::poll(), never from submit().
//  R3  `error` is 0 or a positive errno. `done_bytes` counts the bytes from the start that were certainly
//      transferred, so that the caller can report the failing LBA. The queue completes a short transfer or
//      turns it into an error; callers never see one.
//  R4  Requests of one queue may complete in any order. The caller orders those that overlap.
//
// Thread-safety: Backend's methods may be called from any thread; a Queue belongs to its reactor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lib/base/list.h"
#include "lib/base/status.h"
#include "lib/io/ownership.h"
#include "lib/reactor/reactor.h"

namespace wss::io {

enum class Op : uint8_t { kRead, kWrite, kFlush, kDiscard, kWriteZeroes };

struct Request : ListNode<> {
    using Done = void (*)(Request& request) noexcept;

    // Set by the caller.
    Op op = Op::kRead;
    bool fua = false;           // kWrite, kWriteZeroes: stable when done
    uint64_t offset = 0;        // bytes
    uint64_t length = 0;        // bytes
    std::byte* data = nullptr;  // kRead, kWrite; any alignment, page-aligned is fastest
    Done done = nullptr;
    void* context = nullptr;

    // Set by the queue before done().
    int error = 0;
    uint64_t done_bytes = 0;

    // Owned by the queue from submit() to done().
    alignas(16) std::byte scratch[128];
};

class Queue : public reactor::Source {
  public:
    // Queues the request. The requests of one reactor turn reach the device in one batch at its end: poll()
    // starts the queued requests, then reports the finished ones.
    virtual void submit(Request& request) noexcept = 0;
    // Requests submitted and not done. A Queue may be destroyed only when this is 0.
    virtual size_t in_flight() const noexcept = 0;
};

struct Limits {
    uint64_t size = 0;             // bytes
    uint32_t logical_block = 512;  // offset and length of every request are multiples of it
    uint32_t physical_block = 4096;
    uint32_t optimal_transfer = 0;     // bytes; 0: unknown
    uint32_t discard_granularity = 0;  // bytes; 0: logical_block
    bool discard = false;
    bool volatile_cache = true;  // false: every write is stable when done (R1)
    bool rotational = false;
};

class Backend {
  public:
    virtual ~Backend() = default;
    virtual Limits limits() const noexcept = 0;
    virtual Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) = 0;
    // Grows or shrinks the storage; a block device cannot be resized. Beyond the new end reads fail with EIO,
    // all other requests with EFBIG, which has no other meaning.
    virtual Status resize(uint64_t bytes) = 0;
    // Checks whether resize() can succeed, as far as that can be known in advance. Blocks, changes nothing.
    virtual Status may_resize() { return resize(limits().size); }
    // `changed` is called after others changed limits().size (`after` is 0: they took the storage). The call
    // comes on a separate thread, which may block. False: the user could not act on it yet, and is notified
    // again a second later. An empty `changed` ends the calls: none runs after this returns.
    using SizeChanged = std::function<bool(uint64_t before, uint64_t after)>;
    virtual void watch_size(SizeChanged) {}
    // Why requests wait or fail, as text for the operator; empty: there is no problem.
    virtual std::string trouble() const { return {}; }
    // Another owner has taken the storage. This is permanent: copies of its contents are no longer valid.
    virtual bool lost() const noexcept { return false; }
    // For storage that waits for the operator's decision because another owner has it: the backend is lost()
    // from now on, and the caller notifies the users of the volume. False: it is not in that state.
    virtual bool give_up() noexcept { return false; }
    // Storage that others can take has not answered for so long that they may have taken it: copies of its
    // contents must not be used for now. This ends by itself, or trouble() names what has to be done.
    virtual bool suspended() const noexcept { return false; }
    // Text that stays the same while no owner but OpenOptions::owner has had the storage; empty: not known.
    virtual std::string ownership() const { return {}; }
    // This holder's place among all holders. Constant while the backend is open.
    virtual Succession succession() const noexcept { return {}; }
    // OK if OpenOptions::steal is possible for this kind of storage; else the error names the alternative.
    virtual Status may_steal() const { return Status::ok(); }
    // Starts the closing, which the destructor waits for, so that many backends can be closed in parallel.
    // All requests must be done, and only the destructor may follow.
    virtual void begin_close() noexcept {}
    // The whole storage as directly accessible memory: the target then moves data directly between it and the
    // client. Empty: the storage is not memory. Valid until resize() or the destruction of the Backend.
    virtual std::span<std::byte> memory() noexcept { return {}; }
    virtual std::string describe() const = 0;  // "aio:/dev/nvme0n1"
};

struct OpenOptions {
    uint64_t size = 0;  // bytes to which a file is created or grown; 0: keep its size
    bool create = false;
    bool read_only = false;
    bool grow = true;       // false: a file shorter than `size` has lost data, which is an error
    bool any_size = false;  // `size` is from before others took the storage: a different size is allowed
    bool steal = false;     // shut out a live owner, where storage has one owner at a time
    std::string owner;      // identifies the opener across restarts; empty: a new owner
    // The process ends when this backend is closed. A backend that took the storage from another holder
    // leaves it so that the next holder continues the chain (Succession).
    bool keeps_taken = false;
};
// Opens by specification: "aio:PATH", "uring:PATH", "pool:THREADS:PATH", "spawn:PATH", "ram:SIZE",
// "rbd:POOL/IMAGE". Defined where all backends are known.
Result<std::unique_ptr<Backend>> open_backend(const std::string& specification, const OpenOptions& options);
// Checks whether the storage can be opened, as far as possible without taking it from an owner or creating
// it. Waits, as open_backend() would, until dead holders are gone.
Status check_backend(const std::string& specification, const OpenOptions& options);

}  // namespace wss::io
