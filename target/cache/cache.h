// SPDX-License-Identifier: Apache-2.0
// Cache: the storage engine's (SE's) side of the distributed cache. It keeps the index of lines
// (lib/cache/index.h), admits cache engines (CEs), and runs block commands with engines and real storage.
//
// This class is a façade. Each member calls the members declared above it, and notifies those declared below
// it through narrow interfaces.
//
// Rules
//  SE1  Every operation enters a line before it accesses the line. An operation that may write a header with
//       dirty bits enters on all sub-blocks of the line. So the headers of a line are written one after
//       another.
//  SE2  A write is acknowledged when its data is where its policy requires and every copy that missed it is
//       invalid. If an engine has joined or left in the meantime and lines may be dirty, the membership is
//       saved first.
//  SE3  An operation of a frozen volume waits. The operation that freezes the volume (a discard, a change of
//       policy, the removal of the volume) waits until all earlier operations have ended.
//  SE4  When an engine is lost, the index is updated first. Then the engine's outstanding transfers end.
//  SE5  Acknowledged data that is unreachable is lost (losses.h) and is not read from real storage instead.
//       Commands that need it wait outside of the cache while awaits() is true, and fail if it stays lost.
//  SE6  Only dirty data may wait indefinitely, until its storage is usable again. The operator is notified.
//  SE7  Engines report most hits late, several in one message. A ping makes an engine report them. Each tick
//       sends a ping, and so does flush_completions(). An operation calls it when it waits for a line, volume
//       or request that an unreported hit holds.
//
// Thread-safety: belongs to one reactor. Channels of all reactors reach the cache through a Gateway
// (gateway.h). Lifetime: the reactor and the fabrics outlive it. stop() comes before the volumes close.
#pragma once

#include "target/cache/deletions.h"
#include "target/cache/engine_events.h"
#include "target/cache/mirror.h"
#include "target/cache/shutdown.h"
#include "target/cache/volume_control.h"

namespace wss::cache {

class Cache final : public reactor::Source {
  public:
    static Result<std::unique_ptr<Cache>> create(reactor::Reactor& reactor, Random& random,
                                                 std::vector<Net> nets,
                                                 std::unique_ptr<MembershipStore> store,
                                                 const CacheOptions& options);
    ~Cache() override;

    // --- control; on the reactor
    // Listeners for engines, and the secrets that engines must have.
    Admission& admission() noexcept { return admission_; }
    // The target stops: commands that wait for a recovery now or later end with BUSY.
    void end_waits() { control_.end_waits(); }
    // Destages dirty data for at most `home_max`, then closes the links to the engines. Calls `done` once, as
    // described in Shutdown. The cache may be destroyed only after that.
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
    void set_policy(const std::string& name, const PolicySettings& settings, Done done) {
        control_.set_policy(name, settings, std::move(done));
    }
    void drain(const std::string& name, Done done) { control_.drain(name, std::move(done)); }
    void give_up(const std::string& which, std::function<void(Result<uint64_t>)> done) {
        control_.give_up(which, std::move(done));
    }
    Status remove_engine(uint32_t index) { return events_.remove_engine(index); }
    void forget_awaited() { recovery_.forget_awaited(); }
    CacheInfo info();
    Client* add_client(std::unique_ptr<Client> client) { return clients_.add(std::move(client)); }
    void remove_client(Client* client);
    reactor::Reactor& reactor() noexcept { return reactor_; }

    // --- commands
    Datapath& datapath() noexcept { return datapath_; }
    // Fails with EAGAIN while awaits() is true.
    void flush(CachedVolume& volume, std::function<void(int error)> done, const Cancelled* cancelled) {
        destager_.flush(volume, std::move(done), Asker::kClient, false, cancelled);
    }
    [[nodiscard]] bool freeze(CachedVolume& volume, Stretch range, Frozen use,
                              std::function<void(int error)> done, const Cancelled* cancelled) {
        return control_.freeze(volume, range, use, std::move(done), Asker::kClient, cancelled);
    }
    void end_cancelled() noexcept { control_.end_cancelled(); }
    void thaw(CachedVolume& volume) noexcept { control_.thaw(volume); }
    void flush_completions() noexcept { engines_.flush_completions(); }
    bool awaits(const CachedVolume& of, uint64_t offset, uint64_t length, bool write) const {
        return losses_.awaits(of, offset, length, write);
    }
    StorageNodes& storage_nodes() noexcept { return nodes_; }
    Result<std::unique_ptr<BufferRegions>> register_buffers(std::span<std::byte> memory) {
        return nets_.register_buffers(memory);
    }
    uint64_t storage_id() const noexcept { return members_.now().storage; }  // never changes
    bool recovering() const noexcept { return recovery_.holding(); }
    // Makes the reactor poll in this order: the sources that submit commands to the cache, the cache, the
    // pollers of the engines' fabrics.
    void take_place() noexcept;
    size_t poll() noexcept override;
    bool arm() noexcept override {
        return !turn_.wanted() && !lines_.any_granted() && !datapath_.wants_turn();
    }

  private:
    Cache(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
          std::unique_ptr<MembershipStore> store, const CacheOptions& options, const LineGeometry& geometry);
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

}  // namespace wss::cache
