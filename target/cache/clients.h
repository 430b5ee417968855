// SPDX-License-Identifier: Apache-2.0
// Clients: the channels of initiators, and real storage on other nodes, to which the target announces
// engines. Each client has a handle and a token for each engine. The client is notified when the engine has
// confirmed both.
//
// It owns the clients and their handles. It calls the links to engines and the clients' sinks.
//
// Thread-safety: belongs to the cache's reactor.
#pragma once

#include <array>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "lib/base/clock.h"
#include "lib/cache/index.h"
#include "target/cache/engine_set.h"
#include "target/cache/turn.h"

namespace wss::cache {

// Receives notices of engines on behalf of a client.
class ClientSink {
  public:
    virtual ~ClientSink() = default;
    virtual void notify(const wire::CacheEngineNotice& notice) noexcept = 0;
};

// An initiator's channel (or an RS), and the engines that it is connected to.
struct Client {
    ClientSink* sink = nullptr;
    std::unique_ptr<ClientSink> own_sink;  // `sink`, if the client owns it
    fabric::Scheme scheme = fabric::Scheme::kTcp;
    struct Place {
        uint64_t handle = 0;  // handle of the grant; 0: none
        bool attached = false;
        // Number of ticks without a connection to the engine, and the number after which the client is
        // invited again. The latter doubles each time.
        uint16_t ticks = 0, patience = kInviteTicks;
    };
    static constexpr uint16_t kInviteTicks = 50, kInviteTicksMax = 600;  // of 100 ms
    // Maximum number of reads whose completion may be reported late. Each occupies a receive slot of the
    // client's channel, which has more spare slots than this.
    static constexpr uint32_t kCoalescedMax = 15;
    uint32_t coalesced = 0;
    bool is_storage = false;  // a storage process (staging.h)
    std::array<Place, kEnginesMax> engines;
};

class Clients {
  public:
    // `secrets` generates tokens; `random` is used if it is empty.
    Clients(EngineSet& engines, const Index& index, Random& random, const std::function<uint64_t()>& secrets,
            Turn& turn)
        : engines_(engines), index_(index), random_(random), secrets_(secrets), turn_(turn) {}

    Client* add(std::unique_ptr<Client> client);
    void remove(Client* client);
    const std::list<std::unique_ptr<Client>>& all() const noexcept { return clients_; }
    // Grants every client access to the engine.
    void introduce(EngineLink& engine) noexcept;
    // Withdraws the access of all clients to an engine that is lost. Notifies the clients that could use it.
    void withdraw(EngineIndex engine) noexcept;
    // Called at each tick: announces engines again. A client does not report that its connection to an engine
    // failed. It may be able to connect later, for example when its network works again or the engine is less
    // busy. A new notice of the same engine replaces the client's state for it.
    void invite_anew() noexcept;

    // ---- Reports of engines
    void grant_known(const wire::CacheEngineNotice& notice) noexcept;
    void attached(const EngineLink& engine, uint64_t handle) noexcept;
    void detached(EngineLink& engine, uint64_t handle) noexcept;

  private:
    void introduce(Client& client, EngineLink& engine) noexcept;
    uint64_t secret() { return secrets_ ? secrets_() : random_.next(); }

    EngineSet& engines_;
    const Index& index_;
    Random& random_;
    const std::function<uint64_t()>& secrets_;
    Turn& turn_;
    std::list<std::unique_ptr<Client>> clients_;
    std::unordered_map<uint64_t, std::pair<Client*, uint8_t>> handles_;  // → client, engine
};

}  // namespace wss::cache
