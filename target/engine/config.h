// SPDX-License-Identifier: Apache-2.0
// The configuration of wss-cache: a TOML file, and options of the same names.
// Documentation/examples/wss-cache.toml is the commented reference; a test parses it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"
#include "lib/fabric/tls/credentials.h"
#include "target/volume/options.h"

namespace wss::engine {

struct EngineConfig {
    std::vector<std::string> join;       // addresses of storage engines
    std::vector<std::string> listen;     // addresses for clients
    std::vector<std::string> advertise;  // addresses that are sent to clients, in the order of `listen`; "":
                                         // the one in `listen`
    uint64_t memory = 1u << 30;
    std::vector<volume::VolumeOptions> volumes;  // if there are any, this process is real storage of the
                                                 // target in `join`, and not a cache
    std::string control;                         // "": none
    std::string http;                            // "[HOST:]PORT"; "": none
    std::string secret_file;  // NAME:SECRET of this process; "": no authentication on either side
    fabric::tls::Files tls;   // for every tls:// address
    uint32_t leave_seconds = 30;
    std::string log_level = "info";
};

constexpr uint32_t kLeaveSecondsMax = 3600;
constexpr uint16_t kEnginePort = 5557;  // the default port at which clients connect

// Fill `config`, whose values are the defaults. After an error it is partly filled and must be discarded.
Status read_engine_config(const std::string& path, EngineConfig& config);
Status parse_engine_config(std::string_view text, const std::string& path, EngineConfig& config);

// Checks the values against each other, after options were applied.
Status check_engine_config(const EngineConfig& config);

}  // namespace wss::engine
