// SPDX-License-Identifier: Apache-2.0
// Nodes of the figure `affinity`. Each has a wss-target for its storage, and a thread for its operators
// (affinity_node.h). A node reaches its own storage over shm and that of the others over another fabric.
#pragma once

#include "lib/affinity/schedule.h"
#include "tools/wssbench/affinity_node.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

struct ClusterOptions {
    uint32_t nodes = 4, workers = 2;
    uint32_t bytes = 16384;  // length of the longest access
    std::string fabric = "tcp";
    std::vector<std::string> backends;  // the backend of each node, as in wss-target --volume
};

class NodeCluster {
  public:
    // Starts the targets.
    static Result<std::unique_ptr<NodeCluster>> start(const ClusterOptions& options, const Settings& settings,
                                                      const Storage& storage);
    // Runs `work` on all nodes. The sample also has "remote_percent", and "processor_percent" for this
    // machine.
    Result<Sample> run(Work& work, const Window& window, const Settings& settings) const;

  private:
    explicit NodeCluster(const ClusterOptions& options) : options_(options) {}
    std::vector<std::string> addresses_for(uint32_t node) const;

    const ClusterOptions options_;
    std::vector<std::string> own_addresses_;  // by node
    Programs targets_;
};

// Repeats the same accesses, which differ by node, to measure rates.
class RepeatedWork final : public Work {
  public:
    explicit RepeatedWork(std::vector<std::vector<NodeAccess>> by_node) : by_node_(std::move(by_node)) {}
    std::span<const NodeAccess> next(uint32_t node, uint32_t) override { return by_node_[node]; }

  private:
    const std::vector<std::vector<NodeAccess>> by_node_;
};

// Runs the operators of a query, each once, on the nodes that a schedule chooses.
class QueryWork final : public Work {
  public:
    // `operators`: the accesses of the operators in `schedule`. They must outlive this object.
    QueryWork(const std::vector<std::vector<NodeAccess>>& operators, affinity::Schedule schedule,
              const ClusterOptions& options)
        : operators_(operators),
          schedule_(std::move(schedule)),
          workers_(options.workers),
          running_(size_t{options.nodes} * options.workers, affinity::Schedule::kNone) {}
    std::span<const NodeAccess> next(uint32_t node, uint32_t worker) override;

  private:
    const std::vector<std::vector<NodeAccess>>& operators_;
    std::mutex m_;
    affinity::Schedule schedule_;  // guarded by m_
    const size_t workers_;
    std::vector<uint32_t> running_;  // running operators by node and worker; guarded by m_
};

}  // namespace wss::wssbench
