// SPDX-License-Identifier: Apache-2.0
// Engine: a cache engine (CE). It lends memory to storage engines (SE) and moves data between that memory and
// clients, as the SE commands. It has no notion of volumes, makes no decisions and keeps no map: a slot is a
// number, a header is 64 bytes that the SE supplies. It reads headers only to count the dirty lines that
// would be lost with it. A storage process is an Engine too; it has volumes and lends no lines (storage.h).
//
//   arena       one mapping, registered once with every fabric. Peers reach it only by messages to this
//               engine. Each SE has an equal part of it, cut into slots of its line size.
//   SeLink      the link to one SE: connects, joins, and after a loss reconnects with growing pauses. Its
//               part of the arena and the headers outlive the connection.
//   Client      a connection of an initiator's channel or of a storage process (reach.h). Accepted once, and
//               only with a handle and the token that an SE granted for it. Ends with its grant.
//   Operation   one kMove; see engine_datapath.cc.
//
// Rules
//  CE1  Contents and headers belong to the SE that wrote them; another SE gets other slots. Unless a welcome
//       has `keep` set and matches the SE, incarnation and line size of the contents, all headers are erased
//       before anything else happens.
//  CE2  An atomic move changes its slot (and header) after all bytes have arrived, in one step.
//  CE3  kDone is sent when the bytes are placed: in the peer's memory if the move is `to_peer`, otherwise in
//       the slot. kDetached follows the kDone of every operation of that client.
//  CE4  Everything that an SE or a client sends is checked against slots, ids and lengths. An SE that
//       violates the protocol loses its link, a client its connection.
//
// Time, randomness and network are behind interfaces, so the simulation runs the same code.
//
// Thread-safety: belongs to its reactor. Lifetime: the reactor, fabrics and pollers outlive it; stop() comes
// first.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/secrets.h"
#include "lib/cache/engine/record_link.h"
#include "lib/fabric/fabric.h"
#include "lib/io/backend.h"
#include "lib/reactor/reactor.h"
#include "lib/wire/cache.h"

namespace wss::cache {

struct EngineCounters {
    uint64_t to_client_bytes = 0, from_client_bytes = 0;    // moved by RDMA to and from clients
    uint64_t to_storage_bytes = 0, from_storage_bytes = 0;  // moved by RDMA to and from SEs
    uint64_t moves = 0, failed_moves = 0, waited_for_stage = 0;
    uint64_t clients_accepted = 0, clients_refused = 0;
    uint64_t wipes = 0;
    uint64_t storage_reads = 0, storage_read_bytes = 0, storage_writes = 0, storage_write_bytes = 0;
    uint64_t storage_flushes = 0, storage_errors = 0;
};

// A volume of an engine that is a storage process (RS).
struct EngineVolume {
    std::string name;
    io::Backend* backend = nullptr;  // outlives the engine
    bool read_only = false;
};

struct EngineStorageInfo {
    std::string address;
    bool up = false;
    uint64_t storage = 0;
    uint32_t line_bytes = 0, slots = 0, used_slots = 0, clients = 0;
    std::string last_error;
};

class Engine final : public reactor::Source {
  public:
    // A fabric of the engine. It may have listeners for clients.
    struct Net {
        fabric::Fabric* fabric = nullptr;
        fabric::Poller* poller = nullptr;
    };
    struct Options {
        uint64_t memory = 0;
        uint64_t identity = 0;  // 0: chosen at random
        // If set, the engine joins only storage engines that prove that they know it.
        NamedSecret secret;
        // An SE sends pings ten times a second. After a silence of at least this length the engine sends a
        // probe, because the SE may have disappeared without closing the connection.
        Nanoseconds silence = from_s(1);
        // If not empty, the engine is a storage process (RS) of the one SE that it joins, and lends no lines.
        // Its memory then buffers data between disk and network.
        std::vector<EngineVolume> volumes;
        // The separate fabric by which an RS connects to cache engines (reach.h). Without it, data between
        // them passes through the SE.
        Net reach;
        uint64_t boot = 0;  // the boot id of this machine
        Nanoseconds reconnect_min = from_ms(50), reconnect_max = from_s(1);
    };
    static Result<std::unique_ptr<Engine>> create(reactor::Reactor& reactor, Random& random,
                                                  std::vector<Net> nets, const Options& options);
    ~Engine() override;

    // Call before start(). Returns the address that is bound. `advertised` is the address sent to clients; if
    // it is empty, the bound one.
    Result<fabric::Address> listen(size_t net, const fabric::Address& address, std::string advertised = {});
    void join(size_t net, const fabric::Address& storage);
    // Registers the arena and starts joining.
    Status start();
    // Rejoins the storage engines that have released this engine.
    void join_again();
    // Requests that each SE drain this engine. Calls `done` once, when no SE needs this engine any longer, or
    // after the time `limit`. In the latter case, the Status reports the maximum number of lines whose
    // acknowledged writes are not in real storage. Those without a copy in another engine are lost.
    void leave(Nanoseconds limit, std::function<void(Status)> done);
    // Closes all connections and then calls `done`. After that the engine may be destroyed.
    void stop(std::function<void()> done);
    // Call this after stop(), even if `done` of stop() was not called. Ends the use of the volumes that have
    // no request in flight, and returns their backends, which may then be closed.
    std::vector<const io::Backend*> release_storage();

    uint64_t identity() const noexcept { return options_.identity; }
    const EngineCounters& counters() const noexcept { return counters_; }
    std::vector<EngineStorageInfo> storages() const;
    // The addresses advertised to clients.
    const std::vector<std::string>& addresses() const noexcept { return advertised_; }

    size_t poll() noexcept override;

  private:
    class SeLink;
    class Client;
    class Port;
    class Storage;
    class Reach;
    struct Operation;
    struct Grant;
    friend class SeLink;
    friend class Client;
    friend class Storage;
    friend class Reach;

    Engine(reactor::Reactor& reactor, Random& random, std::vector<Net> nets, Options options);
    Status map_arena();
    void client_requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept;
    void client_over(Client& client) noexcept;
    void check_stopped() noexcept;
    void check_left() noexcept;
    void leave_anyway() noexcept;
    // The state of the SEs that have not sent GOODBYE.
    struct Unsaved {
        uint64_t lines = 0;  // lines with acknowledged writes only in engines, as of the SE's last message
        std::string of;      // the names of these SEs
    };
    Unsaved unsaved() const;
    uint32_t lkey(size_t net) const noexcept { return regions_[net]->lkey(); }

    // Immutable after start().
    reactor::Reactor& reactor_;
    Random& random_;
    const std::vector<Net> nets_;
    const Options options_;
    std::vector<std::string> advertised_;
    std::span<std::byte> arena_;
    std::vector<std::unique_ptr<fabric::Region>> regions_;  // the arena's registration with each net

    std::vector<std::unique_ptr<Port>> ports_;
    std::vector<Storage*> real_storages_;  // one for each link of a storage process
    std::vector<std::unique_ptr<SeLink>> links_;
    std::unordered_map<uint64_t, std::unique_ptr<Grant>> grants_;  // the grants of all SEs, by handle
    std::list<std::unique_ptr<Client>> clients_;
    bool clients_died_ = false;
    EngineCounters counters_;
    bool stopping_ = false, leaving_ = false;
    std::function<void()> stopped_;
    std::function<void(Status)> left_;
    Nanoseconds leave_max_{};
    reactor::Timer leave_timer_;
};

}  // namespace wss::cache
