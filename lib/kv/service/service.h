// SPDX-License-Identifier: Apache-2.0
// Service: the server of one partition of the key-value store.
//
//   connections ─▶ Peer ─▶ handler of the message's kind ─▶ store ─┬▶ reply at once
//                                                                  └▶ reply after the log or the disk
//
// The handlers: Greeter (hello, goodbye), Reads, Scans, Writes, Locks, Snapshots. Terminations decides
// transactions that clients left undecided. They share the Partition. Service owns all of them and the
// connections.
//
// Client ids. Every partition leases ids from its own range (lease_table.h). A client presents its id and its
// nonce to every partition. A partition refuses an id that another nonce uses, or used until recently. It
// also refuses a prepare whose timestamp carries a different id from the connection's. So no two clients can
// create the same timestamp.
//
// Life: create() → listen() or connect_requested() → destroyed, while the reactor is not in a turn. Calling
// stop(done) before that ends the connections while the reactor runs; otherwise the destructor does. The
// store's recovery runs in create(). Prepared transactions that it found are terminated before `ready`,
// within a time limit (terminations.cc); until then writes and reads of clients are answered with kNotReady.
//
// Thread-safety: none, not even for info_json(); belongs to one reactor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/kv/service/access.h"
#include "lib/kv/service/connection_places.h"
#include "lib/kv/service/greeter.h"
#include "lib/kv/service/locks.h"
#include "lib/kv/service/reads.h"
#include "lib/kv/service/scans.h"
#include "lib/kv/service/snapshots.h"
#include "lib/kv/service/terminations.h"
#include "lib/kv/service/writes.h"

namespace wss::kv {

class Service final : public fabric::ListenHandler, public PeerHandler {
  public:
    // Each of `fabrics` gets one lane. `log` is that of the store, and may be nullptr.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   const std::vector<fabric::Fabric*>& fabrics,
                                                   WallClock& wall, store::Log* log, ServiceOptions options);
    // The same, with lanes that several partitions of this reactor share.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
                                                   store::Log* log, ServiceOptions options);
    ~Service() override;

    Result<fabric::Address> listen(size_t fabric_index, const fabric::Address& address);
    // A connect request for this service that another listener received.
    void connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request);
    static bool is_ours(wire::Bytes connect_data);

    // Replaces the rights of all clients, from their next requests on. Call it on the reactor's thread.
    void set_access(std::shared_ptr<const AccessRules> rules);
    // Closes everything; `done` is called when the last connection has ended.
    void stop(std::function<void()> done);
    bool stopped() const;
    bool ready() const { return partition_.ready(); }

    const ServiceCounters& counters() const { return partition_.counters(); }
    const ConnectionPlaces::Counters& connections() const { return places_.counters(); }
    store::Store& store() { return partition_.store(); }
    std::string info_json() const;
    const SlowLog& slow_log() const { return partition_.slow_log(); }

  private:
    class Port;

    Service(reactor::Reactor& reactor, std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
            ServiceOptions options);
    Status open(store::Log* log);
    void accept(size_t lane, fabric::ConnectRequest& request);
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override;
    void peer_gone(Peer& peer) noexcept override;
    void message_arrived(Peer& peer, wire::Bytes message) noexcept override;
    void dispatch(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void count_one_sided(wire::Bytes message);
    static void on_tick(void* self) noexcept;
    void tick();

    const std::vector<std::shared_ptr<Lane>> lanes_;
    RegisteredArena arena_;
    Partition partition_;
    Access access_;
    Terminations terminations_;
    Greeter greeter_;
    DiskShare disk_;
    Reads reads_;
    Scans scans_;
    Locks locks_;
    Writes writes_;
    Snapshots snapshots_;
    reactor::Timer timer_;
    bool stopping_ = false;
    std::function<void()> stopped_done_;
    std::vector<std::unique_ptr<Peer>> peers_;
    std::vector<std::unique_ptr<Port>> ports_;
    ConnectionPlaces places_;
};

}  // namespace wss::kv
