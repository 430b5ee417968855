// SPDX-License-Identifier: Apache-2.0
// Cache: the storage engine's (SE's) side of the distributed cache. It keeps the map (lib/cache/index.h), has
// cache engines (CEs) join, and takes the commands of the block service through engines and real storage.
//
//   cache.cc    life, volumes, policies, time
//   freeze.cc   keeping a volume still; what waits on behalf of a volume
//   erase.cc    lines that go
//   volume_gate.h  who refers to a volume, who keeps it still, when it may be freed
//   engines.cc  engines that join, leave and are lost; membership; recovery; clients and their tokens
//   work.cc     what reads and writes have in common: lines, buffers, endings
//   hit.cc      the shortest way of a read, which most go
//   read.cc     reads, out of band and through us, and filling
//   write.cc    writes under each policy
//   destage.cc  bringing dirty lines home; flushes
//   lobby.cc    engines that ask to join: who they are, and whether they may
//   remote.cc   real storage on another node, and clients
//   direct.cc   … and engines: what goes straight between the two
//   lost.cc     dirty lines whose engines are away: who asks for them fails, until they are back
//   absent.cc   dirty lines of volumes that are not open
//   shrink.cc   lines beyond the new end of a volume that becomes smaller
//   reopen.cc   lines of a volume whose storage was another owner's meanwhile
//   prefetch.cc bringing lines in before they are asked for
//
// Rules
//  SE1  Whoever touches a line has entered it. Where a header may say "dirty", the operation names all pieces
//  of
//       the line, so that headers of one line are written in one order.
//  SE2  A write is acknowledged when it is where its policy says, when every copy that missed it counts no
//       more, and, if an engine came or went meanwhile and the volume may have dirty lines, when the
//       membership that says so is on stable storage.
//  SE3  An operation of a volume that is frozen waits. Whoever freezes it (discards, a change of policy, the
//       volume's end) waits until all that went before is over.
//  SE4  What becomes of an engine is heard first by the index, then by the transfers that it owed.
//  SE5  What was acknowledged and cannot be reached is not answered from real storage: it is lost (lost.cc).
//       Reading it waits with its owner for a while (awaits()), then fails.
//  SE6  Nothing waits for ever but dirty data for storage that works again; the operator is told of it.
//  SE7  Of hits that engines answer most are reported late, several with one message. Whoever waits for
//       something that they hold (a line, the volume, a channel's slots) says hurry(); so does each tick.
//
// Thread-safety: belongs to one reactor, on which all channels live (a target with a cache has one reactor).
// Lifetime: reactor and fabrics outlive it; stop() comes before the volumes close.
#pragma once

#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/cache/destage.h"
#include "lib/cache/index.h"
#include "lib/cache/recovery.h"
#include "lib/fabric/fabric.h"
#include "lib/reactor/reactor.h"
#include "target/cache/cached_volume.h"
#include "target/cache/info.h"
#include "target/cache/limits.h"
#include "target/cache/membership.h"
#include "target/cache/prefetch.h"
#include "target/cache/remote.h"
#include "target/cache/salvage.h"
#include "target/cache/work.h"
#include "target/volume/volume.h"

namespace wss::se {

struct CacheOptions {
    uint32_t line_bytes = cache::kLineBytesDefault;
    cache::PolicySettings default_policy{};   // of volumes that nobody set one for
    uint64_t lines_max = lines_max_here();    // of all engines, which bounds the index
    uint32_t works = 1024;                    // commands under way
    uint32_t destages = 16;                   // lines being brought home at a time
    Nanoseconds silence_max = from_ms(1200);  // an engine that says nothing for so long is lost
    cache::DestageOptions destage{};
    cache::ReadAheadOptions read_ahead{};
    // After a restart: how long to wait for the last engine, when all but one are back.
    Nanoseconds recovery_grace = from_s(2);
    // How long commands wait for engines that are away with what they ask for, since the first of that was
    // lost.
    Nanoseconds lost_grace = from_s(15);
    // Who may join: engines that prove to have one of these secrets. Without it whoever comes.
    std::shared_ptr<const auth::SecretBook> engine_secrets;
    // Where tokens come from; the reactor's Random if empty, which an eavesdropper could predict.
    std::function<uint64_t()> secrets;
};

// Who hears of engines on behalf of an initiator.
class ClientSink {
  public:
    virtual void tell(const wire::CacheEngineNotice& notice) noexcept = 0;

  protected:
    ~ClientSink() = default;
};

// An initiator's channel, and which engines it is connected to.
struct Client {
    ClientSink* sink = nullptr;
    fabric::Scheme scheme = fabric::Scheme::kTcp;
    struct Place {
        uint64_t handle = 0;  // granted; 0: not
        bool attached = false;
        // Not attached in so many ticks, it is invited anew; doubled each time.
        uint16_t ticks = 0, patience = kInviteTicks;
    };
    static constexpr uint16_t kInviteTicks = 50, kInviteTicksMax = 600;  // of 100 ms
    // Reads that it may have the answer of while we do not know: each has a slot of its channel, which has
    // that many and more to spare.
    static constexpr uint32_t kLazyMax = 15;
    uint32_t lazy = 0;
    bool is_storage = false;  // real storage on another node (bays.h)
    std::array<Place, cache::kEnginesMax> engines;
};

class Cache final : public reactor::Source, public fabric::ListenHandler, private EngineLinkOwner {
  public:
    struct Net {
        fabric::Fabric* fabric = nullptr;
        fabric::Poller* poller = nullptr;
    };
    static Result<std::unique_ptr<Cache>> create(reactor::Reactor& reactor, Random& random,
                                                 std::vector<Net> nets,
                                                 std::unique_ptr<MembershipStore> store,
                                                 const CacheOptions& options);
    ~Cache() override;

    // --- control; on the reactor
    Result<fabric::Address> listen(size_t net, const fabric::Address& address);
    // The target ends: whatever waits for a recovery, or comes to, ends with BUSY from now on.
    void end_waits();
    // Brings everything home for at most `home_max` and lets go of the engines' links; `done` once, with
    // what kept dirty lines in the engines. Only then the cache may be destroyed.
    void stop(Nanoseconds home_max, std::function<void(Status)> done);
    // Refuses a volume that has become smaller while engines may hold dirty lines beyond its present end.
    Status may_open(const volume::Volume& volume) const;
    CachedVolume* add_volume(volume::OpenVolume& open);
    void volume_grew(CachedVolume& volume);
    // No line beyond the new end counts any more, in engines and after a restart, when `shrink` is done.
    void shrink_volume(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink);
    // Nothing that engines hold of it counts any more when `reopening` ended well: its storage was another's.
    void reopen_volume(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening);
    // A volume that is not open was deleted, by the operator's word: its lines are wiped. `recorded` follows
    // when the membership that says so is on stable storage.
    void volume_deleted(uint64_t wwid, std::function<void()> recorded);
    // No command begins any more: what waits ends with ENXIO, what is under way ends as it does. The lines
    // are wiped. `open` has a user until it is on stable storage that nothing of the volume counts, and is
    // not used any more when its users are gone. The volume is freed, and its number used again, when nobody
    // has a place in its gate.
    void remove_volume(CachedVolume& volume);
    void set_policy(const std::string& name, const cache::PolicySettings& settings,
                    std::function<void(Status)> done);
    // Brings everything dirty home (of one volume, or of all when `name` is empty).
    void drain(const std::string& name, std::function<void(Status)> done);
    Status remove_engine(uint32_t index);
    // Stops waiting for engines that were there before a restart. If they may have acknowledged writes that
    // no other engine has, every volume with such writes is lost as a whole until it is given up.
    void forget_awaited();
    // Gives up what is lost of the volume, and if it is not open, what engines hold of it: what real storage
    // has counts from now on. One flush of it fails. `which`: its name or its WWID ("naa.3…"); a name means
    // the volume that is open, or else the only one that had it. Returns the WWID.
    Result<uint64_t> give_up(const std::string& which);
    CacheInfo info();

    // --- clients
    Client* add_client(fabric::Scheme scheme, ClientSink& sink);
    void remove_client(Client* client);

    // --- commands
    // For a command of `volume`. nullptr: not now. A volume may hold as many as it leaves free, an eighth not
    // counted, so that one whose storage hangs cannot take those of others; one that holds none may take any.
    Work* take_work(CachedVolume& volume) noexcept;
    void begin(Work& work) noexcept;  // a read or write of volume->serves()
    void buffer_ready(Work& work, std::byte* buffer, const BufferRegions& regions) noexcept;
    void buffer_failed(Work& work) noexcept;
    void release(Work& work) noexcept;  // by the owner, once `ended` or `answered` was called
    // As buffer_failed(), by an owner that goes: it hears nothing more of the work.
    void abandon(Work& work) noexcept;
    // Everything written before is in real storage when `done` is called; then flush that. EAGAIN, to
    // clients: see awaits().
    void flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker = Asker::kClient);
    // SE3, for what the cache does not understand: nothing of the volume is under way or cached in
    // [offset, offset + length) when `done` is called, and stays so until thaw(), which follows also an
    // error. False: the volume is being removed; neither `done` nor thaw().
    [[nodiscard]] bool freeze(CachedVolume& volume, uint64_t offset, uint64_t length,
                              std::function<void(int error)> done, Asker asker = Asker::kClient);
    void thaw(CachedVolume& volume) noexcept;
    // What engines have done and not told is wanted now.
    void hurry() noexcept;
    // A command on this range (without length: on all of the volume) ended with kAwait, or EAGAIN. True: so
    // it would now. It waits with the volume's LostWaiters, holding nothing of ours, and is begun anew when
    // this is false: what it asks for is back, or given up, or has been away for too long.
    bool awaits(const CachedVolume& volume, uint64_t offset, uint64_t length, bool is_write) const;

    // How often real storage elsewhere may have lost what was written and not flushed.
    uint64_t storage_losses() const noexcept { return storage_losses_; }
    uint64_t note_storage_loss() noexcept {
        note_storage_change();
        return ++storage_losses_;
    }
    // … or may have been written by others, which initiators need not know.
    void note_storage_change() noexcept { ++storage_changes_; }
    // The engine that is real storage, if it is still the one and takes operations.
    EngineLink* storage_link(cache::EngineIndex index, uint32_t incarnation) noexcept;
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory);
    const CacheOptions& options() const noexcept { return options_; }
    bool recovering() const noexcept { return holding_; }

    // Among the sources of its reactor: behind those whose commands come to it and before those of the
    // engines, so that what commands ask of engines leaves in the same turn.
    void take_place() noexcept;
    size_t poll() noexcept override;
    bool arm() noexcept override { return !wants_turn_ && granted_.empty() && !prefetch_->wants_turn(); }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override;

  private:
    class Port;
    struct Destage;
    struct Erase;
    struct Reached;
    // A slot's header as its engine showed it when it joined.
    struct Item {
        cache::Slot slot;
        uint32_t incarnation = 0;
        std::array<std::byte, wire::kCacheHeaderBytes> header{};
    };
    // Waits for something of the cache on behalf of a volume. When the volume is removed it runs at once.
    struct Postponed {
        CachedVolume* volume = nullptr;
        Gate::Holder place;
        std::function<void()> task;
    };
    // A slot whose copy lost at recovery.
    struct SlotErase {
        Cache* cache = nullptr;
        Transfer transfer;
        bool over = false;
    };
    friend class Port;

    Cache(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
          std::unique_ptr<MembershipStore> store, const CacheOptions& options);
    Status prepare();
    Status load_membership();
    Status check_stable(const cache::PolicySettings& settings) const;

    // lobby.cc
    void engine_requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept;
    void ask_for_proof(fabric::ConnectRequest& request, const EngineLink::Applicant& applicant) noexcept;
    uint64_t lines_of(const wire::CacheJoin& join) const noexcept;
    std::string exceeds_index(const wire::CacheJoin& join) const;
    const char* judge_join(const EngineLink::Applicant& applicant, EngineLink::Identity& identity) noexcept;
    wire::CacheWelcome welcome_for(const EngineLink::Identity& identity) const noexcept;
    EngineLink& enlist(std::unique_ptr<EngineLink> engine, cache::EngineIndex index) noexcept;
    std::string engine_limit(const EngineLink& engine) override;
    void engine_proven(EngineLink& engine) noexcept override;
    std::unique_ptr<EngineLink> out_of_lobby(EngineLink& engine) noexcept;
    void clear_lobby() noexcept;

    // engines.cc
    void engine_ready(EngineLink& engine) noexcept override;
    void engine_item(EngineLink& engine, const wire::CacheHeader& item) noexcept override;
    void client_attached(EngineLink& engine, uint64_t handle) noexcept override;
    void client_detached(EngineLink& engine, uint64_t handle) noexcept override;
    void grant_known(EngineLink& engine, const wire::CacheEngineNotice& notice) noexcept override;
    void engine_wants_to_leave(EngineLink& engine) noexcept override;
    void engine_gone(EngineLink& storage, uint64_t handle) noexcept override;
    void volume_state_changed(EngineLink& storage) noexcept override;
    void engine_over(EngineLink& engine, const Status& why) noexcept override;
    EngineLink* link(cache::EngineIndex index) noexcept {
        return index.exists() ? links_[index.value].get() : nullptr;
    }
    std::unique_ptr<EngineLink> take_link(cache::EngineIndex index) noexcept;
    Client* admit_client(std::unique_ptr<Client> client);
    void introduce(Client& client, EngineLink& engine) noexcept;
    void invite_anew() noexcept;
    void save_membership();
    void membership_saved(const Status& status);
    // Now, or when it is. The task sees whether the volume was removed meanwhile.
    void when_saved(CachedVolume& volume, std::function<void()> task);
    void when_recorded(std::function<void()> task);
    bool membership_pending() const noexcept { return saving_ || membership_changed_; }
    // Copies in engines that missed a write undo it after a restart only if they claim dirty data.
    bool waits_for_saving(const CachedVolume& volume) const noexcept {
        return volume.may_be_dirty && membership_pending();
    }
    // Its commands wait: recovery may find dirty lines of it. Others are served by real storage meanwhile.
    bool holds(const CachedVolume& volume) const noexcept { return holding_ && volume.may_be_dirty; }
    bool waits(const CachedVolume& volume) const noexcept { return holds(volume) && !waits_are_over_; }
    void check_recovery();
    bool finds_all(size_t back) const;
    bool may_finish_recovery(size_t back) const;
    void tell_of_wait(const std::map<uint64_t, uint32_t>& back);
    void note_forgotten();
    void finish_recovery();
    void erase_losers(std::span<const cache::Slot> slots, Transfer::Kind how);
    void resume_after_recovery();
    void check_leaving();
    void note_dirty(CachedVolume& volume, bool may_be_dirty);
    bool may_write_back(const CachedVolume& volume) const;
    void begin_write_back();
    void note_clean_volumes();

    // work.cc
    void count_command(Work& work) noexcept;
    void admit(Work& work) noexcept;
    void enter_lines(Work& work) noexcept;
    void leave_lines(Work& work) noexcept;
    void serve_granted() noexcept;
    void run(Work& work) noexcept;
    void end(Work& work, const Ending& ending) noexcept;
    void finish_part(Work& work) noexcept;
    void part_over(Work& work) noexcept;
    void refuse(Work& work) noexcept;
    void end_unbegun(Work& work, const Ending& ending) noexcept;
    void start_storage(Work& work, io::Op op) noexcept;
    static void storage_done(io::Request& io) noexcept;
    Transfer& next_transfer(Work& work, LineWork& line, cache::Slot slot) noexcept;
    static void transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    void transfer_over(Work& work, Transfer& transfer, wire::CacheStatus status) noexcept;
    bool still_there(const LineWork& line) noexcept;
    bool attached(const Work& work, cache::Slot slot) noexcept;
    bool is_wide(const CachedVolume& volume) noexcept;
    std::array<std::byte, wire::kCacheHeaderBytes> header_bytes(const LineWork& line, cache::Slot slot,
                                                                const CachedVolume& volume,
                                                                cache::Pieces valid, cache::Pieces dirty,
                                                                uint64_t generation);

    // remote.cc
    void storage_ready(EngineLink& engine);
    void attach_storage(CachedVolume& volume, EngineLink& engine);
    void attach_again();
    void storage_gone();

    // reopen.cc
    void drop_contents(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening);
    void contents_dropped(CachedVolume& volume, const std::shared_ptr<volume::Reopening>& reopening);
    void forget_clean(const CachedVolume& volume) noexcept;
    bool reaches_storage(const Work& work) noexcept;
    bool can_fetch(const Work& work) noexcept;
    bool can_bring(const Work& work) const noexcept;
    bool wants_fill(const Work& work, const LineWork& line) const noexcept;
    void miss(Work& work) noexcept;
    Transfer& remote_io(Work& work, wire::CacheStorage::Op op) noexcept;
    void fetch(Work& work) noexcept;
    void store_from_client(Work& work, bool fua) noexcept;
    static void fetched(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void stored(Transfer& transfer, wire::CacheStatus status) noexcept;

    // hit.cc
    bool hit(Work& work) noexcept;
    static void hit_over(Transfer& transfer, wire::CacheStatus status) noexcept;

    // direct.cc
    void open_bays(EngineLink& storage);
    void close_bays(const EngineLink& storage);
    Reached* reached_by(cache::EngineIndex storage, uint32_t incarnation) noexcept;
    bool reaches_bay(const Bay& bay, cache::EngineIndex engine) noexcept;
    Bay take_bay(const CachedVolume& volume, cache::EngineIndex engine, uint32_t bytes) noexcept;
    Bay bay_for(const Work& work) noexcept;
    void give_back(Bay& bay) noexcept;
    void aim_at_bay(Transfer& transfer, const Bay& bay, cache::EngineIndex engine, uint32_t offset) noexcept;
    void distrust(const Bay& bay, cache::EngineIndex engine, uint64_t handle) noexcept;
    void bring(Work& work) noexcept;
    void fill_failed(Work& work, const Transfer& transfer) noexcept;
    void settle_unfilled(Work& work) noexcept;
    bool store_from_bay(Destage& job, uint64_t at, uint32_t begin, uint64_t length) noexcept;
    static void brought(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void destage_stored(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void count_upkeep(CachedVolume& volume, const Bay& bay, uint64_t bytes) noexcept;

    // read.cc
    void run_read(Work& work) noexcept;
    void answer_read(Work& work) noexcept;
    bool can_delegate(const Work& work) noexcept;
    bool may_be_lazy(const Work& work) noexcept;
    void lazy_over(Work& work) noexcept;
    void begin_delegation(Work& work) noexcept;
    void delegate_to(Work& work, LineWork& line, uint32_t at, Transfer& transfer) noexcept;
    void delegate(Work& work) noexcept;
    void gather(Work& work) noexcept;
    void overlay(Work& work) noexcept;
    void fill(Work& work) noexcept;
    void read_part_over(Work& work) noexcept;

    // write.cc
    void run_write(Work& work) noexcept;
    void plan_line(Work& work, LineWork& line) noexcept;
    void start_write(Work& work) noexcept;
    void update_copies(Work& work, LineWork& line, bool from_client) noexcept;
    void write_part_over(Work& work) noexcept;
    void settle_write(Work& work) noexcept;
    void give_up_write(Work& work, const Ending& ending) noexcept;
    static bool may_differ(const LineWork& line) noexcept;
    void repair(Work& work) noexcept;
    void repaired(Work& work) noexcept;

    // destage.cc
    void destage_tick() noexcept;
    void destage_single_copies() noexcept;
    void start_destages(CachedVolume& volume) noexcept;
    void start_destage(CachedVolume& volume, cache::Line& line) noexcept;
    void begin_job(Destage& job, CachedVolume& volume, cache::Line& line, cache::Access access) noexcept;
    bool choose_copy(Destage& job, cache::Slot& slot) noexcept;
    void destage_entered(Destage& job) noexcept;
    void destage_step(Destage& job) noexcept;
    void destage_done(Destage& job, int error) noexcept;
    void count_stored(Destage& job, uint64_t bytes) noexcept;
    void check_flushes(CachedVolume& volume, int error) noexcept;
    static void destage_transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    static void destage_storage_done(io::Request& io) noexcept;

    // lost.cc
    void note_loss(const EngineLink& engine, const cache::Loss& loss);
    bool refuse_lost(Work& work) noexcept;
    bool in_time(const CachedVolume& volume, Nanoseconds lost) const noexcept;
    bool awaits(const CachedVolume& volume) const noexcept;
    void look_again() noexcept;
    void look_due(CachedVolume& volume) noexcept;
    void look() noexcept;
    bool known_again(uint64_t wwid, uint64_t line, cache::Pieces pieces);
    void written_anew(const CachedVolume& volume, uint64_t line, cache::Pieces pieces);
    void brought_home(const CachedVolume& volume, uint64_t line, cache::Pieces pieces);
    void forget_lost(uint64_t wwid);
    void give_up_lost(CachedVolume& volume);
    Result<uint64_t> volume_to_give_up(const std::string& which) const;
    void told_of_loss(CachedVolume& volume) noexcept;
    uint64_t lost_bytes(const volume::Volume& volume) const;
    bool fails_flushes(const CachedVolume& volume, Asker asker) const noexcept;
    void fail_flushes() noexcept;
    void salvage() noexcept;
    void salvage_again() noexcept;
    void add_salvage(EngineLink& engine, const wire::CacheHeader& item);
    bool start_salvage(Destage& job, const SalvageQueue::Item& item) noexcept;
    cache::Pieces salvageable(const SalvageQueue::Item& item) const noexcept;
    void salvage_failed(Destage& job) noexcept;
    bool is_returning(uint64_t identity, uint32_t incarnation) const noexcept;

    // absent.cc
    void keep_absent(cache::Recovery& recovery);
    void settle_absent();
    void drop_absent(uint64_t wwid);
    void free_dropped() noexcept;
    bool being_wiped(uint64_t wwid) const;
    void give_up_absent(uint64_t wwid);
    bool absent_is_home(uint64_t mark);
    bool has_absent_lines() const;
    bool is_taken(uint32_t number) const;
    uint32_t free_number();
    std::optional<uint64_t> wwid_of(uint32_t number) const;
    CachedVolume* opened(uint64_t wwid) const;
    void list_absent(CacheInfo& info) const;

    // shrink.cc
    void cut_lines(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink);
    void lines_cut(CachedVolume& volume, const std::shared_ptr<volume::Shrink>& shrink);
    void trim(Erase& erase) noexcept;
    static void trim_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    bool beyond_end(const Work& work) const noexcept;

    // freeze.cc
    void begin_held(CachedVolume& volume) noexcept;
    void postpone(std::list<Postponed>& list, CachedVolume& volume, std::function<void()> task);
    static void run_postponed(std::list<Postponed>& list, const CachedVolume* of);

    // erase.cc
    std::vector<cache::LineKey> lines_in(uint32_t number, uint64_t offset, uint64_t length);
    void drop_lines(CachedVolume& volume, uint64_t offset, uint64_t length);
    void wipe_lines(uint32_t number, const Gate::Holder& removal);
    std::unique_ptr<Erase> erase_of(cache::Line& line);
    void begin_erase(std::unique_ptr<Erase> erase);
    void erase_entered(Erase& erase, cache::LineOp& op) noexcept;
    static void erase_transfer_done(Transfer& transfer, wire::CacheStatus status) noexcept;
    void erase_over(Erase& erase) noexcept;

    // cache.cc
    void refuse_waiting(CachedVolume& volume) noexcept;
    void free_gone_volumes();
    static void tick(void* self) noexcept;
    void leave_engines(Status home);
    void check_stopped();
    Nanoseconds lost_for(const CachedVolume& volume) const;
    Nanoseconds age_of_dirty(const CachedVolume& volume);
    CachedVolume* find_volume(const std::string& name);

    // Immutable.
    reactor::Reactor& reactor_;
    Random& random_;
    const std::vector<Net> nets_;
    std::vector<fabric::Scheme> schemes_;  // by net, of where engines join
    const std::unique_ptr<MembershipStore> store_;
    const CacheOptions options_;
    cache::LineGeometry geometry_;

    std::unique_ptr<cache::Index> index_;
    std::vector<std::unique_ptr<Work>> works_;
    List<Work> free_works_;
    uint32_t free_works_count_ = 0;
    uint32_t lines_per_work_ = 0;
    cache::Granted granted_;
    List<Work> unacknowledged_;          // SE2: wait for the membership
    std::list<Postponed> after_saving_;  // … and so do these
    bool wants_turn_ = false;
    uint32_t lazy_ = 0;  // works of that kind

    std::vector<std::unique_ptr<Port>> ports_;
    std::array<std::unique_ptr<EngineLink>, cache::kEnginesMax> links_;
    // Behind it there is none: engines have the lowest free numbers, and there are few.
    size_t links_end_ = 0;
    std::list<std::unique_ptr<EngineLink>> old_links_;  // over, with transfers to report
    struct InLobby {
        std::unique_ptr<EngineLink> engine;
        Nanoseconds until{};
    };
    std::list<InLobby> lobby_;  // they have not proven yet who they are
    std::list<std::unique_ptr<Client>> clients_;
    std::vector<std::unique_ptr<Reached>> reached_;  // real storage with bays: one, or none
    std::unordered_map<uint64_t, std::pair<Client*, uint8_t>> handles_;  // → client, engine

    Membership membership_;
    bool membership_changed_ = false, saving_ = false;
    // Recovery: engines that were members when we ended, and what those that came back hold.
    bool recovering_ = false;
    // Commands of volumes that may be dirty wait, and no line gets a place in an engine: from the start of
    // recovery until no copy that lost claims anything.
    bool holding_ = false;
    bool needs_all_ = false;  // not all but one of those awaited
    bool forgotten_ = false;  // the operator's word: without those that are not here
    bool wait_is_told_ = false;
    std::map<uint64_t, uint32_t> awaited_;
    std::vector<Item> items_;
    // What the saved text says, whose engines must keep what they hold until another is saved.
    std::map<uint64_t, uint32_t> saving_engines_, saved_engines_;
    // Lost while dirty lines had one other copy: theirs may be as new.
    std::map<uint64_t, uint32_t> departed_;
    bool salvage_due_ = false;
    uint64_t looked_at_ = 0;  // LostPieces::known_again() when commands that wait were checked last
    uint64_t waiting_checks_ = 0;
    Nanoseconds looked_until_{};  // … and what was lost by then was over
    bool looking_ = false;        // some are still to be checked
    uint64_t salvage_checks_ = 0;
    std::map<size_t, SalvageQueue> salvages_;  // by number of the engine that came back
    // Lines (WWID, number) that were lost and are in real storage, while what is saved, or being saved, does
    // not say so.
    std::set<std::pair<uint64_t, uint64_t>> came_home_;

    std::vector<std::unique_ptr<CachedVolume>> volumes_;  // by number; nullptr: free
    bool volumes_gone_ = false;                           // there are some with `gone`
    // Volumes that are not open, and were not given up: what engines hold of them stays there, dirty, under
    // this number, until the volume is opened.
    std::map<uint64_t, uint32_t> absent_;  // by WWID
    // Numbers of such that nothing counts of any more. Each is used again when its lines were found, to be
    // wiped, and are gone.
    struct Dropped {
        uint32_t number = 0;
        uint64_t wwid = 0;
        bool lines_found = false;
    };
    std::vector<Dropped> dropped_;
    std::vector<std::unique_ptr<Destage>> destages_;
    std::list<std::unique_ptr<Erase>> erases_;
    std::list<std::unique_ptr<SlotErase>> slot_erases_;
    struct FreeBuffer {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, FreeBuffer> destage_memory_;
    std::byte* zeroes_ = nullptr;  // a piece, at the end of it
    std::unique_ptr<BufferRegions> destage_regions_;
    std::unique_ptr<Prefetch> prefetch_;
    reactor::Timer timer_;
    std::list<Postponed> after_recovery_;
    Nanoseconds recovery_began_{};
    uint64_t degraded_mark_ = 0;  // what was dirty when a copy was lost; see Membership::degraded
    uint64_t storage_losses_ = 0, storage_changes_ = 0;
    bool waits_are_over_ = false;  // end_waits()
    bool stopping_ = false;
    Nanoseconds stop_until_{};    // the end of what stop() is at
    std::optional<Status> home_;  // how stop() brought everything home; engines are being left
    std::function<void(Status)> stopped_;
};

}  // namespace wss::se
