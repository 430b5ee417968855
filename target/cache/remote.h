// SPDX-License-Identifier: Apache-2.0
// RemoteQueue: the queue of a volume whose real storage is on another node. The storage process (RS) there
// joins the target as an engine without lines (lib/cache/engine/storage.h). Data of this queue passes through
// a buffer of the target. The queue serves commands that the cache does not handle, commands of clients that
// are not connected to the RS, writes with immediate data, and read-ahead and destaging for which there is no
// staging buffer (staging.h). Other reads that miss, writes of connected clients, fills and destaging bypass
// it (reads_past.cc, writes.cc, destager.cc).
//
// Requests wait at most kAwayMax for an RS that is away, then fail. A request that was lost on the way is
// repeated. This is safe, because the RS ends all earlier operations before it joins again (RS2), and the
// caller keeps the order.
//
// If the RS's machine was restarted and something was written since the last flush, the loss is counted
// (StorageNodes::note_loss()): the next flush of each initiator must fail.
//
// The volume state that the RS reports (remote_state.h) has the same meaning as that of a local backend. When
// the storage is permanently lost (RemoteState::is_lost()), the target sends no more requests to any RS: the
// volume must be reopened or created again.
//
// Thread-safety: belongs to the cache's reactor, except for RemoteBackend. StorageNodes outlives both.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/io/backend.h"
#include "target/cache/buffer_regions.h"
#include "target/cache/engine_link.h"
#include "target/cache/forwarded_queue.h"
#include "target/cache/membership.h"
#include "target/cache/remote_state.h"

namespace wss::cache {

class StorageNodes;

class RemoteQueue final : public io::Queue {
  public:
    static constexpr uint32_t kJobs = 32, kPartBytes = 256 * 1024;
    static constexpr Nanoseconds kAwayMax = from_s(5);
    // Time within which a process that took the storage must join. It opens all its volumes first. If Ceph
    // still lists a dead client after open_timeout (a minute), the start of the process fails and is
    // repeated.
    static constexpr Nanoseconds kTakenMax = from_s(180);
    // Time for the process that served the volume last to join again: since it was away, or the target was
    // restarted, and since another process could take its place.
    static constexpr Nanoseconds kLastMax = from_s(4);

    // `place` names the queue for as long as the queue exists.
    static Result<std::unique_ptr<io::Queue>> create(StorageNodes& nodes, reactor::Reactor& reactor,
                                                     std::string name, std::shared_ptr<RemoteState> state,
                                                     std::shared_ptr<RemoteQueuePlace> place);
    ~RemoteQueue() override;

    // The state that the RS reports, in the form of a local backend's state.
    RemoteState& state() noexcept { return *state_; }
    // From now on, the volume `volume` of this RS serves this queue.
    void attach(const EngineLink& engine, const wire::CacheVolume& volume, const io::Succession& succession);
    // The processes that have served its storage, including those before a restart of the target.
    const ServedBy& served() const noexcept { return server_.places; }
    // The place of the RS that served the volume last.
    const io::Succession& succession() const noexcept { return server_.places.last; }
    // An RS with this place is or was connected.
    void note_seen(const io::Succession& place) noexcept { server_.places.see(place); }
    // This RS has the volume, whether or not its storage fits. If another process had the volume before,
    // others may have used the storage in between (StorageNodes::changes()).
    void note_process(const EngineLink& engine);
    // From now on no RS serves the volume, until attach().
    void note_away() noexcept;
    // Whether commands fail at once if a volume of this RS does not fit. If another process served the volume
    // last, that process may have the storage and return soon. In that case commands fail only after
    // kAwayMax.
    bool accepts_refusal_of(const EngineLink& engine) const noexcept;
    // The RS that served the volume last has lost the storage. `from` is its place. Until attach(), only a
    // process that follows it in the chain may serve the volume, because others may have used the storage in
    // between.
    void note_taken(io::Succession from, std::string why);
    bool is_taken() const noexcept { return taken_.from.is_known(); }
    io::Succession taken_from() const noexcept { return taken_.from; }
    const std::string& taken_why() const noexcept { return taken_.why; }
    // A successor has joined but cannot serve the volume yet. The wait starts again.
    void note_successor() noexcept { taken_.wait.waited = {}; }
    // Whether a successor may still join. Called once in each tick. The time between two calls counts only up
    // to a limit, because connection requests that arrived in the meantime are not yet processed. Time in
    // which no process can join does not count.
    bool awaits_successor() noexcept;
    // The owner of the storage when engines took data that the storage lacks, or at attach(); 0: unknown.
    uint64_t owner() const noexcept { return owner_; }
    void note_owner(uint64_t owner) noexcept { owner_ = owner; }
    // Identity of the RS that served the volume last, perhaps before a restart of the target; 0: unknown.
    uint64_t served_by() const noexcept { return server_.identity; }
    // These restore the state from before a restart of the target: served(), and the owner and the process of
    // a volume for which engines may hold dirty lines. `taken`: as returned by taken_from(). The wait begins
    // now.
    void remember(const ServedBy& served) noexcept { server_.places = served; }
    void remember(uint64_t owner, uint64_t process, io::Succession taken);
    // Whether served_by() may still join and report that it has lost the storage. Called once in each tick,
    // like awaits_successor(). `is_replaceable`: another process could serve the volume. It does not take the
    // place of served_by() before it has offered this for kLastMax: a network that was cut may have kept
    // served_by() away for longer, and waiting cost nothing before the offer.
    bool awaits_last(bool is_replaceable) noexcept;
    // While the RS is away, commands fail at once if `at_once` is true, and otherwise after kAwayMax.
    void refuse(bool at_once) noexcept { refuses_ = at_once; }
    // Returns nullptr while the RS is away.
    EngineLink* storage() const noexcept;
    // True for the connection of the RS that served the volume last, even after this connection has ended.
    bool was_served_by(const EngineLink& engine) const noexcept {
        return index_ == engine.index() && incarnation_ == engine.identity().incarnation;
    }
    // True if this RS serves the volume. A failure that it reports is then final. Otherwise another RS has
    // taken its place or will take it, and the request is repeated.
    bool answers_for_it(EngineIndex index) const noexcept { return index_ == index; }
    uint32_t number() const noexcept { return number_; }
    const std::string& name() const noexcept { return name_; }
    // Number of the last loss of this volume (StorageNodes::losses()); 0: none.
    uint64_t last_loss() const noexcept { return last_loss_; }
    // Data was written that bypassed this queue.
    void note_write() noexcept { ++writes_; }
    // True if writes completed after the last flush.
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
                std::shared_ptr<RemoteState> state, std::shared_ptr<RemoteQueuePlace> place);
    void start(Job& job, EngineLink& storage) noexcept;
    void over(Job& job, wire::CacheStatus status) noexcept;
    void finish(io::Request& request, int error) noexcept;
    void refuse_overdue() noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;

    StorageNodes& nodes_;
    reactor::Reactor& reactor_;
    const std::string name_;
    const std::shared_ptr<RemoteState> state_;
    const std::shared_ptr<RemoteQueuePlace> place_;
    std::unique_ptr<std::byte, FreeMemory> memory_;
    std::unique_ptr<BufferRegions> regions_;
    std::vector<std::unique_ptr<Job>> jobs_;
    std::vector<Job*> free_;
    List<io::Request> waiting_, finished_;
    size_t in_flight_ = 0;

    EngineIndex index_;
    uint32_t incarnation_ = 0, number_ = 0;
    uint64_t boot_ = 0;
    uint64_t process_ = 0;  // identity of the RS that had the volume last
    struct {
        uint64_t identity = 0;
        ServedBy places;
    } server_;  // the RS that served it last
    uint64_t owner_ = 0;
    // Wait for a process that may still join.
    struct Wait {
        Nanoseconds looked, waited;
    };
    bool is_over(Wait& wait, Nanoseconds most, bool counts = true) noexcept;
    struct LastWait {
        explicit LastWait(Nanoseconds now) : away{now, {}}, offered{now, {}} {}
        Wait away, offered;
    };
    std::optional<LastWait> last_;  // wait for served_by()
    struct {
        io::Succession from;  // unknown: the storage was not taken
        std::string why;      // for the operator
        Wait wait;            // wait for a successor
    } taken_;
    bool refuses_ = false;
    uint64_t writes_ = 0, flushed_ = 0;  // number of completed writes, and of those that the last flush made
                                         // stable
    uint64_t last_loss_ = 0;
    Nanoseconds away_since_ = kNever;
};

// "rs:NAME", where NAME is the volume's name at the RS. It may be opened before the RS has joined, so the
// options give its size.
class RemoteBackend final : public io::Backend {
  public:
    // `home`: the cache's reactor.
    static Result<std::unique_ptr<io::Backend>> open(StorageNodes& nodes, reactor::Reactor& home,
                                                     const std::string& name, const io::OpenOptions& options);
    io::Limits limits() const noexcept override;
    // On the cache's reactor, this opens a RemoteQueue; on others, a ForwardedQueue.
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override;
    void watch_size(SizeChanged changed) override { state_->watch(std::move(changed)); }
    bool hides_growth() const noexcept override { return state_->hides_growth(); }
    std::string trouble() const override { return state_->trouble(); }
    bool lost() const noexcept override { return state_->is_lost(); }
    bool give_up() noexcept override { return state_->give_up(); }
    bool suspended() const noexcept override { return state_->is_suspended(); }
    Status may_steal() const override;
    ~RemoteBackend() override { state_->watch({}); }
    std::string describe() const override { return "rs:" + name_; }

  private:
    RemoteBackend(StorageNodes& nodes, reactor::Reactor& home, std::string name,
                  std::shared_ptr<RemoteState> state)
        : nodes_(nodes), home_(home), name_(std::move(name)), state_(std::move(state)) {}
    StorageNodes& nodes_;
    reactor::Reactor& home_;
    const std::string name_;
    const std::shared_ptr<RemoteState> state_;
    const std::shared_ptr<RemoteQueuePlace> place_ = std::make_shared<RemoteQueuePlace>();
};

}  // namespace wss::cache
