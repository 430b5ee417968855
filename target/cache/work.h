// SPDX-License-Identifier: Apache-2.0
// Work: one command on its way through the cache, or one job of the cache's own.
//
//   read   enter lines → is every sub-block in an engine?
//            yes: engines write to the client (delegated), or, for a client without engines, to a buffer of
//            the
//                 target
//            no:  storage reads into a buffer of the target, dirty sub-blocks come from their engine, the
//                 client is answered; then the buffer fills the lines
//   write  enter lines → plan each line (lib/cache/policy.h) → storage, engines, or both; answered when all
//          are done
//
// A work that waits for storage, for a buffer or for its next line may wait for hours: its lines rest
// meanwhile (lib/cache/line.h, L3), and it resumes before it changes copies.
//
// States: kIdle → kHeld (the volume is frozen) → kEntering → kRunning → kAnswered (by the target or by
// engines; a fill may continue) → kIdle. `owner` has the work until it calls Datapath::release(), the cache
// until its own part is over.
//
// Thread-safety: belongs to the cache's reactor. Works and their lines are made once and reused.
#pragma once

#include <memory>
#include <vector>

#include "lib/base/gate.h"
#include "lib/base/list.h"
#include "lib/cache/index.h"
#include "lib/cache/policy.h"
#include "lib/io/backend.h"
#include "target/cache/bays.h"
#include "target/cache/buffer_regions.h"
#include "target/cache/engine_link.h"
#include "target/cache/lines.h"
#include "target/cache/work_share.h"
#include "target/volume/volume.h"

namespace wss::se {

class Datapath;
class Reads;
class Writes;
struct CachedVolume;
struct Client;
struct Work;
using Fence = std::shared_ptr<volume::WriteFence>;

// How a command ended.
struct Ending {
    // kAwait: engines that are away have what it asks for, and may be back soon (Cache::awaits()).
    enum class Kind : uint8_t { kGood, kStorageFailed, kBusy, kDoAgain, kAwait } kind = Kind::kGood;
    int error = 0;  // kStorageFailed: errno of io_op
    io::Op io_op = io::Op::kRead;
    uint64_t offset = 0;                      // where
    uint32_t engine = WSS_CACHE_ENGINES_MAX;  // kDoAgain: which one will not answer
};

// The block service as the cache sees it.
class WorkOwner {
  public:
    // Bring `work.length` bytes of buffer, with the client's data in it if it is a write, and call
    // Datapath::buffer_ready(), now or later; Datapath::buffer_failed() if the client is lost.
    virtual void need_buffer(Work& work) noexcept = 0;
    // Engines answer this read from now on; `ended` or `answered` follows.
    virtual void delegated(Work& work) noexcept = 0;
    // … and have done so.
    virtual void answered(Work& work) noexcept = 0;
    // The command is over; for a read that went well the data is in work.buffer.
    virtual void ended(Work& work, const Ending& ending) noexcept = 0;

  protected:
    ~WorkOwner() = default;
};

// Where buffers come from and go back to; outlives every work.
class BufferHome {
  public:
    virtual void give_back(std::byte* buffer, uint32_t bytes) noexcept = 0;

  protected:
    ~BufferHome() = default;
};

// A line of a work.
struct LineWork {
    cache::LineOp op;
    cache::Line* line = nullptr;  // from enter to leave
    cache::Span span;
    cache::Pieces touched, covered;
    cache::ReadPlan read;
    cache::WritePlan write;
    cache::Pieces filling;  // that the transfers under way make valid
    cache::Pieces overlay;  // dirty pieces still to be brought from the engine
    uint64_t generation = 0;
    bool one_copy = false;  // of a write that is given up: the second copy's header is being erased
    uint32_t transfers_used = 0;
    std::array<Transfer, cache::kHoldersMax> transfers;
    std::array<cache::Slot, cache::kHoldersMax> slots;
    std::array<uint32_t, cache::kHoldersMax> incarnations{};
};

// Who takes a work on, by the owners of target/cache. The same for each.
struct WorkPaths {
    Datapath* datapath = nullptr;
    Reads* reads = nullptr;
    Writes* writes = nullptr;
    void (*entered)(LineUser& user) noexcept = nullptr;
};

struct Work : ListNode<>, LineUser {
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
    WorkPaths path;
    std::unique_ptr<LineWork[]> lines;

    // What is asked for.
    WorkOwner* owner = nullptr;
    void* cookie = nullptr;  // the owner's
    CachedVolume* volume = nullptr;
    volume::FencedWrites fences;  // that wait for it, when its owner has left it
    WorkShareRef share;           // of the session that it counts for
    Gate::Holder place;           // in the volume's gate, until it is released; empty: it was closed before
    Client* client = nullptr;     // whose engines may move the data; nullptr: none, or lost meanwhile
    bool is_write = false;
    bool fua = false;
    bool is_again = false;      // it has waited for engines, and was counted
    bool is_ahead = false;      // read-ahead: no client waits for it, none's counters count it
    bool is_abandoned = false;  // its owner has left it
    uint64_t offset = 0;
    uint32_t length = 0;
    wire::RemoteBuffer remote;  // the client's memory, if it is one stretch; else length 0
    uint16_t tag = 0;           // low bits of the command's

    // Ours.
    Nanoseconds began{};
    uint64_t changes = 0;  // of storage elsewhere, when it entered
    State state = State::kIdle;
    Phase phase = Phase::kNone;
    uint32_t line_count = 0, entered = 0;
    uint32_t outstanding = 0;  // transfers and storage operations
    bool storing = false;      // one of them is a write to storage
    bool rests = false;        // some of its lines do
    uint32_t resumed = 0;      // lines that have, and what follows when all have
    void (*on_resumed)(Work& work) noexcept = nullptr;
    bool is_delegated = false;
    bool is_lazy = false;     // … and its end may be heard of late
    bool hold = false;        // the owner has it
    bool by_storage = false;  // the safe way: an engine failed, or the volume is suspended
    bool transfer_failed = false;
    uint8_t attempts = 0;
    uint32_t failed_engine = WSS_CACHE_ENGINES_MAX;
    std::byte* buffer = nullptr;
    const BufferRegions* regions = nullptr;
    BufferHome* buffer_home = nullptr;
    uint32_t buffer_bytes = 0;
    io::Request io;
    // With real storage on another node, straight between it and the client.
    Transfer remote_io;
    cache::EngineIndex remote_engine;
    Bay bay;  // what engines take comes from there, and not from `buffer`
    Ending ending;

    // A write that has failed once may have changed copies.
    bool may_have_changed() const noexcept { return is_write && attempts > 0; }
};

}  // namespace wss::se
