// SPDX-License-Identifier: Apache-2.0
// A store of several partitions in this process, each on its own thread, over a real fabric.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/kv/client/client.h"
#include "lib/kv/service/service.h"

namespace wss::kv::test {

// With "tls", the partitions have the name "p", and know the clients "alice", "bob" and "carol".
NamedSecret secret_of(const std::string& name);
fabric::tls::Credentials credentials_of(const std::string& name);

class Cluster {
  public:
    struct Options {
        uint32_t partitions = 3;
        std::string scheme = "shm";  // or "tcp", "tls"
        uint64_t arena_bytes = 16u << 20;
        Nanoseconds window = from_s(5);
        Nanoseconds terminate_after = from_ms(200);
        Nanoseconds decision_window = from_s(60);
        std::vector<store::Log*> logs = {};         // one for each partition, which then writes synchronously
        std::vector<int64_t> clocks_ahead_us = {};  // offset of each partition's wall clock
        uint32_t prepared_max = 1u << 16;
        uint64_t heap_limit = UINT64_MAX;
        std::vector<std::string> access = {};  // rules, with "tls"; none: every client may do everything
        std::string snapshots = {};            // directory; that of partition 0 is below its directory "0"
    };
    explicit Cluster(Options options);
    Cluster() : Cluster(Options()) {}
    ~Cluster();

    const std::vector<std::string>& addresses() const { return addresses_; }
    // With "tls", these are the options of the client `name`.
    kv::Options client_options(const std::string& name = {}) const {
        kv::Options options;
        options.partitions = addresses_;
        if (!name.empty()) options.identity = secret_of(name);
        return options;
    }
    // Replaces the rules of every partition; requires "tls".
    void set_access(const std::vector<std::string>& rules);
    // Stops the partition and closes its connections. `before` runs while the partition stands still, before
    // it stops.
    void stop(uint32_t partition, const std::function<void()>& before = {});
    void start(uint32_t partition);  // the partition is empty unless it has a log
    // Ends the partition's thread and destroys the service without stopping it.
    void abandon(uint32_t partition);
    // Runs on the partition's thread.
    void on(uint32_t partition, const std::function<void(Service&)>& task);
    ServiceCounters counters(uint32_t partition);
    // Steps the partition's wall clock to `ahead_us` ahead of the right time.
    void step_clock(uint32_t partition, int64_t ahead_us);
    // Moves the partition's monotonic clock forward.
    void pass(uint32_t partition, Nanoseconds time);

  private:
    struct Node;
    Options options_;
    std::vector<std::string> addresses_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

// The wall clock of a host whose clock is wrong.
class WrongWallClock final : public WallClock {
  public:
    explicit WrongWallClock(int64_t ahead_us) : ahead_us_(ahead_us) {}
    uint64_t unix_us() noexcept override {
        return right_.unix_us() + static_cast<uint64_t>(ahead_us_.load());
    }
    void step(int64_t ahead_us) { ahead_us_ = ahead_us; }

  private:
    SystemWallClock right_;
    std::atomic<int64_t> ahead_us_;
};

// Returns a key of partition `partition` of `partitions`.
std::string key_on(uint32_t partition, uint32_t partitions);

// Short forms of common writes and reads.
Status put(LocalClient& client, const std::vector<std::pair<std::string, std::string>>& items);
std::vector<std::string> get(LocalClient& client, const std::vector<std::string>& keys);

}  // namespace wss::kv::test
