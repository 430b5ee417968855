// SPDX-License-Identifier: Apache-2.0
// What a process needs that is one end of a connection in a test of another process (verbs_roles.cc,
// verbs_impostor.cc).
#pragma once

#include <memory>

#include "lib/fabric/open.h"

namespace wss::fabric {

struct VerbsProcess {
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Poller> poller;
    std::unique_ptr<Region> memory;

    Status start(const Address& where, size_t memory_bytes) {
        auto opened = open(where);
        if (!opened) return opened.status();
        fabric = std::move(*opened);
        auto created = fabric->create_poller();
        if (!created) return created.status();
        poller = std::move(*created);
        auto allocated = fabric->allocate(memory_bytes, Access::kLocal);
        if (!allocated) return allocated.status();
        memory = std::move(*allocated);
        return Status::ok();
    }
};

}  // namespace wss::fabric
