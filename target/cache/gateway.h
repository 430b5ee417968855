// SPDX-License-Identifier: Apache-2.0
// Gateway: a reactor's access to the cache. The cache belongs to one reactor, its *home*. On the home reactor
// the calls of a gateway go to the cache at once. On every other reactor, a gateway forwards commands:
//
//   reactor of the command's owner                      home reactor
//   take_command(), begin()             ── kBegin ─▶    Datapath::begin_forwarded()
//   CommandOwner::need_buffer()        ◀─ kNeedBuffer ─
//   buffer_ready(), buffer_failed()     ──────────▶     Datapath::buffer_ready(), …
//   CommandOwner::delegated()          ◀─ kDelegated ─
//   CommandOwner::answered(), ended()  ◀───────────     the command is over, or a fill continues:
//   release()                           ── kRelease ─▶
//   the object is free                 ◀─── kOver ────
//
// Rules
//  GW1  A forwarded command belongs to one reactor at a time. Each message except kDelegated passes the
//       command on.
//  GW2  The command objects, and the shares of volumes and initiators in them, belong to the reactor of the
//       owner: the limits of command_pool.h apply to each reactor separately.
//  GW3  Everything except commands is posted to the home reactor as a task, and its answer is posted back. A
//       task first takes the messages that were sent before it.
//  GW4  While another reactor has a unit of a volume, a VolumeUse keeps the volume in the cache, and its
//       OpenVolume of the home reactor. So a task or message may refer to the volume.
//
// Thread-safety: belongs to its reactor, except offer(). Lifetime: the cache and the reactors outlive it. It
// is destroyed while they do not run.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lib/reactor/message_ring.h"
#include "target/cache/cache.h"

namespace wss::cache {

// A volume of the cache that a reactor other than the home reactor uses. It passes notices of lost data to
// that reactor's waiting commands.
struct VolumeUse final : LostWaiters, std::enable_shared_from_this<VolumeUse> {
    VolumeUse(reactor::Reactor& of, CachedVolume& used) : reactor(of), volume(used) {}
    reactor::Reactor& reactor;  // the user's reactor
    CachedVolume& volume;
    Gate::Holder place;                // place in the volume's gate; belongs to the home reactor
    LostWaiters* user = nullptr;       // the waiters on the user's reactor; nullptr when it has left
    std::atomic<uint64_t> waiting{0};  // number of its waiting commands; written by the user's reactor

    void look_due() noexcept override;
    bool look(size_t&) noexcept override { return false; }
    uint64_t count() noexcept override { return waiting.load(std::memory_order_relaxed); }
};

class Gateway final : private CommandOwner, private CommandHome {
  public:
    // `reactor` must not have started. The gateway adds a source to it, and another one to the home reactor.
    static Result<std::unique_ptr<Gateway>> create(Cache& cache, reactor::Reactor& reactor);
    ~Gateway();

    bool is_home() const noexcept { return pool_ == nullptr; }

    // ---- Commands: datapath.h, command_pool.h. `held`: the commands that the volume holds on this reactor
    CacheCommand* take_command(CachedVolume& of, const CommandShareRef& held,
                               const CommandShareRef& by) noexcept {
        return is_home() ? datapath_.take_command(of, by) : take_forwarded(of, held, by);
    }
    void begin(CacheCommand& command) noexcept {
        is_home() ? datapath_.begin(command) : begin_forwarded(command);
    }
    void buffer_ready(CacheCommand& command, std::byte* buffer, const BufferRegions& regions) noexcept;
    void buffer_failed(CacheCommand& command) noexcept {
        is_home() ? datapath_.buffer_failed(command) : send(command, Step::kBufferFailed);
    }
    void release(CacheCommand& command) noexcept {
        is_home() ? datapath_.release(command) : release_forwarded(command);
    }
    void abandon(CacheCommand& command) noexcept {
        is_home() ? datapath_.abandon(command) : send(command, Step::kAbandon);
    }
    // Takes the messages of the cache that have arrived. An engine may have answered a read, and the
    // initiator may have sent its next command, before this reactor takes the notice of the delegation.
    void take_messages() noexcept {
        if (!is_home()) from_cache_->poll();
    }

    // Ends, with BUSY, cancelled commands, flushes and freezes that wait for an event that may never come.
    // Those that storage or engines are executing continue.
    void end_cancelled() noexcept;

    // ---- Flushes and freezes, as Cache::flush() and freeze()
    // `loss`: the number of the last loss of the volume's storage on another node (RemoteQueue::last_loss()).
    using Flushed = std::function<void(int error, uint64_t loss)>;
    void flush(CachedVolume& volume, Flushed done, const Cancelled* cancelled);
    // If `is_frozen` is true, thaw() must follow.
    using FrozenDone = std::function<void(int error, bool is_frozen)>;
    void freeze(CachedVolume& volume, Stretch range, Frozen use, FrozenDone done, const Cancelled* cancelled);
    void thaw(CachedVolume& volume) noexcept;
    void flush_completions() noexcept;
    void fence_abandoned(CachedVolume& volume, const Fence& fence);

    // ---- Clients
    // Calls `notify` on this reactor.
    using Notify = std::function<void(const wire::CacheEngineNotice& notice)>;
    Client* add_client(fabric::Scheme scheme, Notify notify);
    void remove_client(Client* client);

    // ---- Volumes
    // On the home reactor: the volume was added, and will be published on this gateway's reactor.
    void offer(CachedVolume& volume);
    // Called on this reactor, which is not the home reactor. Returns the use of the volume that was offered,
    // or nullptr if the volume has no cache. leave() follows.
    std::shared_ptr<VolumeUse> join(uint64_t wwid, LostWaiters& user);
    void leave(const std::shared_ptr<VolumeUse>& use);

    // ---- Waits for lost data
    // A range that a command needs. Length 0 means the whole volume.
    struct Asked {
        uint64_t offset = 0, length = 0;
        bool is_write = false;
    };
    // Calls Cache::awaits() for each of `asked`, unless the user has left in the meantime.
    void look(const std::shared_ptr<VolumeUse>& use, std::vector<Asked> asked,
              std::function<void(const std::vector<bool>& waits)> take);
    bool awaits(const CachedVolume& of, const Asked& asked) const {
        return cache_.awaits(of, asked.offset, asked.length, asked.is_write);
    }

  private:
    enum class Step : uint8_t { kBegin, kBufferReady, kBufferFailed, kRelease, kAbandon };
    struct ToCache {
        CacheCommand* command = nullptr;
        Step step = Step::kBegin;
    };
    using Event = CacheCommand::Forwarded::Event;
    struct FromCache {
        CacheCommand* command = nullptr;
        Event event = Event::kOver;
        bool is_over = false;
    };
    Gateway(Cache& cache, reactor::Reactor& reactor);
    void post(std::function<void()> task);

    // Called on this reactor.
    CacheCommand* take_forwarded(CachedVolume& of, const CommandShareRef& held,
                                 const CommandShareRef& by) noexcept;
    void begin_forwarded(CacheCommand& command) noexcept;
    void release_forwarded(CacheCommand& command) noexcept;
    void send(CacheCommand& command, Step step) noexcept { to_cache_->send({&command, step}); }
    static void take_event(void* self, const FromCache& message) noexcept;

    // Called on the home reactor.
    static void take_step(void* self, const ToCache& message) noexcept;
    void need_buffer(CacheCommand& command) noexcept override;
    void delegated(CacheCommand& command) noexcept override;
    void answered(CacheCommand& command) noexcept override;
    void ended(CacheCommand& command, const CacheOutcome& outcome) noexcept override;
    void over(CacheCommand& command) noexcept override;
    void reply(CacheCommand& command, Event event) noexcept;

    Cache& cache_;
    Datapath& datapath_;
    reactor::Reactor& home_;
    reactor::Reactor& reactor_;
    CommandPool* pool_ = nullptr;  // owned by the cache; nullptr: this is the home reactor
    std::unique_ptr<reactor::MessageRing<ToCache>> to_cache_;
    std::unique_ptr<reactor::MessageRing<FromCache>> from_cache_;
    std::atomic<bool> flushes_completions_{false};  // a task that flushes completions is posted
    std::atomic<bool> ends_cancelled_{false};       // a task that ends cancelled commands is posted
    std::list<std::shared_ptr<VolumeUse>> uses_;    // belongs to the home reactor
    std::mutex m_;
    std::map<uint64_t, std::shared_ptr<VolumeUse>> offered_;  // by WWID; guarded by m_
};

}  // namespace wss::cache
