// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/kv.h"

#include <fmt/format.h>

#include <vector>

#include "tests/sim/scenarios/kv_nodes.h"

namespace wss::sim {

namespace {

constexpr Nanoseconds kInjectorTurn = from_ms(10);
constexpr Nanoseconds kFaultPhaseMax = from_s(200);
constexpr Nanoseconds kHealedLimit = from_s(60);
// The client that replaces a killed one opens new sessions of the checker, which supports 4096 sessions.
constexpr uint64_t kKillsMax = 60;
// A frame stays in the ring of a sleeping node until the wake-up message arrives, which follows the writer's
// earlier messages. kLooksAsleep looks take longer than that, but less time than the ticks that wake every
// node. A node that still sleeps was not woken.
constexpr Nanoseconds kLookForSleepers = from_us(100);
constexpr uint32_t kLooksAsleep = 15;

// Processes of nodes that lost power: see scenarios/block.cc.
template <typename What>
void retire(std::unique_ptr<What> what) {
    static auto* retired = new std::vector<std::unique_ptr<What>>;
    if (what) retired->push_back(std::move(what));
}

}  // namespace

KvOptions KvOptions::draw(uint64_t seed) {
    Random random(seed ^ 0x6b76);
    KvOptions options;
    options.seed = seed;
    options.partitions = 1 + static_cast<uint32_t>(random.below(4));
    options.clients = 1 + static_cast<uint32_t>(random.below(4));
    options.depth = 1 + static_cast<uint32_t>(random.below(4));
    options.keys = 4 + static_cast<uint32_t>(random.below(40));
    options.keys_per_transaction = 2 + static_cast<uint32_t>(random.below(6));
    options.write_percent = 10 + static_cast<uint32_t>(random.below(80));
    options.algorithm = static_cast<kv::Algorithm>(random.below(3));
    if (random.chance(12)) options.algorithm = static_cast<kv::Algorithm>(3 + random.below(3));
    options.transport = random.chance(3) ? kv::Transport::kRing : kv::Transport::kMessage;
    options.one_sided = static_cast<kv::OneSided>(random.below(3));
    options.skew_ms = random.chance(2) ? 10'000 : 5;
    options.cut_one_in = random.chance(2) ? 15 + static_cast<uint32_t>(random.below(100)) : 0;
    options.crash_one_in = random.chance(2) ? 20 + static_cast<uint32_t>(random.below(200)) : 0;
    options.kill_one_in = random.chance(2) ? 20 + static_cast<uint32_t>(random.below(100)) : 0;
    options.half_one_in = random.chance(2) ? 5 + static_cast<uint32_t>(random.below(40)) : 0;
    options.arena_bytes = random.chance(4) ? 1u << 20 : 4u << 20;
    options.value_bytes = random.chance(4) ? 6000 : 200;
    options.network.slow_one_in = 300;
    options.network.break_one_in = 2000;
    options.network.refuse_one_in = 4;
    // Drawn last, so that older options keep their values for each seed.
    options.network.direct = random.chance(3);
    options.network.indirect_one_in = 40;
    options.sleep = random.chance(2);
    if (options.transport == kv::Transport::kRing && random.chance(3))
        options.transport = kv::Transport::kRingAnnounced;
    options.fail_log_one_in = random.chance(3) ? 100 + static_cast<uint32_t>(random.below(200)) : 0;
    options.conditional_percent = random.chance(2) ? 10 + static_cast<uint32_t>(random.below(40)) : 0;
    options.mixed = options.algorithm != kv::Algorithm::kNone && random.chance(3);
    if (random.chance(2)) options.address_cache = 0;
    return options;
}

kv::Algorithm KvOptions::algorithm_of(uint32_t client) const {
    if (!mixed || client % 2 == 0) return algorithm;
    return client % 4 == 1 ? kv::Algorithm::kLockParallel : kv::Algorithm::kLockSequential;
}

std::string KvOptions::to_string() const {
    return fmt::format(
        "kv seed {}: {}{} over {}, one-sided {}{}; {} partitions, {} clients, depth {}, {} keys, {} of them "
        "each, {} % "
        "writes of {} bytes, {} % of them conditional, arena {} KiB; skew {} ms, cut 1/{}, crash 1/{}, log "
        "fails "
        "1/{}, kill 1/{}, half 1/{}{}{}",
        seed, kv::to_string(algorithm), mixed ? " and locking" : "", kv::to_string(transport),
        kv::to_string(one_sided), address_cache == 0 ? " by the index" : "", partitions, clients, depth, keys,
        keys_per_transaction, write_percent, value_bytes, conditional_percent, arena_bytes / 1024, skew_ms,
        cut_one_in, crash_one_in, fail_log_one_in, kill_one_in, half_one_in,
        network.direct ? "; direct memory access" : "", sleep ? "; idle nodes sleep" : "");
}

std::string KvResult::to_string() const {
    return fmt::format(
        "{}: {} reads ({} in two rounds, {} keys one-sided), {} writes ({} conditions held, {} did not), {} "
        "failed, {} unknown; {} crashes, {} failed logs, {} clients killed, {} cuts, {} terminated; trace "
        "{:016x}",
        failure.empty() ? "held" : "FAILED: " + failure, reads, second_rounds, one_sided, writes,
        conditions_won, conditions_lost, failed, unknown, crashes, log_failures, kills, cuts, terminated,
        trace);
}

namespace {

class KvRun {
  public:
    explicit KvRun(const KvOptions& options) : options_(options), world_(options.seed), shared_(options_) {
        for (uint32_t i = 0; i < options.partitions; ++i) {
            partition_nodes_.push_back(&add_node(fmt::format("part{}", i)));
            map_.push_back(fmt::format("sim://part{}", i));
            logs_.push_back(std::make_unique<kv::store::MemoryLog>());
        }
        for (uint32_t i = 0; i < options.clients; ++i)
            client_nodes_.push_back(&add_node(fmt::format("client{}", i)));
        partitions_.resize(options.partitions);
        log_failed_.resize(options.partitions);
        clients_.resize(options.clients);
    }

    KvResult run() {
        for (uint32_t i = 0; i < options_.partitions; ++i) start_partition(i);
        for (uint32_t i = 0; i < options_.clients; ++i) start_client(i);
        phase_of_faults();
        heal();
        if (shared_.failure.empty()) phase_of_progress();
        if (shared_.failure.empty()) shut_down();
        check_end();
        abandon();
        result_.failure = shared_.failure;
        result_.trace = world_.trace();
        result_.reads = shared_.reads;
        result_.writes = shared_.writes;
        result_.failed = shared_.failed;
        result_.unknown = shared_.unknown;
        result_.second_rounds = shared_.second_rounds;
        result_.one_sided = shared_.one_sided;
        result_.conditions_won = shared_.conditions_won;
        result_.conditions_lost = shared_.conditions_lost;
        return result_;
    }

  private:
    Node& add_node(std::string name) {
        Node& node = world_.add_node(std::move(name));
        int64_t spread = options_.skew_ms;
        node.clock().skew = from_ms(
            static_cast<int64_t>(world_.random().below(static_cast<uint64_t>(2 * spread + 1))) - spread);
        if (spread > 0) node.clock().drift_ppm = static_cast<int32_t>(world_.random().below(200)) - 100;
        return node;
    }

    void start_partition(uint32_t i) {
        partitions_[i] = std::make_unique<KvPartition>(*partition_nodes_[i], i, options_, map_, *logs_[i]);
        if (Status status = partitions_[i]->start(); !status)
            shared_.fail("a partition did not start: " + status.to_string());
    }
    void crash_partition(uint32_t i) {
        ++result_.crashes;
        count_terminations(i);
        partition_nodes_[i]->crash();
        logs_[i]->crash(world_.random().below(logs_[i]->unpersisted() + 1));
        log_failed_[i] = false;
        retire(std::move(partitions_[i]));
    }
    // Writes in flight may still reach the medium although they are reported as failed.
    void fail_log(uint32_t i) {
        if (log_failed_[i]) return;
        ++result_.log_failures;
        log_failed_[i] = true;
        logs_[i]->fail(world_.random().below(3));
    }
    void count_terminations(uint32_t i) {
        if (!partitions_[i] || partitions_[i]->service() == nullptr) return;
        const kv::ServiceCounters& counters = partitions_[i]->service()->counters();
        result_.terminated += counters.terminated_abort + counters.terminated_commit;
    }
    void start_client(uint32_t i) {
        clients_[i] = std::make_unique<KvClient>(*client_nodes_[i], map_, options_.algorithm_of(i), shared_);
        clients_[i]->start();
    }
    void kill_client(uint32_t i) {
        ++result_.kills;
        clients_[i]->died();
        client_nodes_[i]->crash();
        retire(std::move(clients_[i]));
        client_nodes_[i]->restart();
        start_client(i);
    }

    void inject() {
        Random& random = world_.random();
        for (uint32_t i = 0; i < options_.partitions; ++i) {
            if (!partition_nodes_[i]->alive()) {
                if (random.chance(30)) {
                    partition_nodes_[i]->restart();
                    start_partition(i);
                }
            } else if (random.chance(options_.crash_one_in) || (log_failed_[i] && random.chance(30))) {
                crash_partition(i);
            } else if (random.chance(options_.fail_log_one_in)) {
                fail_log(i);
            }
            for (Node* client : client_nodes_) inject_cut(*partition_nodes_[i], *client);
            for (uint32_t other = 0; other < i; ++other)
                inject_cut(*partition_nodes_[i], *partition_nodes_[other]);
        }
        for (uint32_t i = 0; i < options_.clients; ++i)
            if (result_.kills < kKillsMax && random.chance(options_.kill_one_in)) kill_client(i);
    }
    void inject_cut(Node& a, Node& b) {
        Random& random = world_.random();
        if (!world_.connected(a, b)) {
            if (random.chance(60)) world_.heal(a, b);
        } else if (random.chance(options_.cut_one_in)) {
            ++result_.cuts;
            world_.cut(a, b);
        }
    }
    void work() {
        for (auto& client : clients_)
            for (uint64_t wanted = world_.random().below(options_.depth + 1); wanted > 0; --wanted)
                client->begin_one();
    }

    void phase_of_faults() {
        Nanoseconds end = world_.now() + kFaultPhaseMax;
        while (shared_.begun < options_.transactions && world_.now() < end && shared_.failure.empty()) {
            inject();
            for (int burst = 0; burst < 4; ++burst) {
                work();
                world_.run_for(
                    Nanoseconds{static_cast<int64_t>(world_.random().below(kInjectorTurn.count / 4))});
            }
        }
    }

    void heal() {
        world_.disarm_faults();
        world_.heal_all();
        shared_.healed = true;
        for (uint32_t i = 0; i < options_.partitions; ++i) {
            if (log_failed_[i]) crash_partition(i);
            if (partition_nodes_[i]->alive()) continue;
            partition_nodes_[i]->restart();
            start_partition(i);
        }
    }

    bool all_calm() { return who_is_not_calm().empty(); }
    std::string who_is_not_calm() {
        std::string names;
        for (uint32_t i = 0; i < partitions_.size(); ++i) {
            if (partitions_[i]->calm()) continue;
            auto* service = partitions_[i]->service();
            names += fmt::format(" part{} ({}, {} prepared)", i,
                                 service != nullptr && service->ready() ? "ready" : "not ready",
                                 service != nullptr ? service->store().statistics().prepared : 0);
        }
        for (uint32_t i = 0; i < clients_.size(); ++i)
            if (!clients_[i]->ready() || clients_[i]->under_way() > 0)
                names += fmt::format(" client{} ({}, {} in flight)", i,
                                     clients_[i]->ready() ? "ready" : "not ready", clients_[i]->under_way());
        return names;
    }

    void phase_of_progress() {
        if (!world_.run_until([this] { return all_calm(); }, kHealedLimit))
            return shared_.fail(
                "transactions stayed undecided, or requests did not end, after everything was healed:" +
                who_is_not_calm());
        // Only after the window does the store collect memory that filled up during the faults.
        world_.run_for(from_ms(2 * options_.window_ms));
        shared_.healed_at = world_.now();
        uint64_t goal = shared_.ended + 100;
        Nanoseconds end = world_.now() + kHealedLimit;
        while (shared_.ended < goal && world_.now() < end && shared_.failure.empty()) {
            work();
            for (int i = 0; i < 10; ++i) {
                world_.run_for(kLookForSleepers);
                look_for_sleepers();
            }
        }
        if (shared_.ended < goal) shared_.fail("no progress after everything was healed");
        if (!world_.run_until([this] { return all_calm(); }, kHealedLimit))
            shared_.fail("the last requests did not end:" + who_is_not_calm());
    }

    void look_for_sleepers() {
        sleeps_.resize(partitions_.size() + clients_.size());
        const auto look = [&](size_t at, bool sleeps) {
            sleeps_[at] = sleeps ? sleeps_[at] + 1 : 0;
            if (sleeps_[at] == kLooksAsleep) shared_.fail("a node with a received frame was not woken");
        };
        for (size_t i = 0; i < partitions_.size(); ++i) look(i, partitions_[i]->sleeps_on_frame());
        for (size_t i = 0; i < clients_.size(); ++i)
            look(partitions_.size() + i, clients_[i]->sleeps_on_frame());
    }

    void shut_down() {
        for (auto& client : clients_) client->close();
        auto closed = [this] {
            for (auto& client : clients_)
                if (!client->closed()) return false;
            return true;
        };
        if (!world_.run_until(closed, kHealedLimit)) return shared_.fail("a client did not close");
        for (uint32_t i = 0; i < options_.partitions; ++i) count_terminations(i);
        for (auto& partition : partitions_) partition->stop();
        auto stopped = [this] {
            for (auto& partition : partitions_)
                if (!partition->stopped()) return false;
            return true;
        };
        if (!world_.run_until(stopped, kHealedLimit)) return shared_.fail("a partition did not stop");
        clients_.clear();
        partitions_.clear();
    }

    void check_end() {
        kv::check::Report report = shared_.checker.report();
        result_.violations = report.total();
        result_.fractured = shared_.checker.fractured();
        if (report.total() > 0) shared_.fail(report.to_string());
    }

    void abandon() {
        for (auto& partition : partitions_) retire(std::move(partition));
        for (auto& client : clients_) retire(std::move(client));
    }

    const KvOptions options_;
    World world_;
    KvShared shared_;
    std::vector<Node*> partition_nodes_, client_nodes_;
    std::vector<std::string> map_;
    std::vector<std::unique_ptr<kv::store::MemoryLog>> logs_;
    std::vector<bool> log_failed_;  // remains set until the partition is started again
    std::vector<std::unique_ptr<KvPartition>> partitions_;
    std::vector<std::unique_ptr<KvClient>> clients_;
    std::vector<uint32_t> sleeps_;  // consecutive looks that found a sleeper, of partitions and clients
    KvResult result_;
};

}  // namespace

KvResult run_kv(const KvOptions& options) {
    auto run = std::make_unique<KvRun>(options);
    KvResult result = run->run();
    retire(std::move(run));  // killed clients keep their sessions with its checker
    return result;
}

}  // namespace wss::sim
