// SPDX-License-Identifier: Apache-2.0
// A store of several partitions in this process, each on a thread of its own, over a real fabric.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/kv/client.h"
#include "lib/kv/service.h"

namespace wss::kv::test {

class Cluster {
  public:
    struct Options {
        uint32_t partitions = 3;
        std::string scheme = "shm";  // or "tcp"
        uint64_t arena_bytes = 16u << 20;
        Nanoseconds window = from_s(5);
        Nanoseconds terminate_after = from_ms(200);
        Nanoseconds decision_window = from_s(60);
        std::vector<store::Log*> logs = {};  // one for each partition, which then writes synchronously
    };
    explicit Cluster(Options options);
    Cluster() : Cluster(Options()) {}
    ~Cluster();

    const std::vector<std::string>& addresses() const { return addresses_; }
    kv::Options client_options() const {
        kv::Options options;
        options.partitions = addresses_;
        return options;
    }
    void stop(uint32_t partition);   // its connections end
    void start(uint32_t partition);  // empty again: nothing is durable here
    // Runs on the partition's thread.
    void on(uint32_t partition, const std::function<void(Service&)>& task);
    ServiceCounters counters(uint32_t partition);

  private:
    struct Node;
    Options options_;
    std::vector<std::string> addresses_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

// What the tests write again and again.
Status put(LocalClient& client, const std::vector<std::pair<std::string, std::string>>& items);
std::vector<std::string> get(LocalClient& client, const std::vector<std::string>& keys);

}  // namespace wss::kv::test
