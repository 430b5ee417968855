// SPDX-License-Identifier: Apache-2.0
// Options of the key-value part of a target.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wss::kv {

struct KvOptions {
    std::vector<std::string> listen;        // fabric URIs; empty: no key-value service
    std::vector<std::string> map;           // URIs of all partitions, in order; empty: this is the only one
    uint32_t partition = 0;                 // index of this target's first partition
    uint32_t partitions = 1;                // partitions in this process, which share one thread; each has
                                            // its own address
    uint64_t memory = uint64_t{256} << 20;  // size of the arena for keys, values and slots, per partition
    uint64_t index_memory = UINT64_MAX;     // limit of the memory outside the arena (key lookup, decisions),
                                            // per partition
    std::string durability = "memory";      // or "async", "sync"
    std::string directory;                  // directory of the log; needed unless durability is "memory"
    uint32_t window_ms = 5000;              // how long superseded versions stay readable
    std::string secrets;                    // file of NAME:SECRET lines, one for each client that tls://
                                            // accepts; "": any client
    // Rules of AccessRules, from the configuration file and from --kv-access. A reload reads the file again.
    std::vector<std::string> access, access_options;
    uint32_t terminate_ms = 1000;  // after this time the partitions decide a transaction
};

}  // namespace wss::kv
