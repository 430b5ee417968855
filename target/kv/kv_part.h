// SPDX-License-Identifier: Apache-2.0
// KvPart: the partitions of the key-value store in a target, with their thread, their fabrics, and a Service
// for each partition.
//
// Thread-safety: any thread may call ask_ready() and infos_json(). The rest belongs to the daemon's thread.
// infos_json() and set_access() wait for an answer of the partitions' thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/fabric.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/kv/service/service.h"
#include "lib/kv/store/rocks_log.h"
#include "target/kv/options.h"

namespace wss::kv {

// Checks the options, each alone and in combination.
Status check_options(const KvOptions& options);

class KvPart {
  public:
    // Recovers from the log, listens, and serves. `credentials`: those of clients and of other partitions,
    // for tls:// addresses.
    static Result<std::unique_ptr<KvPart>> start(const KvOptions& options,
                                                 const fabric::tls::Credentials& credentials = {},
                                                 std::shared_ptr<const AccessRules> access = nullptr);
    // Replaces the rights of the clients. Returns when they apply.
    Status set_access(std::shared_ptr<const AccessRules> access);
    bool restricts() const { return access_ != nullptr; }
    // Closes the connections and writes the queued entries of the log.
    Status stop(uint32_t seconds);
    // Without stop(), it ends at once. Acknowledged writes are then in the log as far as the durability
    // promises.
    ~KvPart();
    KvPart(const KvPart&) = delete;
    KvPart& operator=(const KvPart&) = delete;

    // "kv partition 0 of 3 on tcp://127.0.0.1:5557"
    std::string describe() const;
    // Calls `answer` on the partitions' thread with the reason why a partition is not ready, or "" if all
    // are.
    void ask_ready(std::function<void(std::string)> answer);
    // Service::info_json() of each partition; empty if the thread does not answer in time.
    std::vector<std::string> infos_json();

  private:
    KvPart(const KvOptions& options, const fabric::tls::Credentials& credentials,
           std::shared_ptr<const AccessRules> access)
        : options_(options), credentials_(credentials), access_(std::move(access)) {}
    // A partition in this target.
    struct Part {
        uint32_t number = 0;
        std::unique_ptr<store::RocksLog> log;
        std::unique_ptr<Service> service;
    };
    std::string identity(uint32_t partition) const;   // identity of the data on disk
    std::string directory(uint32_t partition) const;  // directory of its log; "": none
    Status check_layout() const;
    Status open();
    Status open_lanes();
    Status open_part(uint32_t number);
    Status open_log(Part& part, store::Options& store);
    Status listen();

    const KvOptions options_;
    const fabric::tls::Credentials credentials_;
    std::shared_ptr<const AccessRules> access_;  // nullptr: every client may do everything
    SystemClock clock_;
    SystemWallClock wall_;
    reactor::Reactor reactor_{clock_};
    std::vector<fabric::Address> wanted_, bound_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<std::shared_ptr<Lane>> lanes_;
    std::vector<Part> parts_;
    std::thread thread_;
};

}  // namespace wss::kv
