// SPDX-License-Identifier: Apache-2.0
// Clients: the channels of initiators, and real storage on other nodes, that engines are announced to. Each
// has a handle and a token for each engine: the engine is granted both before the client is notified.
//
// It owns the clients and their handles. It calls the engines' links and the clients' sinks.
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

namespace wss::se {

// Receives notices of engines on behalf of a client.
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

class Clients {
  public:
    // `secrets`: where tokens come from; `random` if empty.
    Clients(EngineSet& engines, const cache::Index& index, Random& random,
            const std::function<uint64_t()>& secrets, Turn& turn)
        : engines_(engines), index_(index), random_(random), secrets_(secrets), turn_(turn) {}

    Client* add(std::unique_ptr<Client> client);
    void remove(Client* client);
    const std::list<std::unique_ptr<Client>>& all() const noexcept { return clients_; }
    // Every client may use the engine from now on; … it is gone.
    void introduce(EngineLink& engine) noexcept;
    void withdraw(cache::EngineIndex engine) noexcept;
    // At each tick. A client whose connection to an engine failed does not report that, and may connect some
    // day: its network is cut, its engine was too busy. A notice of the same engine ends what it has of it.
    void invite_anew() noexcept;

    // ---- Reports of engines
    void grant_known(const wire::CacheEngineNotice& notice) noexcept;
    void attached(const EngineLink& engine, uint64_t handle) noexcept;
    void detached(EngineLink& engine, uint64_t handle) noexcept;

  private:
    void introduce(Client& client, EngineLink& engine) noexcept;
    uint64_t secret() { return secrets_ ? secrets_() : random_.next(); }

    EngineSet& engines_;
    const cache::Index& index_;
    Random& random_;
    const std::function<uint64_t()>& secrets_;
    Turn& turn_;
    std::list<std::unique_ptr<Client>> clients_;
    std::unordered_map<uint64_t, std::pair<Client*, uint8_t>> handles_;  // → client, engine
};

}  // namespace wss::se
