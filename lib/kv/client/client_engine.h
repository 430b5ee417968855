// SPDX-License-Identifier: Apache-2.0
// Engine: the reactor, fabric, lane and sessions of one client thread. Client and LocalClient use it.
//
// Thread-safety: none; open() may run in another thread before the first turn of the reactor.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "lib/fabric/open.h"
#include "lib/kv/client/session.h"

namespace wss::kv {

// Everything a session needs, in order of construction.
struct Engine {
    static constexpr Nanoseconds kCloseLimit = from_s(10);

    SystemClock clock;
    SystemWallClock wall;
    reactor::Reactor reactor{clock};
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<Lane> lane;
    std::vector<std::unique_ptr<ClientSession>> sessions;

    Status open(const Options& options) {
        if (options.partitions.empty())
            return Status(Code::kInvalid, "the address of a partition is missing");
        WSS_TRY(reactor.ready());
        auto address = fabric::Address::parse(options.partitions[0], kDefaultPort);
        if (!address) return address.status();
        auto opened =
            fabric::open(*address, {.files = options.tls, .identity = options.identity, .known = {}});
        if (!opened) return opened.status();
        fabric = std::move(*opened);
        auto made = Lane::create(reactor, *fabric);
        if (!made) return made.status();
        lane = std::move(*made);
        for (uint32_t i = 0; i < std::max(options.sessions, 1u); ++i)
            sessions.push_back(std::make_unique<ClientSession>(*lane, wall, Random::entropy(), options));
        return Status::ok();
    }
    // Call it on the reactor's thread. If it returns false, the connections did not end in time, and the
    // engine must be leaked (leak()).
    bool shut() {
        auto closed = [this] {
            return std::all_of(sessions.begin(), sessions.end(),
                               [](const auto& one) { return one->closed(); });
        };
        for (auto& session : sessions) session->close();
        Nanoseconds limit = clock.now() + kCloseLimit;
        while (!closed() && clock.now() < limit) reactor.step();
        if (!closed()) return false;
        sessions.clear();
        return true;
    }
};

// Keeps the engine until the process ends: a device may still write to its memory.
void leak(std::unique_ptr<Engine> engine);

}  // namespace wss::kv
