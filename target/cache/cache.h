// SPDX-License-Identifier: Apache-2.0
// Cache: the storage engine's (SE's) side of the distributed cache. It keeps the map (lib/cache/index.h), has
// cache engines (CEs) join, and takes the commands of the block service through engines and real storage.
//
// A façade over owners, each with its own state and header: its members. An owner calls those above it in
// this list; those below it are notified through narrow interfaces.
//
// Rules
//  SE1  Every operation enters a line before it accesses the line. Where a header may say "dirty", the
//       operation names all pieces of the line, so that headers of one line are written in one order.
//  SE2  A write is acknowledged when it is where its policy says, when every copy that missed it counts no
//       more, and, if an engine came or went meanwhile and the volume may have dirty lines, when the
//       membership that says so is on stable storage.
//  SE3  An operation of a volume that is frozen waits. Whoever freezes it (discards, a change of policy, the
//       volume's end) waits until all that went before is over.
//  SE4  What becomes of an engine the index learns first, then the transfers that the engine owed.
//  SE5  What was acknowledged and cannot be reached is not answered from real storage: it is lost (losses.h).
//       Reading it waits with its owner for a while (awaits()), then fails.
//  SE6  Nothing waits for ever but dirty data for storage that works again; the operator is told of it.
//  SE7  Of hits that engines answer most are reported late, several with one message. Whoever waits for
//       something that they hold (a line, the volume, a channel's slots) calls hurry(); so does each tick.
//
// Thread-safety: belongs to one reactor, on which all channels live (a target with a cache has one reactor).
// Lifetime: reactor and fabrics outlive it; stop() comes before the volumes close.
#pragma once

#include "target/cache/deletions.h"
#include "target/cache/engine_events.h"
#include "target/cache/mirror.h"
#include "target/cache/shutdown.h"
#include "target/cache/volume_control.h"

namespace wss::se {

class Cache final : public reactor::Source {
  public:
    using Net = se::Net;
    static Result<std::unique_ptr<Cache>> create(reactor::Reactor& reactor, Random& random,
                                                 std::vector<Net> nets,
                                                 std::unique_ptr<MembershipStore> store,
                                                 const CacheOptions& options);
    ~Cache() override;

    // --- control; on the reactor
    // Where engines join, and with what secrets.
    Admission& admission() noexcept { return admission_; }
    // The target ends: whatever waits for a recovery, or comes to, ends with BUSY from now on.
    void end_waits() { control_.end_waits(); }
    // Brings everything home for at most `home_max` and lets go of the engines' links; `done` once, as
    // Shutdown says. Only then the cache may be destroyed.
    void stop(Nanoseconds home_max, LastSave last, Shutdown::Done done) {
        shutdown_.begin(home_max, last, std::move(done));
    }
    Status may_open(const volume::Volume& volume) const { return absent_.may_open(volume); }
    CachedVolume* add_volume(volume::OpenVolume& open) { return control_.add(open); }
    void volume_grew(CachedVolume& volume) { control_.grew(volume); }
    void shrink_volume(CachedVolume& volume, std::shared_ptr<volume::Shrink> shrink) {
        control_.shrink(volume, std::move(shrink));
    }
    void remove_volume(CachedVolume& volume) { control_.remove(volume); }
    void reopen_volume(CachedVolume& volume, std::shared_ptr<volume::Reopening> reopening) {
        control_.reopen(volume, std::move(reopening));
    }
    Deletions& deletions() noexcept { return deletions_; }
    using Done = std::function<void(Status)>;
    void set_policy(const std::string& name, const cache::PolicySettings& settings, Done done) {
        control_.set_policy(name, settings, std::move(done));
    }
    void drain(const std::string& name, Done done) { control_.drain(name, std::move(done)); }
    void give_up(const std::string& which, std::function<void(Result<uint64_t>)> done) {
        control_.give_up(which, std::move(done));
    }
    Status remove_engine(uint32_t index) { return events_.remove_engine(index); }
    void forget_awaited() { recovery_.forget_awaited(); }
    CacheInfo info();
    Client* add_client(fabric::Scheme scheme, ClientSink& sink);
    void remove_client(Client* client);

    // --- commands: datapath.h
    Work* take_work(CachedVolume& of, const WorkShareRef& by) noexcept { return datapath_.take_work(of, by); }
    void begin(Work& work) noexcept { datapath_.begin(work); }
    void buffer_ready(Work& work, std::byte* buffer, const BufferRegions& regions) noexcept {
        datapath_.buffer_ready(work, buffer, regions);
    }
    void buffer_failed(Work& work) noexcept { datapath_.buffer_failed(work); }
    void release(Work& work) noexcept { datapath_.release(work); }
    void abandon(Work& work) noexcept { datapath_.abandon(work); }
    void fence_abandoned(const CachedVolume& of, const Fence& by) { datapath_.fence_abandoned(of, by); }
    // EAGAIN, to clients: see awaits().
    void flush(CachedVolume& volume, std::function<void(int error)> done, Asker asker = Asker::kClient) {
        destager_.flush(volume, std::move(done), asker);
    }
    [[nodiscard]] bool freeze(CachedVolume& volume, uint64_t offset, uint64_t length,
                              std::function<void(int error)> done, Asker asker = Asker::kClient) {
        return control_.freeze(volume, offset, length, std::move(done), asker);
    }
    void thaw(CachedVolume& volume) noexcept { control_.thaw(volume); }
    void hurry() noexcept { engines_.hurry(); }
    bool awaits(const CachedVolume& of, uint64_t offset, uint64_t length, bool write) const {
        return losses_.awaits(of, offset, length, write);
    }
    StorageNodes& storage_nodes() noexcept { return nodes_; }
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) {
        return nets_.register_buffers(memory);
    }
    uint64_t storage_id() const noexcept { return members_.now().storage; }  // never changes
    bool recovering() const noexcept { return recovery_.holding(); }
    // Moves itself behind the sources whose commands come to it, and the engines' sources behind itself.
    void take_place() noexcept;
    size_t poll() noexcept override;
    bool arm() noexcept override {
        return !turn_.wanted() && !lines_.any_granted() && !datapath_.wants_turn();
    }

  private:
    Cache(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
          std::unique_ptr<MembershipStore> store, const CacheOptions& options,
          const cache::LineGeometry& geometry);
    Status prepare(Random& random);
    static void tick(void* self) noexcept;

    reactor::Reactor& reactor_;
    const CacheOptions options_;
    Turn turn_;
    Life life_;
    Lines lines_;
    Members members_;
    CachedVolumes volumes_;
    Nets nets_;
    JobMemory memory_;
    EngineSet engines_;
    Clients clients_;
    StorageNodes nodes_;
    Eraser eraser_;
    Losses losses_;
    AbsentVolumes absent_;
    Mirror mirror_;
    RecoveryRun recovery_;
    Destager destager_;
    Datapath datapath_;
    VolumeControl control_;
    Deletions deletions_;
    Admission admission_;
    EngineEvents events_;
    Shutdown shutdown_;
    reactor::Timer timer_;
};

}  // namespace wss::se
