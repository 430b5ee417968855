// SPDX-License-Identifier: Apache-2.0
// Real storage on another node as a client of the engines. For target/cache only.
#pragma once

#include "target/cache/bays.h"
#include "target/cache/cache.h"

namespace wss::se {

// Real storage that has bays, from storage_ready() to engine_over().
struct Cache::Reached final : ClientSink {
    Reached(Cache& of, const EngineLink& link)
        : cache(of),
          storage(link.index()),
          incarnation(link.identity().incarnation),
          bays(link.bays(), storage, incarnation) {}

    void tell(const wire::CacheEngineNotice& notice) noexcept override {
        EngineLink* link = cache.link(storage);
        if (link == nullptr) return;
        if (notice.added) bays.named(notice.handle);
        link->name_engine(notice);
    }

    Cache& cache;
    const cache::EngineIndex storage;
    const uint32_t incarnation;
    Bays bays;
    Client* client = nullptr;
};

}  // namespace wss::se
