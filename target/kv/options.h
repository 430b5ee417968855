// SPDX-License-Identifier: Apache-2.0
// What the key-value part of a target can be told.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wss::kvpart {

struct KvOptions {
    std::vector<std::string> listen;  // fabric URIs; empty: no key-value service
    std::vector<std::string> map;     // URIs of all partitions, in order; empty: this is the only one
    uint32_t partition = 0;           // which of them this is: the first, if there are several
    uint32_t partitions = 1;          // of them here, on one thread: `listen` has one address for each then
    uint64_t memory = uint64_t{256} << 20;  // of the arena: keys, values, and what finds them
    uint64_t index_memory = UINT64_MAX;     // of what finds keys, beside the arena
    std::string durability = "memory";      // or "async", "sync"
    std::string directory;                  // of the log; needed unless durability is "memory"
    uint32_t window_ms = 5000;              // how long superseded versions are kept, and reads may take
    std::string secrets;           // file of NAME:SECRET lines: whose keys tls:// takes; "": any client
    uint32_t terminate_ms = 1000;  // when the partitions decide what a client left undecided
};

}  // namespace wss::kvpart
