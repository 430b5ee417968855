// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"
#include "tests/sim/scenarios/cluster_removals.h"

namespace wss::sim {

using cache::Policy;

constexpr Nanoseconds kInjectorTurn = from_ms(10);
constexpr Nanoseconds kFaultPhaseMax = from_s(300);
constexpr Nanoseconds kHealedLimit = from_s(90);
constexpr uint64_t kEngineMemory = 1024 * 1024;
constexpr uint64_t kStorageMemory = 8 * 1024 * 1024;

namespace {

// An engine's machine and its process.
struct EngineNode {
    Node* node = nullptr;
    std::unique_ptr<ClusterEngine> process;  // nullptr: off, or the engine has left
    bool failed_to_start = false;
};

class ClusterRun {
  public:
    explicit ClusterRun(const ClusterOptions& options)
        : options_(options),
          engine_network_(engine_network(options)),
          world_(options.seed),
          node_(world_.add_node("target")),
          disk_(world_, options.sectors * io::SimDisk::kSector, disk_faults_),
          shared_(options.sectors),
          removals_(world_, node_, removal_options(options), shared_) {
        for (uint32_t i = 0; i < options.engines; ++i)
            engines_.push_back({.node = &add_node(fmt::format("engine{}", i)), .process = nullptr});
        if (options.remote) storage_.node = &add_node("storage");
        for (uint32_t i = 0; i < options.clients; ++i) {
            client_nodes_.push_back(&add_node(fmt::format("client{}", i)));
            clients_.push_back(std::make_unique<BlockClient>(*client_nodes_.back(), options_.network,
                                                             "target", options.depth, shared_));
            if (options.aligned) clients_.back()->align(cache::kSubBlockBytes / io::SimDisk::kSector);
        }
    }

    ClusterResult run() {
        start_target();
        for (EngineNode& engine : engines_) start_engine(engine);
        if (options_.remote) start_storage();
        for (auto& client : clients_) client->start();
        phase_of_faults();
        heal();
        if (shared_.failure.empty()) phase_of_progress();
        if (shared_.failure.empty()) phase_of_reading_back();
        if (shared_.failure.empty()) phase_of_counting();
        if (shared_.failure.empty()) shut_down();
        // After a failure the processes may be in any state, so they are not destroyed.
        if (!shared_.failure.empty()) abandon();
        result_.failure = shared_.failure;
        result_.removals = removals_.removals();
        result_.trace = world_.trace();
        result_.operations = shared_.ended;
        result_.failed = shared_.failed;
        result_.reconnects = shared_.reconnects;
        return result_;
    }

  private:
    // A broken connection means a lost engine. Under write-back only the injector may cause that.
    static fabric::SimNetwork engine_network(const ClusterOptions& options) {
        fabric::SimNetwork network = options.network;
        network.delay_min = std::max(network.delay_min, options.engine_delay);
        network.delay_max = std::max(network.delay_max, options.engine_delay);
        if (options.uses_back()) network.break_one_in = network.register_one_in = 0;
        return network;
    }
    static RemovalOptions removal_options(const ClusterOptions& options) {
        return {.seed = options.seed,
                .one_in = options.removal_one_in,
                .back = options.uses_back(),
                .absences = options.absences,
                .network = options.network,
                .disk = options.disk};
    }
    Node& add_node(const std::string& name) {
        Node& node = world_.add_node(name);
        node.clock().skew = from_ms(static_cast<int64_t>(world_.random().below(20'000)) - 10'000);
        node.clock().drift_ppm = static_cast<int32_t>(world_.random().below(200)) - 100;
        return node;
    }

    // --- the target ---

    void start_target() {
        cache::CacheOptions cache;
        cache.reactors = options_.reactors;
        cache.line_bytes = options_.line_bytes;
        // Enough for all commands and a few fills that outlast their responses. With short lines each command
        // takes 200 KiB.
        cache.commands = options_.clients * options_.depth + 4;
        cache.destages = 4;
        cache.lost_grace = options_.grace;
        cache.default_policy.policy = options_.default_back              ? Policy::kBack
                                      : options_.policy == Policy::kBack ? Policy::kThrough
                                                                         : options_.policy;
        target_ = std::make_unique<ClusterTarget>(
            node_, options_.network, engine_network_, disk_, membership_, cache,
            options_.remote ? options_.sectors * io::SimDisk::kSector : 0);
        target_->start();
        asked_policy_ = false;
    }
    void crash_target() {
        ++result_.target_crashes;
        exposed_ = true;
        if (target_->started()) tally(target_->cache().info());
        node_.crash();
        if (!options_.remote) {
            disk_.crash();
            shared_.model.crash();
        }
        removals_.target_crashed();
        // A process that could not start has nothing in flight. It is destroyed, as there are hundreds of
        // them where registration fails.
        if (!target_->status()) target_.reset();
        retire(std::move(target_));
    }
    void tally(const cache::CacheInfo& info) {
        for (const auto& volume : info.volumes) {
            result_.fast_path_hits += volume.counters.fast_path_hits;
            result_.lost_refusals += volume.counters.lost_refusals;
        }
    }
    bool target_up() const { return node_.alive() && target_ != nullptr && target_->started(); }
    void care_for_target() {
        Random& random = world_.random();
        if (!node_.alive()) {
            if (!random.chance(50)) return;
            node_.restart();
            return start_target();
        }
        // A start that failed (registration refused) is repeated, as a service manager would do.
        if (!target_->started() && !target_->status()) return crash_target();
        if (random.chance(options_.target_crash_one_in) && may_lose_target()) return crash_target();
        if (target_->started()) care_for_policy();
    }
    void care_for_policy() {
        const bool back_is_due = options_.policy == Policy::kBack && !asked_policy_;
        const bool change_is_due = options_.policy_changes && world_.random().chance(100);
        if (policy_pending_ || (!back_is_due && !change_is_due)) return;
        constexpr std::array<Policy, 5> kAll = {Policy::kBack, Policy::kBack, Policy::kThrough,
                                                Policy::kAround, Policy::kNone};
        const Policy wanted = back_is_due ? Policy::kBack : kAll[world_.random().below(kAll.size())];
        policy_pending_ = true;
        target_->cache().set_policy("disk", {.policy = wanted, .unsafe = false},
                                    [this, back_is_due, of = node_.incarnation()](const Status& status) {
                                        if (of != node_.incarnation()) return;
                                        policy_pending_ = false;
                                        if (!status) return;
                                        ++result_.policy_changes;
                                        asked_policy_ = asked_policy_ || back_is_due;
                                    });
        policy_asked_of_ = node_.incarnation();
    }

    // --- the engines ---

    void start_engine(EngineNode& engine) {
        if (!engine.node->alive()) engine.node->restart();
        engine.process =
            std::make_unique<ClusterEngine>(*engine.node, engine_network_, kEngineMemory, "target");
        engine.failed_to_start = !engine.process->start();
    }
    void crash_engine(EngineNode& engine) {
        engine.node->crash();
        if (engine.failed_to_start) engine.process.reset();
        retire(std::move(engine.process));
    }
    // --- real storage elsewhere

    void start_storage() {
        if (!storage_.node->alive()) storage_.node->restart();
        // A connection that breaks here loses no engine, so the network's faults apply under each policy.
        storage_.process = std::make_unique<ClusterEngine>(*storage_.node, engine_network_, kStorageMemory,
                                                           "target", &disk_, &options_.network);
        storage_.failed_to_start = !storage_.process->start();
    }
    void crash_storage() {
        storage_.node->crash();
        disk_.crash();
        shared_.model.crash_of_storage();
        if (storage_.failed_to_start) storage_.process.reset();
        retire(std::move(storage_.process));
    }
    void care_for_storage() {
        if (!options_.remote) return;
        if (storage_.process == nullptr) {
            if (world_.random().chance(50)) start_storage();
            return;
        }
        if (storage_.failed_to_start) return crash_storage();
        if (world_.random().chance(options_.storage_crash_one_in)) {
            ++result_.storage_crashes;
            return crash_storage();
        }
        care_for_link(node_, *storage_.node);
        for (EngineNode& engine : engines_) care_for_link(*storage_.node, *engine.node);
    }
    // An outage lasts longer than it takes to copy lines to a second engine.
    void care_for_disk() {
        if (world_.now() < outage_ends_) return;
        if (outage_ends_.count > 0) end_outage();
        if (!world_.random().chance(options_.outage_one_in)) return;
        ++result_.outages;
        outage_ends_ = world_.now() + from_ms(2000 + static_cast<int64_t>(world_.random().below(6000)));
        if (world_.random().chance(2)) return disk_.refuse(true);
        disk_faults_.latency_min = from_s(1);
        disk_faults_.latency_max = from_s(8);
    }
    void end_outage() {
        outage_ends_ = {};
        disk_.refuse(false);
        disk_faults_ = options_.disk;
    }
    bool storage_joined(const cache::CacheInfo& info) const {
        if (!options_.remote) return true;
        if (storage_.process == nullptr || storage_.failed_to_start) return false;
        // Compare identities: the target may still list a storage process that has crashed.
        const uint64_t identity = storage_.process->engine().identity();
        return std::any_of(info.engines.begin(), info.engines.end(), [identity](const auto& one) {
            return one.identity == identity && one.state == "storage";
        });
    }

    // Returns true if the target has admitted all engines and real storage, and no data is lost.
    bool all_joined() {
        if (!target_up() || target_->cache().recovering()) return false;
        cache::CacheInfo info = target_->cache().info();
        // Compare identities: the target may still list an engine that has crashed and started again
        // meanwhile.
        for (EngineNode& engine : engines_) {
            if (engine.process == nullptr || engine.failed_to_start || engine.process->leaving() ||
                !world_.connected(node_, *engine.node))
                return false;
            const uint64_t identity = engine.process->engine().identity();
            bool live = std::any_of(info.engines.begin(), info.engines.end(), [identity](const auto& known) {
                return known.identity == identity && known.state == "live" && known.slots > 0;
            });
            if (!live) return false;
        }
        for (const auto& volume : info.volumes)
            if (volume.lost_bytes > 0) return false;
        return storage_joined(info) && info.engines.size() == engines_.size() + (options_.remote ? 1 : 0);
    }
    // Destages all lines, so that the next engine may be lost.
    void cover() {
        if (!exposed_ || covering_ || !all_joined()) return;
        covering_ = true;
        exposed_ = false;
        target_->cache().drain("", [this, of = node_.incarnation()](const Status& status) {
            if (of != node_.incarnation()) return;
            covering_ = false;
            exposed_ = exposed_ || !status;
        });
    }
    bool may_lose_engine() {
        if (!options_.uses_back()) return true;
        return !exposed_ && !covering_ && all_joined() && membership_is_whole();
    }
    // If some lines have only one copy, a restarted target waits for each engine of the membership. An engine
    // that crashed unnoticed by the target does not return, so the target must not be lost then.
    bool may_lose_target() const {
        if (!options_.uses_back()) return true;
        const auto membership = cache::Membership::parse(membership_.text);
        if (!membership || !membership->degraded) return true;
        const auto lives = [this](const auto& member) {
            return std::any_of(engines_.begin(), engines_.end(), [&](const EngineNode& one) {
                return one.process != nullptr && one.process->engine().identity() == member.first;
            });
        };
        return std::all_of(membership->engines.begin(), membership->engines.end(), lives);
    }
    // The membership that a restarted target would read has all engines and allows the loss of any one of
    // them. Until that is stable, the loss of an engine together with the target needs the operator's
    // decision (wssctl cache forget).
    bool membership_is_whole() const {
        auto membership = cache::Membership::parse(membership_.text);
        return membership && !membership->degraded && membership->lost.empty() &&
               membership->engines.size() == engines_.size();
    }
    void care_for_engine(EngineNode& engine) {
        Random& random = world_.random();
        if (engine.process == nullptr) {
            if (random.chance(50)) start_engine(engine);
            return;
        }
        if (engine.failed_to_start) return crash_engine(engine);
        if (engine.process->gone()) return engine.process.reset();
        if (engine.process->leaving()) return;
        if (random.chance(options_.engine_crash_one_in) && may_lose_engine()) {
            ++result_.engine_crashes;
            exposed_ = true;
            return crash_engine(engine);
        }
        if (random.chance(options_.engine_leave_one_in) && may_lose_engine()) {
            ++result_.leaves;
            exposed_ = true;
            return engine.process->leave();
        }
        if (!world_.connected(node_, *engine.node)) {
            if (world_.now() >= isolated_until_ && random.chance(100)) world_.heal(node_, *engine.node);
        } else if (random.chance(options_.cut_one_in) && may_lose_engine()) {
            ++result_.cuts;
            exposed_ = true;
            world_.cut(node_, *engine.node);
        }
    }

    // Cuts off all engines at once, for a time that the target may or may not notice. The engines keep their
    // contents.
    void care_for_isolation() {
        if (world_.now() < isolated_until_ || !world_.random().chance(options_.isolation_one_in)) return;
        ++result_.isolations;
        exposed_ = true;
        isolated_until_ = world_.now() + from_ms(200 + static_cast<int64_t>(world_.random().below(4000)));
        for (EngineNode& engine : engines_) world_.cut(node_, *engine.node);
    }

    // --- links of the clients ---

    void care_for_link(Node& client, Node& other) {
        Random& random = world_.random();
        if (!world_.connected(client, other)) {
            if (random.chance(100)) world_.heal(client, other);
        } else if (random.chance(options_.cut_one_in)) {
            ++result_.cuts;
            world_.cut(client, other);
        }
    }

    void inject() {
        // Requests to a target that has crashed are never answered.
        if (policy_pending_ && policy_asked_of_ != node_.incarnation()) policy_pending_ = false;
        if (covering_ && !node_.alive()) covering_ = false;
        care_for_target();
        cover();
        care_for_isolation();
        for (EngineNode& engine : engines_) care_for_engine(engine);
        care_for_storage();
        care_for_disk();
        removals_.inject(target_up() ? target_.get() : nullptr);
        for (Node* client : client_nodes_) {
            care_for_link(*client, node_);
            if (options_.remote) care_for_link(*client, *storage_.node);
            for (EngineNode& engine : engines_) care_for_link(*client, *engine.node);
        }
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
        end_outage();
        world_.heal_all();
        if (node_.alive() && !target_->started() && !target_->status()) crash_target();
        if (!node_.alive()) {
            node_.restart();
            start_target();
        }
        for (EngineNode& engine : engines_) {
            if (engine.process != nullptr && engine.failed_to_start) crash_engine(engine);
            if (engine.process == nullptr) start_engine(engine);
        }
        if (options_.remote && storage_.process != nullptr && storage_.failed_to_start) crash_storage();
        if (options_.remote && storage_.process == nullptr) start_storage();
    }
    // Restarts the engines that were leaving when the faults were removed.
    void bring_back_engines() {
        for (EngineNode& engine : engines_)
            if (engine.process != nullptr && engine.process->gone()) {
                engine.process.reset();
                start_engine(engine);
            }
    }
    bool idle() {
        for (auto& client : clients_)
            if (client->under_way() > 0 || !client->live()) return false;
        return true;
    }

    // After a crash of the storage's machine one flush of each channel fails. Repeats flushes until none has
    // failed in six rounds.
    void hear_of_losses() {
        constexpr int kWellInARow = 6;
        for (int round = 0, well = 0; round < 100 && well < kWellInARow; ++round, ++well)
            for (auto& client : clients_) {
                if (!client->begin(initiator::Operation::kFlush, 0, 1)) well = 0;
                if (!world_.run_until([this] { return idle(); }, kHealedLimit))
                    return shared_.fail("flushes did not end");
                if (client->last_outcome() != initiator::Outcome::kOk) well = -1;
            }
    }

    // All requests end, all engines return, and then 100 new operations must succeed.
    void phase_of_progress() {
        auto whole = [this] {
            bring_back_engines();
            const bool removed = removals_.finish(target_up() ? target_.get() : nullptr);
            return idle() && all_joined() && removed;
        };
        if (!world_.run_until(whole, kHealedLimit))
            return shared_.fail(idle() ? "engines did not join after everything was healed"
                                       : "requests did not end after everything was healed");
        if (options_.remote) hear_of_losses();
        uint64_t failed = shared_.failed, goal = shared_.ended + 100;
        Nanoseconds end = world_.now() + kHealedLimit;
        while (shared_.ended < goal && world_.now() < end && shared_.failure.empty()) {
            work();
            world_.run_for(from_ms(1));
        }
        if (shared_.ended < goal) return shared_.fail("no progress after everything was healed");
        if (!world_.run_until([this] { return idle(); }, kHealedLimit))
            return shared_.fail("the last requests did not end");
        if (shared_.failed != failed) shared_.fail("requests failed after everything was healed");
    }

    // Reads every sector twice: from its current location, and from where the first read has moved it.
    void phase_of_reading_back() {
        constexpr uint64_t kAtOnce = 256;
        for (uint64_t at = 0; at < 2 * options_.sectors && shared_.failure.empty(); at += kAtOnce) {
            if (!clients_[0]->begin_read(at % options_.sectors, kAtOnce))
                return shared_.fail("a read did not begin");
            if (!world_.run_until([this] { return idle(); }, kHealedLimit))
                return shared_.fail("reading back did not end");
        }
    }

    // No line is dirty after a drain, and no operation holds a line after its end.
    void phase_of_counting() {
        bool drained = false;
        Status how;
        target_->cache().drain("", [&](Status status) {
            how = std::move(status);
            drained = true;
        });
        if (!world_.run_until([&] { return drained; }, kHealedLimit))
            return shared_.fail("a drain did not end");
        if (!how) return shared_.fail("a drain failed: " + how.to_string());
        cache::CacheInfo info = target_->cache().info();
        if (info.index.dirty_lines + info.index.dirty_sub_blocks + info.index.destaging_lines != 0)
            return shared_.fail("lines are dirty after a drain");
        // Fills may continue after the responses.
        auto settled = [this] { return target_->cache().info().index.operations == 0; };
        if (!world_.run_until(settled, kHealedLimit)) return shared_.fail("operations are left on lines");
        info = target_->cache().info();
        uint64_t used = 0;
        for (const cache::EngineInfo& engine : info.engines) used += engine.used_slots;
        if (used != info.index.lines)
            return shared_.fail(fmt::format("{} slots are used by {} clean lines", used, info.index.lines));
        tally(info);
        result_.evictions = info.index.evictions;
        for (const auto& volume : info.volumes) {
            result_.out_of_band_reads += volume.counters.out_of_band_reads;
            result_.destaged += volume.counters.destaged_lines;
            result_.salvaged += volume.counters.salvaged_lines;
            result_.direct_reads += volume.counters.direct_reads;
            result_.direct_writes += volume.counters.direct_writes;
            const cache::CacheCounters& counters = volume.counters;
            result_.upkeep_direct += counters.upkeep_direct_bytes;
            result_.upkeep += counters.upkeep_direct_bytes + counters.upkeep_through_target_bytes;
        }
    }

    void shut_down() {
        for (auto& client : clients_) client->close();
        auto closed = [this] {
            for (auto& client : clients_)
                if (!client->closed()) return false;
            return true;
        };
        if (!world_.run_until(closed, kHealedLimit)) return shared_.fail("a client did not close");
        for (EngineNode& engine : engines_) {
            result_.refused_clients += engine.process->engine().counters().clients_refused;
            engine.process->leave();
        }
        auto left = [this] {
            for (EngineNode& engine : engines_)
                if (!engine.process->gone()) return false;
            return true;
        };
        if (!world_.run_until(left, kHealedLimit)) return shared_.fail("an engine could not leave");
        target_->stop();
        if (!world_.run_until([this] { return target_->stopped(); }, kHealedLimit))
            return shared_.fail("the target did not stop");
        if (!target_->cache_stopped()) return shared_.fail("the cache did not stop cleanly");
        if (options_.remote) {
            storage_.process->stop();
            if (!world_.run_until([this] { return storage_.process->gone(); }, kHealedLimit))
                return shared_.fail("the storage did not stop");
            storage_.process.reset();
        }
        engines_.clear();
        target_.reset();
        clients_.clear();
    }

    void abandon() {
        retire(std::move(target_));
        for (EngineNode& engine : engines_) retire(std::move(engine.process));
        retire(std::move(storage_.process));
        for (auto& client : clients_) client.release();
        removals_.abandon();
    }

    const ClusterOptions options_;
    const fabric::SimNetwork engine_network_;
    World world_;
    Node& node_;
    io::SimDiskFaults disk_faults_ = options_.disk;
    io::SimDisk disk_;
    Nanoseconds outage_ends_{};  // 0: no outage
    BlockShared shared_;
    StableText membership_;
    std::vector<Node*> client_nodes_;
    std::vector<std::unique_ptr<BlockClient>> clients_;
    std::vector<EngineNode> engines_;
    EngineNode storage_;  // its node is nullptr if real storage is on the target
    ClusterRemovals removals_;
    std::unique_ptr<ClusterTarget> target_;
    bool asked_policy_ = false, policy_pending_ = false;
    uint32_t policy_asked_of_ = 0;
    // Some dirty line may have only one copy.
    bool exposed_ = false, covering_ = false;
    Nanoseconds isolated_until_{};
    ClusterResult result_;
};

}  // namespace

ClusterResult run_cluster(const ClusterOptions& options) {
    return ClusterRun(options).run();
}

}  // namespace wss::sim
