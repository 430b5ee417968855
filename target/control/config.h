// SPDX-License-Identifier: Apache-2.0
// The configuration of wss-target, from a TOML file and from options of the same names.
// Documentation/examples/wss-target.toml is the commented reference; a test parses it.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/paths.h"
#include "lib/base/status.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/kv/service/access_rules.h"
#include "target/kv/options.h"
#include "target/volume/options.h"

namespace wss {
class ConfigSchema;
}

namespace wss::control {

struct TargetConfig {
    std::string file;                              // the file that was read for this configuration; "": none
    std::string role = "block";                    // or "kv", "rs"
    std::vector<std::string> listen;               // fabric URIs, "rdma://0.0.0.0:5555"
    uint32_t reactors = 0;                         // 0: one for each of `cpus`, or a default for this machine
    std::string cpus;                              // "2,4-7": where reactors run; "": anywhere
    std::string control = default_control_path();  // "": no control socket
    std::string state;                             // path of the state file; "": there is none, and nothing
                                                   // is kept
    std::string name;       // name of the target, which it proves to peers with a secret; "": the host name
    std::string secrets;    // file of NAME:SECRET lines; "": no authentication
    bool auth_off = false;  // authentication is off on purpose: the warning says so
    std::vector<std::string> auth_v1;  // names in both files of secrets that may use version 1 of the proofs
    fabric::tls::Files tls;            // for every tls:// address
    bool tls_kernel = false;           // the kernel encrypts what is sent on tls:// addresses of `listen`
    std::string http;                  // [HOST:]PORT of the API, metrics and health; "": none
    std::string log_level = "info";
    std::vector<std::string> cache_listen;       // addresses at which cache engines join; empty: no cache
    std::string cache_secrets;                   // like `secrets`, but of cache engines; "": any engine may
                                                 // join
    bool cache_auth_off = false;                 // authentication of engines is off on purpose
    uint64_t cache_line = 64 * 1024;             // bytes
    uint64_t cache_read_ahead = 2 << 20;         // bytes, of a sequential reader; 0: none
    std::string cache_policy = "write-through";  // policy of volumes for which wssctl set none
    uint32_t cache_grace = 15;                   // seconds that commands wait for engines that are away
    uint32_t drain_seconds = 30;                 // how long shutdown waits for I/O in flight
    std::string join;                            // role "rs": the target that serves the volumes stored here
    std::vector<std::string> advertise;          // ... addresses for clients, instead of `listen`
    std::string secret_file;  // this process's NAME:SECRET line, for `join` or for other partitions
    kv::KvOptions kv;
    std::vector<volume::VolumeOptions> volumes;  // all `declared`
};

constexpr uint16_t kCachePort = 5556;  // the default port at which cache engines join
constexpr uint64_t kReadAheadMax = 64 << 20;
constexpr uint32_t kCacheGraceMax = 600;  // seconds
constexpr uint32_t kReactorsMax = 64;
constexpr uint32_t kDrainSecondsMax = 3600;

// Overwrites the defaults in `config`. Checks each value on its own. Options may change values later, so
// check_target_config() checks values against each other.
Status read_target_config(const std::string& path, TargetConfig& config);
Status parse_target_config(std::string_view text, const std::string& path, TargetConfig& config);

// Checks the values against each other, after options were applied.
Status check_target_config(const TargetConfig& config);
// Checks volumes without opening them.
Status check_volumes(const std::vector<volume::VolumeOptions>& volumes);

// The rights of the clients of the key-value store. Without rules, every client may do everything. The second
// function reads the rules from the file as it is now.
Result<kv::AccessRules> kv_access(const TargetConfig& config);
Result<kv::AccessRules> read_kv_access(const TargetConfig& config);

// Refuses settings of another role. Otherwise an operator might configure a secret or an access list that has
// no effect.
Status check_role(const TargetConfig& config);

// The settings tls_cert, tls_key, tls_ca and tls_client_ca.
void describe_tls(ConfigSchema& schema, fabric::tls::Files& files);
// Checks that the files are consistent, and that at least one address uses them.
Status check_tls(const fabric::tls::Files& files, std::initializer_list<std::span<const std::string>> uris);
// Whether every client of `uris` must present a certificate issued by --tls-client-ca, or prove possession
// of a secret.
bool admits_by_certificate(const fabric::tls::Files& files, std::span<const std::string> uris);
Status check_log_level(const std::string& level);

// "NAME=BACKEND[,size=SIZE][,block=512|4096][,ro][,create][,iops=N][,bandwidth=SIZE]", the form of --volume.
Result<volume::VolumeOptions> parse_volume_option(std::string_view text);

// "VOLUME:INITIATOR=rw|ro|none", the form of --access, for a volume of `config`.
Status apply_access_rule(std::string_view text, TargetConfig& config);

}  // namespace wss::control
