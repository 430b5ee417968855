// SPDX-License-Identifier: Apache-2.0
// Service: one partition of the key-value store, as a server. Messages in, store, messages out.
//
//   connections ─▶ Peer ─▶ handler of the message's kind ─▶ store ─┬▶ reply at once
//                                                                  └▶ reply when the log or the disk has
//                                                                  answered
//
// The handlers: Greeter (hello, goodbye), Reads, Scans, Writes, Locks, Snapshots; Terminations decides what
// clients left undecided. What they share is the Partition. Service owns all of them and the connections.
//
// Client ids. Every partition leases those of its range (lease_table.h); a client shows its id and its nonce
// to every partition. An id that is in use, or was lately, by another nonce is refused, and so is a prepare
// whose timestamp carries an id that is not the connection's: no two clients can make the same timestamp.
//
// Life: create() → listen() or connect_requested(), → destroyed, when the reactor is in none of its turns.
// stop(done) before that ends the connections while the reactor runs; without it the destructor does. The
// store's recovery happens in create(); prepared transactions that it found are terminated before `ready`:
// until then writes and reads of clients are answered kNotReady.
//
// Thread-safety: none; belongs to one reactor. info_json() too.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

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
    // `fabrics`: one lane each. `log`: the store's; may be nullptr.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   const std::vector<fabric::Fabric*>& fabrics,
                                                   WallClock& wall, store::Log* log, ServiceOptions options);
    // The same over lanes that several partitions of this reactor share.
    static Result<std::unique_ptr<Service>> create(reactor::Reactor& reactor,
                                                   std::vector<std::shared_ptr<Lane>> lanes, WallClock& wall,
                                                   store::Log* log, ServiceOptions options);
    ~Service() override;

    Result<fabric::Address> listen(size_t fabric_index, const fabric::Address& address);
    // A connect request of ours that somebody else's listener took.
    void connect_requested(size_t fabric_index, std::unique_ptr<fabric::ConnectRequest> request);
    static bool is_ours(wire::Bytes connect_data);

    // Closes everything; `done` when the last connection is over.
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
