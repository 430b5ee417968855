// SPDX-License-Identifier: Apache-2.0
// What wss-target can be told, by a TOML file and by options of the same names.
// Documentation/examples/wss-target.toml is the commented reference; a test reads it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/paths.h"
#include "lib/base/status.h"
#include "target/volume/options.h"

namespace wss::control {

struct TargetConfig {
    std::vector<std::string> listen;               // fabric URIs, "rdma://0.0.0.0:5555"
    uint32_t reactors = 0;                         // 0: as many as the machine makes sensible
    std::string control = default_control_path();  // "": no control socket
    std::string state;                             // "": nothing is remembered
    std::string log_level = "info";
    uint32_t drain_seconds = 30;                 // how long shutdown waits for I/O in flight
    std::vector<volume::VolumeOptions> volumes;  // all `declared`
};

constexpr uint32_t kReactorsMax = 64;
constexpr uint32_t kDrainSecondsMax = 3600;

// Fills `config`, whose values are the defaults. Checks each value, not what several have to do with each
// other: options may still change it.
Status read_target_config(const std::string& path, TargetConfig& config);
Status parse_target_config(std::string_view text, const std::string& path, TargetConfig& config);

// The cross-field rules, after options were applied.
Status check_target_config(const TargetConfig& config);

// "NAME=BACKEND[,size=SIZE][,block=512|4096][,ro][,create]", the form of --volume.
Result<volume::VolumeOptions> parse_volume_option(std::string_view text);

}  // namespace wss::control
