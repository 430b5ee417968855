// SPDX-License-Identifier: Apache-2.0
// Real storage: the storage that holds a volume's data, behind the cache.
//
// A Backend is one opened file, device, image or memory. A Queue passes the requests of one reactor to it.
// Requests are intrusive: the caller owns the Request and its buffer, and must keep both until done() is
// called. submit() never fails: errors are reported through done(). Only the test filters, simulated storage
// and `spawn:`, which creates a thread, allocate in submit().
//
// Rules
//  R1  A completed write is on stable storage if it has `fua`, or if the backend has no volatile cache
//      (Limits). Otherwise it is stable only after a later flush of the same backend has completed.
//  R2  done() is called exactly once, from Queue::poll(), never from submit().
//  R3  `error` is 0 or a positive errno. `done_bytes` counts the bytes from the start that were certainly
//      transferred, so that the caller can report the failing LBA. The queue completes a short transfer or
//      turns it into an error: a request without an error is complete.
//  R4  Requests of one queue may complete in any order. The caller orders those that overlap.
//
// Thread-safety: Backend's methods may be called from any thread, but calls of resize() must not overlap. A
// Queue belongs to its reactor's thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
    // Queues the request. In most backends poll() starts the queued requests in one batch, then reports the
    // finished ones. `pool:` and `spawn:` pass each request to a thread at once.
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
    // Grows or shrinks the storage. A block device keeps its size: the call adopts that size, and fails if it
    // is less than `bytes`. Beyond the new end reads fail with EIO, and writes, discards and write zeroes
    // with EFBIG. EFBIG has no other meaning.
    virtual Status resize(uint64_t bytes) = 0;
    // A resize() that fails with kTimedOut may still be in progress. Then this returns its result, or kBusy
    // until that is known. nullopt: no resize is in progress, and no result has yet to be taken.
    virtual std::optional<Status> late_resize() { return std::nullopt; }
    // Checks whether resize() can succeed, as far as that can be known in advance. May block. The default
    // calls resize() with the current size.
    virtual Status may_resize() { return resize(limits().size); }
    // `changed` is called after another user of the storage has changed limits().size. If `after` is 0, the
    // storage is lost. The call runs on a separate thread, and may block. If `changed` returns false, it
    // could not act on the change yet, and is called again a second later. An empty `changed` ends the calls:
    // none runs after watch_size() returns.
    using SizeChanged = std::function<bool(uint64_t before, uint64_t after)>;
    virtual void watch_size(SizeChanged) {}
    // True if others have shrunk and enlarged the storage, and `changed` has not acted on both yet. Until
    // then, limits().size is the smaller size.
    virtual bool hides_growth() const noexcept { return false; }
    // Returns why requests wait or fail, as a text for the operator. It is empty if there is no problem.
    virtual std::string trouble() const { return {}; }
    // True if the storage was lost, for example to another owner. This is permanent: copies of its contents
    // are no longer valid.
    virtual bool lost() const noexcept { return false; }
    // For storage that waits for the operator's decision because another owner has it: makes the backend
    // lost(). The caller then notifies the users of the volume. Returns false if the storage is not in that
    // state.
    virtual bool give_up() noexcept { return false; }
    // True if the storage has not answered for so long that another owner may have taken it. Copies of its
    // contents must not be used while this is true. The state ends by itself, or trouble() names what the
    // operator has to do.
    virtual bool suspended() const noexcept { return false; }
    // Returns a text that stays the same as long as no owner other than OpenOptions::owner has the storage.
    // It is empty if this is not known.
    virtual std::string ownership() const { return {}; }
    // True if others can resize the storage while it is open. watch_size() then reports that.
    virtual bool is_shared() const { return false; }
    // This process's place among all holders of the storage. Constant unless the storage is lost.
    virtual Succession succession() const noexcept { return {}; }
    // OK if OpenOptions::steal is possible for this kind of storage. Otherwise the error names the
    // alternative.
    virtual Status may_steal() const { return Status::ok(); }
    // The storage will be closed: resize() and may_resize() no longer wait for its answer, and fail with
    // kClosed. May be called while other threads are in these functions.
    virtual void end_waits() noexcept {}
    // Starts the closing, which the destructor waits for, so that many backends can be closed in parallel.
    // All requests must be done, and only the destructor may follow.
    virtual void begin_close() noexcept {}
    // The whole storage as directly accessible memory: the target then moves data directly between this
    // memory and the client. Empty if the storage is not memory. Valid until resize() or the destruction of
    // the Backend.
    virtual std::span<std::byte> memory() noexcept { return {}; }
    virtual std::string describe() const = 0;  // "aio:/dev/nvme0n1"
};

struct OpenOptions {
    uint64_t size = 0;  // bytes to which a file is created or grown; 0: keep its size
    bool create = false;
    bool read_only = false;
    bool grow = true;  // false: a file shorter than `size` has lost data, which is an error
    // Begin with at most this size; 0: no limit. A larger size is reported afterwards, as by watch_size().
    // Only for storage that others may resize.
    uint64_t at_most = 0;
    // The block of the user, in bytes. Storage that others make smaller than one block is lost.
    uint32_t block = 512;
    bool any_size = false;  // `size` is from before others took the storage: a different size is allowed
    bool steal = false;     // shut out a live owner, where storage has one owner at a time
    std::string owner;      // identifies the opener across restarts; empty: a new owner
    // If set: the opening ends soon after this becomes true, and takes nothing from another owner any more.
    std::shared_ptr<const std::atomic<bool>> given_up = {};
    // Set by a storage process, which ends when this backend is closed. The backend then takes and releases
    // the storage in such a way that the next holder can continue the chain (Succession).
    bool keeps_taken = false;
};
// Opens the storage that `specification` names: "aio:PATH" or "/PATH", "uring:PATH", "pool:[THREADS:]PATH",
// "spawn:PATH", "ram:SIZE" or "rbd:POOL/IMAGE", with test filters before it if wanted (filter/filter.h).
// Defined in open.cc.
Result<std::unique_ptr<Backend>> open_backend(const std::string& specification, const OpenOptions& options);
// Checks whether the storage can be opened, as far as possible without taking it from an owner or creating
// it. Waits, as open_backend() would, until dead holders are gone.
Status check_backend(const std::string& specification, const OpenOptions& options);

}  // namespace wss::io
