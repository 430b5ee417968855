// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/block.h"

#include <fmt/format.h>

#include <vector>

#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/block_target.h"

namespace wss::sim {

constexpr Nanoseconds kInjectorTurn = from_ms(10);
constexpr Nanoseconds kFaultPhaseMax = from_s(300);
constexpr Nanoseconds kHealedLimit = from_s(60);

BlockOptions BlockOptions::draw(uint64_t seed) {
    Random random(seed ^ 0x5eed);
    BlockOptions options;
    options.seed = seed;
    options.clients = 1 + static_cast<uint32_t>(random.below(3));
    options.depth = 1 + static_cast<uint32_t>(random.below(12));
    options.sectors = 64 << random.below(6);
    options.cut_one_in = random.chance(2) ? 50 + static_cast<uint32_t>(random.below(300)) : 0;
    options.crash_one_in = random.chance(2) ? 100 + static_cast<uint32_t>(random.below(600)) : 0;
    options.network.slow_one_in = 500;
    options.network.break_one_in = 300;
    options.network.refuse_one_in = 3;
    options.network.register_one_in = 4;
    options.disk.slow_one_in = 50;
    options.disk.slow = random.chance(4) ? from_s(6) : from_ms(200);
    options.disk.error_one_in = 40;
    return options;
}

std::string BlockOptions::to_string() const {
    return fmt::format(
        "seed {}: {} clients, depth {}, {} sectors, {} operations; cut 1/{}, crash 1/{}, break 1/{}, refuse "
        "1/{}, disk "
        "slow 1/{} ({} ms), disk error 1/{}",
        seed, clients, depth, sectors, operations, cut_one_in, crash_one_in, network.break_one_in,
        network.refuse_one_in, disk.slow_one_in, disk.slow.count / 1'000'000, disk.error_one_in);
}

std::string BlockResult::to_string() const {
    return fmt::format("{}: {} operations ({} failed), {} crashes, {} cuts, {} reconnects; trace {:016x}",
                       failure.empty() ? "held" : "FAILED: " + failure, operations, failed, crashes, cuts,
                       reconnects, trace);
}

namespace {

// Processes of crashed nodes. They must not be stepped or destroyed: their destructors would wait for
// completions that never arrive. They stay reachable, so that leak checkers do not report them.
std::vector<std::unique_ptr<BlockTarget>>& retired_targets() {
    static auto* retired = new std::vector<std::unique_ptr<BlockTarget>>;
    return *retired;
}

class BlockRun {
  public:
    explicit BlockRun(const BlockOptions& options)
        : options_(options),
          world_(options.seed),
          node_(world_.add_node("target")),
          disk_(world_, options.sectors * io::SimDisk::kSector, options_.disk),
          shared_(options.sectors) {
        for (uint32_t i = 0; i < options.clients; ++i) {
            Node& node = world_.add_node(fmt::format("client{}", i));
            node.clock().skew = from_ms(static_cast<int64_t>(world_.random().below(20'000)) - 10'000);
            node.clock().drift_ppm = static_cast<int32_t>(world_.random().below(200)) - 100;
            clients_.push_back(
                std::make_unique<BlockClient>(node, options_.network, "target", options.depth, shared_));
        }
    }

    BlockResult run() {
        start_target();
        for (auto& client : clients_) client->start();
        phase_of_faults();
        heal();
        if (shared_.failure.empty()) phase_of_progress();
        if (shared_.failure.empty()) shut_down();
        // After a failure the processes may be in any state, so they are not destroyed.
        if (!shared_.failure.empty()) abandon();
        result_.failure = shared_.failure;
        result_.trace = world_.trace();
        result_.operations = shared_.ended;
        result_.failed = shared_.failed;
        result_.reconnects = shared_.reconnects;
        return result_;
    }

  private:
    void start_target() {
        target_ = std::make_unique<BlockTarget>(node_, options_.network, disk_);
        target_->start();
    }
    void crash_target() {
        ++result_.crashes;
        node_.crash();
        disk_.crash();
        shared_.model.crash();
        retired_targets().push_back(std::move(target_));
    }
    void restart_target() {
        node_.restart();
        start_target();
    }

    // One turn of the fault injector. A turn takes a random time of less than kInjectorTurn.
    void inject() {
        Random& random = world_.random();
        if (!node_.alive()) {
            if (random.chance(50)) restart_target();
            return;
        }
        // A start that failed (registration refused) is repeated, as a service manager would do.
        if (!target_->started() && !target_->status()) return crash_target();
        if (random.chance(options_.crash_one_in)) crash_target();
        for (auto& client : world_clients()) {
            if (world_.connected(node_, *client)) {
                if (!random.chance(options_.cut_one_in)) continue;
                ++result_.cuts;
                world_.cut(node_, *client);
            } else if (random.chance(100)) {
                world_.heal(node_, *client);
            }
        }
    }
    std::vector<Node*> world_clients() {
        std::vector<Node*> nodes;
        for (uint32_t i = 0; i < options_.clients; ++i)
            nodes.push_back(world_.find(fmt::format("client{}", i)));
        return nodes;
    }
    void work() {
        for (auto& client : clients_)
            for (uint64_t wanted = world_.random().below(options_.depth + 1); wanted > 0; --wanted)
                client->begin_one();
    }

    void phase_of_faults() {
        Nanoseconds end = world_.now() + kFaultPhaseMax;
        while (shared_.begun < options_.operations && world_.now() < end && shared_.failure.empty()) {
            inject();
            work();
            world_.run_for(Nanoseconds{static_cast<int64_t>(world_.random().below(kInjectorTurn.count))});
        }
    }

    void heal() {
        world_.disarm_faults();
        world_.heal_all();
        if (node_.alive() && !target_->started() && !target_->status()) crash_target();
        if (!node_.alive()) restart_target();
    }

    // All requests end, and then 100 new ones must succeed.
    void phase_of_progress() {
        auto idle = [this] {
            for (auto& client : clients_)
                if (client->under_way() > 0 || !client->live()) return false;
            return true;
        };
        if (!world_.run_until(idle, kHealedLimit))
            return shared_.fail("requests did not end after everything was healed");
        uint64_t failed = shared_.failed, goal = shared_.ended + 100;
        Nanoseconds end = world_.now() + kHealedLimit;
        while (shared_.ended < goal && world_.now() < end && shared_.failure.empty()) {
            work();
            world_.run_for(from_ms(1));
        }
        if (shared_.ended < goal) return shared_.fail("no progress after everything was healed");
        if (!world_.run_until(idle, kHealedLimit)) return shared_.fail("the last requests did not end");
        if (shared_.failed != failed) shared_.fail("requests failed after everything was healed");
    }

    void shut_down() {
        for (auto& client : clients_) client->close();
        auto closed = [this] {
            for (auto& client : clients_)
                if (!client->closed()) return false;
            return true;
        };
        if (!world_.run_until(closed, kHealedLimit)) return shared_.fail("a client did not close");
        target_->stop();
        if (!world_.run_until([this] { return target_->stopped(); }, kHealedLimit))
            return shared_.fail("the target did not stop");
        target_.reset();
        clients_.clear();
    }

    void abandon() {
        if (target_) retired_targets().push_back(std::move(target_));
        for (auto& client : clients_) client.release();
    }

    const BlockOptions options_;
    World world_;
    Node& node_;
    io::SimDisk disk_;
    BlockShared shared_;
    std::vector<std::unique_ptr<BlockClient>> clients_;
    std::unique_ptr<BlockTarget> target_;
    BlockResult result_;
};

}  // namespace

BlockResult run_block(const BlockOptions& options) {
    return BlockRun(options).run();
}

}  // namespace wss::sim
