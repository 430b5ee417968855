// SPDX-License-Identifier: Apache-2.0
// Real storage (RS): where a volume's bytes live when they are not in the cache.
//
// A Backend is one opened file, device or memory. A Queue is one reactor's way into it. Requests are
// intrusive: the caller owns the Request and its buffer until done() is called. Submitting allocates nothing
// and never fails; errors are reported through done().
//
// Rules
//  R1  A write is on stable storage only after a later flush of the same backend completed, or if it has
//      `fua`.
//  R2  done() is called exactly once, from Queue::poll(), never from submit().
//  R3  `error` is 0 or a positive errno. `done_bytes` counts the bytes from the start that are certainly
//      good, so that the failing LBA can be named. The queue completes a short transfer or turns it into an
//      error; callers never see one.
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

    // The queue's own, from submit() to done().
    alignas(16) std::byte scratch[128];
};

class Queue : public reactor::Source {
  public:
    // Takes the request. What was submitted during a reactor's turn reaches the device in one batch at its
    // end: poll() starts what is waiting, then reports what has finished.
    virtual void submit(Request& request) noexcept = 0;
    // Requests submitted and not done. A Queue may be destroyed only when this is 0.
    virtual size_t in_flight() const noexcept = 0;
};

struct Limits {
    uint64_t size = 0;             // bytes
    uint32_t logical_block = 512;  // offset and length of every request are multiples of it
    uint32_t physical_block = 4096;
    uint32_t optimal_transfer = 0;     // bytes; 0: nothing is known
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
    // Grows or shrinks; a block device can only be what it is. Beyond the new end reads fail with EIO, all
    // else with EFBIG, which has no other meaning.
    virtual Status resize(uint64_t bytes) = 0;
    // Whether it takes another size, as far as that can be known before. Blocks, changes nothing.
    virtual Status may_resize() { return resize(limits().size); }
    // `changed` is called, on a thread of its own that may block, after others changed limits().size (0: they
    // have taken the storage). False: the user could not follow yet; it is notified again, a second later.
    // With an empty one calls are over when this returns.
    using SizeChanged = std::function<bool(uint64_t before, uint64_t after)>;
    virtual void watch_size(SizeChanged) {}
    // What keeps requests waiting or failing, in words for the operator; empty when all is well.
    virtual std::string trouble() const { return {}; }
    // Others have taken it, for good: nothing that is known of its contents counts any more.
    virtual bool lost() const noexcept { return false; }
    // What should be its storage is another owner's, and nothing is done with it until the operator decides:
    // it is lost from here on, and the caller tells whoever should know. False: nothing of that kind.
    virtual bool give_up() noexcept { return false; }
    // Storage that others may take has not answered for so long that they may have: what is known elsewhere
    // of its contents does not count at the moment. It comes back by itself, or trouble() says what it needs.
    virtual bool suspended() const noexcept { return false; }
    // The same as long as nobody but OpenOptions::owner has had the storage; empty: that is not known.
    virtual std::string ownership() const { return {}; }
    // Its place among the holders of the storage: the same for as long as it is open.
    virtual Succession succession() const noexcept { return {}; }
    // Whether OpenOptions::steal is possible for storage of this kind; else what the operator can do.
    virtual Status may_steal() const { return Status::ok(); }
    // All requests are done, nothing but the destructor follows. Begins what that waits for, so that many
    // backends can be closed together.
    virtual void begin_close() noexcept {}
    // The whole storage as directly accessible memory, empty if it is none: the target then moves data
    // straight between it and the client. Stable until the Backend dies or resize().
    virtual std::span<std::byte> memory() noexcept { return {}; }
    virtual std::string describe() const = 0;  // "aio:/dev/nvme0n1"
};

// Opens by specification: "aio:PATH", "uring:PATH", "pool:THREADS:PATH", "spawn:PATH", "ram:SIZE",
// "rbd:POOL/IMAGE". Defined where all backends are known.
struct OpenOptions {
    uint64_t size = 0;  // file to be created or grown to this; 0: as it is
    bool create = false;
    bool read_only = false;
    bool grow = true;       // false: a file shorter than `size` has lost something, and is an error
    bool any_size = false;  // `size` is what it had when others took it, who may have changed that
    bool steal = false;     // shut out a live owner, where storage has one owner at a time
    std::string owner;      // who opens it, over restarts; empty: nobody who was there before
    // The process ends when this is closed. A backend that took the storage from another holder does not
    // release it unless something was submitted: the next holder follows in the chain (Succession).
    bool keeps_taken = false;
};
Result<std::unique_ptr<Backend>> open_backend(const std::string& specification, const OpenOptions& options);
// Whether it can be opened, as far as that shows without taking it from anybody or making anything. Waits as
// open_backend() would for what has to end before that takes it.
Status check_backend(const std::string& specification, const OpenOptions& options);

}  // namespace wss::io
