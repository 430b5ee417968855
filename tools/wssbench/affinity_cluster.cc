// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/affinity_cluster.h"

namespace wss::wssbench {

Result<std::unique_ptr<NodeCluster>> NodeCluster::start(const ClusterOptions& options,
                                                        const Settings& settings, const Storage& storage) {
    std::unique_ptr<NodeCluster> cluster(new NodeCluster(options));
    for (uint32_t node = 0; node < options.nodes; ++node) {
        auto own = listen_at("shm", settings, storage), others = listen_at(options.fabric, settings, storage);
        if (!own) return own.status();
        if (!others) return others.status();
        // The address that Program returns is the first one. The address of shm needs no port, so it is
        // known.
        auto target = Program::start({"wss-target", "--listen", *others, "--listen", *own, "--volume",
                                      "bench=" + options.backends[node], "--reactors", "1", "--control", "",
                                      "--auth-off", "--log-level", "warning"});
        if (!target) return target.status();
        cluster->own_addresses_.push_back(*own);
        cluster->targets_.push_back(std::move(*target));
    }
    return cluster;
}

std::vector<std::string> NodeCluster::addresses_for(uint32_t node) const {
    std::vector<std::string> addresses;
    for (uint32_t to = 0; to < options_.nodes; ++to)
        addresses.push_back(to == node ? own_addresses_[to] : targets_[to]->address());
    return addresses;
}

Result<Sample> NodeCluster::run(Work& work, const Window& window, const Settings& settings) const {
    StartingLine line;
    LoadThreads threads;
    std::vector<const NodeLoad*> nodes;
    for (uint32_t number = 0; number < options_.nodes; ++number) {
        auto node = NodeLoad::create({.node = number,
                                      .workers = options_.workers,
                                      .bytes = options_.bytes,
                                      .addresses = addresses_for(number)},
                                     work, line);
        if (!node) return node.status();
        nodes.push_back(node->get());
        threads.push_back(std::move(*node));
    }
    std::vector<const Program*> servers;
    for (const auto& target : targets_) servers.push_back(target.get());
    auto sample = measure_threads(threads, window, settings, servers);
    if (!sample) return sample;
    double all = 0, remote = 0;
    for (const NodeLoad* node : nodes) {
        all += static_cast<double>(node->operations());
        remote += static_cast<double>(node->remote_accesses());
    }
    sample->more["remote_percent"] = 100 * remote / all;
    // All nodes share this machine. If they keep its processors busy, they slow each other down.
    double busy = (sample->client_cpu_us + sample->server_cpu_us) * 1e-6 * sample->rate;
    sample->more["processor_percent"] = 100 * busy / static_cast<double>(processors().size());
    return sample;
}

std::span<const NodeAccess> QueryWork::next(uint32_t node, uint32_t worker) {
    std::lock_guard lock(m_);
    uint32_t& running = running_[node * workers_ + worker];
    if (running != affinity::Schedule::kNone) schedule_.ended(running);
    running = schedule_.take(node, seconds_now());
    if (running == affinity::Schedule::kNone) return {};
    return operators_[running];
}

}  // namespace wss::wssbench
