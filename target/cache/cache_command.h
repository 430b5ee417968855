// SPDX-License-Identifier: Apache-2.0
// CacheCommand: the state of one cache command, either a command of a client or a job that the cache starts
// itself.
//
//   read   enter lines; is every sub-block in an engine?
//            yes: engines write to the client (delegated read), or to a buffer of the target if the client is
//                 not connected to them
//            no:  storage reads into a buffer of the target, dirty sub-blocks come from their engine, the
//                 client is answered, then the lines are filled from the buffer
//   write  enter lines; plan each line (lib/cache/policy.h); write to storage, engines, or both; the client
//          is answered when all are done
//
// A command may wait for hours for storage, for a buffer or for its next line. Meanwhile its lines rest
// (lib/cache/line.h, L3). The command resumes its lines before it changes copies.
//
// States: kIdle → kHeld (the volume is frozen, or recovery may find lines of it) → kEntering → kRunning →
// kAnswered (by the target or by engines; a fill may continue) → kIdle. `owner` uses the command until it
// calls Datapath::release(). The cache uses it until the cache's own part has ended.
//
// Thread-safety: belongs to the cache's reactor. A forwarded command belongs to its owner's reactor until
// begin(), and again whenever the cache has returned it to its owner (gateway.h). Commands and their lines
// are allocated once and reused.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "lib/base/gate.h"
#include "lib/base/list.h"
#include "lib/cache/index.h"
#include "lib/cache/policy.h"
#include "lib/io/backend.h"
#include "target/cache/buffer_regions.h"
#include "target/cache/command_share.h"
#include "target/cache/engine_link.h"
#include "target/cache/lines.h"
#include "target/cache/staging.h"
#include "target/volume/volume.h"

namespace wss::cache {

class Datapath;
class Reads;
class Writes;
struct CachedVolume;
struct Client;
struct CacheCommand;
using Fence = std::shared_ptr<volume::WriteFence>;

// True when no one needs the result of a command, flush or freeze any more: its initiator has aborted it or
// is lost. The owner sets it on its reactor, and then calls Gateway::end_cancelled(). It must exist until the
// command ends. nullptr: the command is never cancelled.
using Cancelled = std::atomic<bool>;
inline bool is_cancelled(const Cancelled* cancelled) noexcept {
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
}

// How a command ended (its outcome).
struct CacheOutcome {
    // kAwait: the data is lost with engines that are away and may be back soon (Cache::awaits()).
    enum class Kind : uint8_t { kGood, kStorageFailed, kBusy, kRetry, kAwait } kind = Kind::kGood;
    int error = 0;  // kStorageFailed: errno of io_op
    io::Op io_op = io::Op::kRead;
    uint64_t offset = 0;                      // of the error
    uint32_t engine = WSS_CACHE_ENGINES_MAX;  // kRetry: the engine that will not answer
};

// What the cache needs from the block service.
class CommandOwner {
  public:
    // Requests a buffer of `command.length` bytes, filled with the client's data for a write. The owner calls
    // Datapath::buffer_ready() now or later, or Datapath::buffer_failed() if the client is lost.
    virtual void need_buffer(CacheCommand& command) noexcept = 0;
    // Engines now answer this read. ended() or answered() is called later.
    virtual void delegated(CacheCommand& command) noexcept = 0;
    // Engines have answered the read.
    virtual void answered(CacheCommand& command) noexcept = 0;
    // The command has ended. After a successful read the data is in command.buffer.
    virtual void ended(CacheCommand& command, const CacheOutcome& outcome) noexcept = 0;

  protected:
    ~CommandOwner() = default;
};

// Takes buffers back. It outlives every command.
class BufferHome {
  public:
    virtual void give_back(std::byte* buffer, uint32_t bytes) noexcept = 0;

  protected:
    ~BufferHome() = default;
};

// Takes forwarded commands back. It outlives every command.
class CommandHome {
  public:
    // Nothing of the cache refers to the command any longer.
    virtual void over(CacheCommand& command) noexcept = 0;

  protected:
    ~CommandHome() = default;
};

struct ForwardedTag {};  // names the cache's list of forwarded commands

// One line of a command.
struct LinePart {
    LineOp op;
    Line* line = nullptr;  // from enter to leave
    Span span;
    SubBlocks touched, covered;
    ReadPlan read;
    WritePlan write;
    SubBlocks filling;  // sub-blocks that the outstanding transfers make valid
    SubBlocks overlay;  // dirty sub-blocks that are still to be read from the engine
    uint64_t generation = 0;
    bool one_copy = false;  // the write was given up, and the header of its second copy is being erased
    uint32_t transfers_used = 0;
    std::array<Transfer, kHoldersMax> transfers;
    std::array<ArenaSlot, kHoldersMax> slots;
    std::array<uint32_t, kHoldersMax> incarnations{};
};

// The parts of the cache that run a command. They are the same for every command.
struct CommandPaths {
    Datapath* datapath = nullptr;
    Reads* reads = nullptr;
    Writes* writes = nullptr;
    void (*entered)(LineUser& user) noexcept = nullptr;
};

struct CacheCommand : ListNode<>, ListNode<ForwardedTag>, LineUser {
    enum class State : uint8_t { kIdle, kHeld, kEntering, kRunning, kAnswered };
    enum class Phase : uint8_t {
        kNone,
        kGather,
        kFetch,
        kStorage,
        kOverlay,
        kFill,
        kWrite,
        kRepair,
        kEnding
    };

    // Immutable.
    CommandPaths path;
    std::unique_ptr<LinePart[]> lines;
    CommandHome* home = nullptr;  // set for a command of another reactor (gateway.h); nullptr for one of the
                                  // cache's own reactor

    // The request.
    CommandOwner* owner = nullptr;
    void* cookie = nullptr;  // for the owner's use
    const Cancelled* cancelled = nullptr;
    CachedVolume* volume = nullptr;
    volume::FencedWrites fences;  // fences that wait for this command since its owner has abandoned it
    CommandShareRef share;        // share of the initiator to which the command is charged
    CommandShareRef of_volume;    // share of its volume
    // Place in the volume's gate, until release(). Empty if the gate was closed before.
    Gate::Holder place;
    // The engines to which this client is connected may move the data. nullptr if there is no such client, or
    // it is lost.
    Client* client = nullptr;
    bool is_write = false;
    bool fua = false;
    bool is_again = false;      // has waited for engines, and was counted before
    bool is_ahead = false;      // read-ahead: no client waits for it, and no client counters include it
    bool is_abandoned = false;  // its owner has abandoned it
    uint64_t offset = 0;
    uint32_t length = 0;
    wire::RemoteBuffer remote;  // the client's memory, if contiguous; else length 0
    uint16_t tag = 0;           // low bits of the client's tag

    // State of the cache.
    Nanoseconds began{};
    uint64_t changes = 0;  // StorageNodes::changes() when it began
    State state = State::kIdle;
    Phase phase = Phase::kNone;
    uint32_t line_count = 0, entered = 0;
    uint32_t outstanding = 0;  // outstanding transfers and storage operations
    bool storing = false;      // a write to storage is outstanding
    bool rests = false;        // some of its lines rest
    uint32_t resumed = 0;      // lines resumed so far; on_resumed runs when all are
    void (*on_resumed)(CacheCommand& command) noexcept = nullptr;
    bool is_delegated = false;
    bool is_coalesced = false;  // its completion may be coalesced, that is, reported late
    bool hold = false;          // the owner has not released it
    bool by_storage = false;    // goes to real storage, because an engine failed or the volume is suspended
    bool transfer_failed = false;
    uint8_t attempts = 0;
    uint32_t failed_engine = WSS_CACHE_ENGINES_MAX;
    std::byte* buffer = nullptr;
    const BufferRegions* regions = nullptr;
    BufferHome* buffer_home = nullptr;
    uint32_t buffer_bytes = 0;
    io::Request io;
    // A transfer between real storage on another node and the client.
    Transfer remote_io;
    EngineIndex remote_engine;
    StagingBuffer staging;  // if it was taken, engines read the data of a fill from it instead of from
                            // `buffer`
    CacheOutcome outcome;

    // State of the gateway of a forwarded command.
    struct Forwarded {
        enum class Event : uint8_t { kNeedBuffer, kDelegated, kAnswered, kEnded, kOver };
        CommandOwner* owner = nullptr;  // the owner on the other reactor, for which `owner` stands
        Event last = Event::kOver;      // how over() replies
        bool is_over = false;           // the cache does not refer to it
    } forwarded;

    // True for a write that has failed once: it may have changed copies.
    bool may_have_changed() const noexcept { return is_write && attempts > 0; }
};

}  // namespace wss::cache
