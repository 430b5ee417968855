// SPDX-License-Identifier: Apache-2.0
// RemoteQueue: the queue of a volume whose real storage (RS) is on another node: an engine without lines
// (lib/cache/engine/storage.h) that has joined us. What goes through here goes through a buffer of ours:
// read-ahead, destaging, small writes, what the cache does not understand. Reads that miss and larger writes
// of connected clients do not (remote.cc).
//
// Requests wait for an RS that is away, kAwayMax at the longest, and fail then. One that was lost on the way
// is done again: the RS has ended what it was asked for before it joins again (RS2), and the caller keeps the
// order.
//
// When the RS's machine was started anew and something was written since the last flush,
// StorageNodes::note_loss() counts that: the next flush of each initiator has to fail.
//
// What the RS reports of the volume (remote_state.h) counts as the state of a backend of our own. Once the
// last owner has lost it nothing is asked of an RS any more: the volume has to be reopened, or made anew.
//
// Thread-safety: belongs to the cache's reactor, but for RemoteBackend. StorageNodes outlives both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/io/backend.h"
#include "target/cache/buffer_regions.h"
#include "target/cache/engine_link.h"
#include "target/cache/remote_state.h"

namespace wss::se {

class StorageNodes;

class RemoteQueue final : public io::Queue {
  public:
    static constexpr uint32_t kJobs = 32, kPiece = 256 * 1024;
    static constexpr Nanoseconds kAwayMax = from_s(5);
    // A process that took the storage has joined by then: it opens all its volumes before, and may wait for
    // half a minute until Ceph counts a client as dead.
    static constexpr Nanoseconds kTakenMax = from_s(60);
    // The one that served it before this program was started has joined again by then.
    static constexpr Nanoseconds kLastMax = from_s(3);

    static Result<std::unique_ptr<io::Queue>> create(StorageNodes& nodes, reactor::Reactor& reactor,
                                                     std::string name, std::shared_ptr<RemoteState> state);
    ~RemoteQueue() override;

    // What the RS says of it, as of its own backend.
    RemoteState& state() noexcept { return *state_; }
    // `volume` of the RS is this one.
    void attach(const EngineLink& engine, const wire::CacheVolume& volume);
    // This RS has the volume, whether it is served or does not fit. If another process had it before, others
    // may have had the storage in between (StorageNodes::changes()).
    void note_process(const EngineLink& engine);
    // No RS serves the volume, until attach().
    void note_away() noexcept;
    // It is away, and this RS has one that does not fit. If another process served it last, that may have the
    // storage and be back soon: this counts when commands wait for it no longer.
    bool accepts_refusal_of(const EngineLink& engine) const noexcept;
    // The RS that served it last had this place, and has lost it. Until attach() only one that follows may
    // serve it: others may have had it in between.
    void note_taken(io::Succession from, std::string why);
    bool is_taken() const noexcept { return taken_.from.chain != 0; }
    io::Succession taken_from() const noexcept { return taken_.from; }
    const std::string& taken_why() const noexcept { return taken_.why; }
    // It is here, and cannot serve it yet.
    void note_successor() noexcept { taken_.wait.waited = {}; }
    // Such a one may be about to join. A look, of which there is one each tick: time in which we did not look
    // does not count, as what has come meanwhile is not read yet. Nor does time in which nobody can join.
    bool awaits_successor() noexcept;
    // The owner that the storage had when engines took what it does not have, or at attach(); 0: not known.
    uint64_t owner() const noexcept { return owner_; }
    void note_owner(uint64_t owner) noexcept { owner_ = owner; }
    // The RS that served it last (its identity), in the life of this program or before; 0: not known.
    uint64_t served_by() const noexcept { return served_by_; }
    // From before this program was started. `taken`: as taken_from(), which counts from now on.
    void remember(uint64_t owner, uint64_t process, io::Succession taken);
    // served_by() may be about to join, and to report that it has lost the storage. A look, as
    // awaits_successor().
    bool awaits_last() noexcept;
    // While it is away commands fail at once.
    void refuse(bool at_once) noexcept { refuses_ = at_once; }
    // nullptr: away.
    EngineLink* storage() const noexcept;
    // What the RS there reports as failed has failed. Else another one took its place, or is to take it, and
    // the request is done again.
    bool answers_for_it(cache::EngineIndex index) const noexcept { return index_ == index; }
    uint32_t number() const noexcept { return number_; }
    const std::string& name() const noexcept { return name_; }
    // Which of the cache's losses (StorageNodes::losses()) was the last of this volume; 0: none.
    uint64_t last_loss() const noexcept { return last_loss_; }
    // Something was written past this queue.
    void note_write() noexcept { ++writes_; }
    // Writes were done that no flush has made stable.
    bool has_unflushed() const noexcept { return writes_ != flushed_; }

    void submit(io::Request& request) noexcept override;
    size_t poll() noexcept override;
    bool arm() noexcept override;
    size_t in_flight() const noexcept override { return in_flight_; }

  private:
    struct Job;
    struct FreeMemory {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    RemoteQueue(StorageNodes& nodes, reactor::Reactor& reactor, std::string name,
                std::shared_ptr<RemoteState> state);
    void start(Job& job, EngineLink& storage) noexcept;
    void over(Job& job, wire::CacheStatus status) noexcept;
    void finish(io::Request& request, int error) noexcept;
    void refuse_overdue() noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    StorageNodes& nodes_;
    reactor::Reactor& reactor_;
    const std::string name_;
    const std::shared_ptr<RemoteState> state_;
    std::unique_ptr<std::byte, FreeMemory> memory_;
    std::unique_ptr<BufferRegions> regions_;
    std::vector<std::unique_ptr<Job>> jobs_;
    std::vector<Job*> free_;
    List<io::Request> waiting_, finished_;
    size_t in_flight_ = 0;

    cache::EngineIndex index_;
    uint32_t incarnation_ = 0, number_ = 0;
    uint64_t boot_ = 0;
    uint64_t process_ = 0;    // the RS's that had the volume last
    uint64_t served_by_ = 0;  // … that fitted
    uint64_t owner_ = 0;
    // For a process that may be about to join.
    struct Wait {
        Nanoseconds looked, waited;
    };
    bool is_over(Wait& wait, Nanoseconds most) noexcept;
    std::optional<Wait> last_;  // for served_by()
    struct {
        io::Succession from;  // no chain: it is not
        std::string why;      // for the operator
        Wait wait;            // for a successor
    } taken_;
    bool refuses_ = false;
    uint64_t writes_ = 0, flushed_ = 0;  // that were done; as of the last flush
    uint64_t last_loss_ = 0;
    Nanoseconds away_since_ = kNever;
};

// "rs:NAME", NAME as the RS calls it. May be opened before the RS has come, so it is told how large it is.
class RemoteBackend final : public io::Backend {
  public:
    static Result<std::unique_ptr<io::Backend>> open(StorageNodes& nodes, const std::string& name,
                                                     const io::OpenOptions& options);
    io::Limits limits() const noexcept override;
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override;
    void watch_size(SizeChanged changed) override { state_->watch(std::move(changed)); }
    std::string trouble() const override { return state_->trouble(); }
    bool lost() const noexcept override { return state_->is_lost(); }
    bool give_up() noexcept override { return state_->give_up(); }
    bool suspended() const noexcept override { return state_->is_suspended(); }
    Status may_steal() const override;
    ~RemoteBackend() override { state_->watch({}); }
    std::string describe() const override { return "rs:" + name_; }

  private:
    RemoteBackend(StorageNodes& nodes, std::string name, std::shared_ptr<RemoteState> state)
        : nodes_(nodes), name_(std::move(name)), state_(std::move(state)) {}
    StorageNodes& nodes_;
    const std::string name_;
    const std::shared_ptr<RemoteState> state_;
};

}  // namespace wss::se
