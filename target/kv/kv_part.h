// SPDX-License-Identifier: Apache-2.0
// KvPart: partitions of the key-value store in a target: a thread, fabrics, and a Service for each.
//
// Thread-safety: the daemon's thread. infos_json() asks the partitions' thread and waits.
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

namespace wss::kvpart {

// The rules of the options among themselves.
Status check_options(const KvOptions& options);

class KvPart {
  public:
    // Recovers what the log holds, listens, and serves.
    // `credentials` are for tls:// addresses, of clients and of other partitions.
    static Result<std::unique_ptr<KvPart>> start(const KvOptions& options,
                                                 const fabric::tls::Credentials& credentials = {});
    // Closes the connections and writes what is queued for the log.
    Status stop(uint32_t seconds);
    // Without stop(): ends as it is. What was acknowledged is in the log as far as its durability promises.
    ~KvPart();
    KvPart(const KvPart&) = delete;
    KvPart& operator=(const KvPart&) = delete;

    // "kv partition 0 of 3 on tcp://127.0.0.1:5557"
    std::string describe() const;
    // Has `answer` called on the partitions' thread, with why one of them does not serve; "": all do.
    void ask_ready(std::function<void(std::string)> answer);
    // As kv::Service says it, of each partition; empty when the thread does not answer.
    std::vector<std::string> infos_json();

  private:
    KvPart(const KvOptions& options, const fabric::tls::Credentials& credentials)
        : options_(options), credentials_(credentials) {}
    // A partition that is here.
    struct Part {
        uint32_t number = 0;
        std::unique_ptr<kv::store::RocksLog> log;
        std::unique_ptr<kv::Service> service;
    };
    std::string identity(uint32_t partition) const;   // of the data on disk
    std::string directory(uint32_t partition) const;  // of its log; "": none
    Status open();
    Status open_lanes();
    Status open_part(uint32_t number);
    Status open_log(Part& part, kv::store::Options& store);
    Status listen();

    const KvOptions options_;
    const fabric::tls::Credentials credentials_;
    SystemClock clock_;
    kv::SystemWallClock wall_;
    reactor::Reactor reactor_{clock_};
    std::vector<fabric::Address> wanted_, bound_;
    std::vector<std::unique_ptr<fabric::Fabric>> fabrics_;
    std::vector<std::shared_ptr<kv::Lane>> lanes_;
    std::vector<Part> parts_;
    std::thread thread_;
};

}  // namespace wss::kvpart
