// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lib/base/log.h"
#include "lib/io/sim/sim_disk.h"
#include "target/cache/remote.h"
#include "tests/sim/checkers/sector_stamp.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"
#include "tests/sim/scenarios/storage_processes.h"

namespace wss::sim {

using cache::Policy;

constexpr Nanoseconds kTurn = from_ms(20);
constexpr Nanoseconds kHealedLimit = cache::RemoteQueue::kTakenMax + from_s(60);
constexpr uint64_t kEngineMemory = 2 * 1024 * 1024;
// The injector lets the holder reach the target after it has not done so for this time. It is shorter than
// kTakenMax.
constexpr Nanoseconds kRescueAfter = from_s(25);
// Time within which every part of the target receives the state of the storage process.
constexpr Nanoseconds kSuspensionKnown = from_s(1);
// A volume that has waited for its owner for this time does not continue, and the run ends.
constexpr Nanoseconds kAwaitingKnown = from_s(5);
constexpr Nanoseconds kLossPermittedAfter = cache::RemoteQueue::kTakenMax - from_s(5);

namespace {

class StorageRun {
  public:
    explicit StorageRun(const StorageOptions& options)
        : options_(options),
          engine_network_(engine_network(options)),
          world_(options.seed),
          node_(world_.add_node("target")),
          no_disk_(world_, options.sectors * kSectorBytes, options_.image),
          shared_(options.sectors),
          engine_nodes_(add_nodes("engine", options.engines)),
          processes_(world_, options_, node_, engine_nodes_, result_) {
        for (Node* node : engine_nodes_)
            engines_.push_back(
                std::make_unique<ClusterEngine>(*node, engine_network_, kEngineMemory, "target"));
        for (Node* node : add_nodes("client", options.clients)) {
            clients_.push_back(
                std::make_unique<BlockClient>(*node, options_.network, "target", options.depth, shared_));
            clients_.back()->align(cache::kSubBlockBytes / kSectorBytes);
        }
    }

    StorageResult run() {
        start();
        if (goes_on()) phase_of_faults();
        if (goes_on()) heal();
        if (goes_on()) phase_of_progress();
        if (goes_on()) phase_of_reading_back();
        if (goes_on()) phase_of_destaging();
        if (goes_on()) check_image();
        if (goes_on()) shut_down();
        if (!goes_on()) abandon();
        result_.failure = shared_.failure;
        result_.trace = world_.trace();
        result_.operations = shared_.ended;
        result_.failed = shared_.failed;
        result_.reconnects = shared_.reconnects;
        return result_;
    }

  private:
    // Engines are not lost in this scenario.
    static fabric::SimNetwork engine_network(const StorageOptions& options) {
        fabric::SimNetwork network = options.network;
        network.break_one_in = 0;
        return network;
    }
    std::vector<Node*> add_nodes(const char* name, uint32_t count) {
        std::vector<Node*> nodes;
        for (uint32_t i = 0; i < count; ++i) nodes.push_back(&world_.add_node(fmt::format("{}{}", name, i)));
        return nodes;
    }
    // Returns false after a failed check, or after a permitted loss of the volume.
    bool goes_on() const { return shared_.failure.empty() && result_.losses == 0; }

    // --- the target ---

    void start_target() {
        cache::CacheOptions cache;
        cache.reactors = options_.reactors;
        cache.line_bytes = options_.line_bytes;
        cache.commands = options_.clients * options_.depth + 4;
        cache.default_policy.policy = options_.policy == Policy::kBack ? Policy::kThrough : options_.policy;
        target_ = std::make_unique<ClusterTarget>(node_, options_.network, engine_network_, no_disk_,
                                                  membership_, cache, options_.sectors * kSectorBytes);
        target_->start();
        storage_joined_ = false;
        policy_ = options_.policy == Policy::kBack ? PolicySetting::kDue : PolicySetting::kDone;
    }
    void end_target() {
        node_.crash();
        backend_ = nullptr;
        stopping_until_ = {};
    }
    void crash_target() {
        log::info("[the target is killed]");
        end_target();
        retire(std::move(target_));
    }
    void stop_target() {
        log::info("[the target is stopped]");
        stopping_until_ = world_.now() + from_s(60);
        target_->stop(from_ms(500 + static_cast<int64_t>(world_.random().below(5000))));
    }
    bool is_stopping() const { return stopping_until_.count > 0; }
    bool target_up() const { return target_ != nullptr && target_->started() && !is_stopping(); }
    void set_policy() {
        if (policy_ != PolicySetting::kDue) return;
        policy_ = PolicySetting::kAsked;
        target_->cache().set_policy("disk", {.policy = options_.policy, .unsafe = false},
                                    [this, of = node_.incarnation()](const Status& status) {
                                        if (of != node_.incarnation()) return;
                                        policy_ = status ? PolicySetting::kDone : PolicySetting::kDue;
                                    });
    }
    void care_for_target() {
        if (target_ == nullptr) {
            if (!world_.random().chance(50) && !healed_) return;
            node_.restart();
            log::info("[the target starts]");
            return start_target();
        }
        if (is_stopping() && target_->stopped()) {
            target_.reset();
            return end_target();
        }
        // A target that does not stop is killed, as a service manager would do.
        if (is_stopping() && world_.now() >= stopping_until_) return crash_target();
        if (!target_up()) return;
        if (backend_ == nullptr) {
            const auto volume = target_->volumes().find("disk");
            backend_ = &target_->volumes().table(0).find(volume->identity.lun)->volume().backend();
        }
        set_policy();
    }
    void inject_into_target() {
        if (!target_up()) return;
        if (world_.random().chance(options_.target_crash_one_in)) {
            ++result_.target_crashes;
            crash_target();
        } else if (world_.random().chance(options_.target_stop_one_in)) {
            ++result_.target_stops;
            stop_target();
        }
    }

    // --- the volume ---

    bool is_lost() const { return backend_ != nullptr && backend_->lost(); }
    // Runs for `time`, or until the volume is lost.
    void run_for(Nanoseconds time) {
        const bool lost = world_.run_until([this] { return is_lost(); }, time);
        check_theft();
        if (!awaits_owner()) awaited_since_ = world_.now();
        if (world_.now() - awaited_since_ >= kAwaitingKnown) {
            log::info("[the volume waits for its owner: {}]", backend_->trouble());
            result_.losses = 1;
            return;
        }
        if (!lost) return;
        const Nanoseconds away = world_.now() - reached_;
        log::info("[the volume is lost: {}]", backend_->trouble());
        if (processes_.chain_ended() || away >= kLossPermittedAfter)
            result_.losses = 1;
        else
            shared_.fail(
                fmt::format("the volume is lost, but the chain of holders did not end, and the "
                            "holder reached the target {} ms ago: {}",
                            away.count / 1'000'000, backend_->trouble()));
    }
    // Returns true if another owner had the image while engines held dirty lines. Only an operator can end
    // this state.
    bool awaits_owner() const {
        return processes_.chain_ended() && target_up() && backend_ != nullptr &&
               backend_->trouble().starts_with("another owner had its real storage");
    }
    bool holder_reaches_target() {
        const cache::Engine* engine = processes_.holder_engine();
        if (engine == nullptr || !target_up()) return false;
        const auto joined = target_->cache().info().engines;
        return std::any_of(joined.begin(), joined.end(), [&](const cache::EngineInfo& one) {
            return one.identity == engine->identity() && one.state == "storage";
        });
    }
    void note_reach() {
        // Time in which nothing can join the target does not count as an absence of the holder.
        if (!target_up() || holder_reaches_target()) reached_ = world_.now();
    }
    bool is_clean() {
        const cache::CacheInfo info = target_->cache().info();
        return !info.recovering && info.volumes.size() == 1 && info.volumes[0].dirty_lines == 0 &&
               info.volumes[0].lost_bytes == 0;
    }

    void note_storage() {
        if (!target_up() || storage_joined_) return;
        const auto joined = target_->cache().info().engines;
        storage_joined_ = std::any_of(joined.begin(), joined.end(),
                                      [](const cache::EngineInfo& one) { return one.state == "storage"; });
    }
    // The volume must serve no requests before a storage process has joined, nor after the target has known
    // for a while that another client may have the image. If the holder reaches the image again, it may serve
    // requests even before the target knows that it does.
    void note_suspension() {
        note_storage();
        const io::SimImageClient* holder = processes_.image().holder();
        const bool may_serve = holder != nullptr && !holder->is_cut_off() && holder_reaches_target();
        const bool suspended = backend_ != nullptr && (backend_->suspended() || !storage_joined_);
        if (!target_up() || !suspended || may_serve) suspended_since_ = world_.now();
        if (shared_.newest_success > suspended_since_ + kSuspensionKnown)
            shared_.fail(fmt::format("a request that began {} ms after the volume was suspended succeeded",
                                     (shared_.newest_success - suspended_since_).count / 1'000'000));
    }
    bool is_suspended() const { return world_.now() - suspended_since_ >= kSuspensionKnown; }

    // --- another owner ---

    // Does nothing while lines are dirty, because the model cannot represent writes of another owner to
    // sub-blocks that are dirty in engines.
    void inject_program() {
        const bool may_steal = is_suspended();
        if (program_.count > 0 || !world_.random().chance(options_.program_one_in)) return;
        if (!target_up() || !is_clean()) return;
        io::SimImageClient* holder = processes_.image().holder();
        const bool is_free = !processes_.image().is_locked();
        if (!is_free && !(may_steal && holder != nullptr && holder->is_cut_off())) return;
        constexpr uint64_t kSubBlock = cache::kSubBlockBytes / kSectorBytes;
        const uint64_t count = (1 + world_.random().below(8)) * kSubBlock;
        const uint64_t first = world_.random().below((options_.sectors - count) / kSubBlock) * kSubBlock;
        if (shared_.model.busy(first, count)) return;
        ++result_.programs;
        log::info("[another owner {} the image and writes {} sectors from {}]", is_free ? "takes" : "steals",
                  count, first);
        program_ = {.first = first, .count = count, .id = shared_.next_id++};
        if (is_free)
            processes_.image().take_without_mark();
        else
            processes_.take_by_another();
        write_by_program(first, count, program_.id);
        if (!is_free) end_program();
    }
    void write_by_program(uint64_t first, uint64_t count, uint64_t id) {
        std::vector<std::byte> data(count * kSectorBytes);
        for (uint64_t i = 0; i < count; ++i) stamp_sector(data.data() + i * kSectorBytes, first + i, id);
        io::Request request;
        request.op = io::Op::kWrite;
        request.offset = first * kSectorBytes;
        request.length = data.size();
        request.data = data.data();
        shared_.model.change_begins(first, count, id);
        processes_.image().write(request);
    }
    // Until the volume is lost, initiators may read the other owner's data or the previous data.
    void inject_theft() {
        if (!stolen_.empty() || program_.count > 0 || !world_.random().chance(options_.theft_one_in)) return;
        const io::SimImageClient* holder = processes_.image().holder();
        if (holder == nullptr || !target_up()) return;
        const cache::CacheInfo info = target_->cache().info();
        if (info.volumes.size() != 1 || info.volumes[0].dirty_lines == 0) return;
        log::info("[another owner steals the image beside dirty lines]");
        ++result_.thefts;
        processes_.take_by_another();
        theft_ = shared_.next_id++;
        for (uint64_t first = 0; first < options_.sectors; first += kStolenAtOnce) {
            if (shared_.model.busy(first, kStolenAtOnce)) continue;
            stolen_.push_back(first);
            write_by_program(first, kStolenAtOnce, theft_);
        }
    }
    void check_theft() {
        std::vector<std::byte> data(kStolenAtOnce * kSectorBytes);
        for (uint64_t first : stolen_) {
            processes_.image().contents().read(first * kSectorBytes, data);
            for (uint64_t i = 0; i < kStolenAtOnce; ++i)
                if (read_stamp(data.data() + i * kSectorBytes, first + i) != theft_)
                    return shared_.fail(
                        fmt::format("sector {} of the image was written after another owner had written it, "
                                    "by a process that does not follow the last holder",
                                    first + i));
        }
        const io::SimImageClient* holder = processes_.image().holder();
        if (!stolen_.empty() && holder != nullptr && holder->is_used())
            shared_.fail("the volume is served by a process that does not follow the last holder");
    }
    // Until the target uses the next process, engines may return the previous contents.
    void care_for_program() {
        const io::SimImageClient* holder = processes_.image().holder();
        if (program_.count > 0 && holder != nullptr && holder->is_used()) end_program();
    }
    void end_program() {
        shared_.model.change_acknowledged(program_.first, program_.count, program_.id, true, false);
        program_ = {};
    }

    // --- phases ---

    void start() {
        start_target();
        for (auto& engine : engines_)
            if (Status started = engine->start(); !started) return shared_.fail(started.to_string());
        processes_.start_first();
        for (auto& client : clients_) client->start();
        const auto ready = [this] {
            processes_.go_on();
            care_for_target();
            return holder_reaches_target() && policy_ == PolicySetting::kDone;
        };
        if (!world_.run_until(ready, kHealedLimit)) shared_.fail("the first start did not end");
    }
    void work() {
        for (auto& client : clients_) {
            uint64_t wanted = options_.load == 0 ? world_.random().below(3) / 2 : options_.load;
            for (wanted = world_.random().below(wanted + 1); wanted > 0; --wanted) client->begin_one();
        }
    }
    void phase_of_faults() {
        for (uint32_t turn = 0; turn < options_.turns && goes_on(); ++turn) {
            run_for(kTurn);
            if (!goes_on()) return;
            note_reach();
            note_suspension();
            processes_.inject(world_.now() - reached_ >= kRescueAfter);
            care_for_target();
            inject_into_target();
            care_for_program();
            inject_program();
            inject_theft();
            work();
        }
    }
    bool idle() {
        return std::all_of(clients_.begin(), clients_.end(),
                           [](const auto& client) { return client->under_way() == 0 && client->live(); });
    }
    bool engines_joined() {
        const cache::CacheInfo info = target_->cache().info();
        const auto live = std::count_if(info.engines.begin(), info.engines.end(),
                                        [](const auto& one) { return one.state == "live"; });
        return !info.recovering && live == static_cast<int64_t>(engines_.size());
    }
    bool is_served() {
        return target_up() && holder_reaches_target() && engines_joined() && backend_ != nullptr &&
               !backend_->suspended() && backend_->trouble().empty();
    }
    // Runs turns until `done` returns true. Fails with `failure` if that takes too long.
    void run_until(const std::function<bool()>& done, const char* failure) {
        const Nanoseconds end = world_.now() + kHealedLimit;
        while (!done() && goes_on()) {
            if (world_.now() >= end)
                return shared_.fail(
                    fmt::format("{} ({})", failure, backend_ == nullptr ? "no target" : backend_->trouble()));
            run_for(from_ms(5));
            note_reach();
            note_suspension();
            processes_.settle();
            care_for_target();
            care_for_program();
        }
    }
    void heal() {
        log::info("[faults end]");
        healed_ = true;
        world_.disarm_faults();
        world_.heal_all();
        processes_.heal();
        const auto whole = [this] { return idle() && is_served() && policy_ == PolicySetting::kDone; };
        run_until(whole, "the volume is not served after everything was healed");
    }
    void phase_of_progress() {
        const uint64_t failed = shared_.failed, goal = shared_.ended + 100;
        const auto enough = [&] {
            work();
            return shared_.ended >= goal;
        };
        run_until(enough, "no progress after everything was healed");
        if (goes_on()) run_until([this] { return idle(); }, "the last requests did not end");
        if (shared_.failed != failed) shared_.fail("requests failed after everything was healed");
    }
    // Reads every sector twice: from its current location, and from where the first read has moved it.
    void phase_of_reading_back() {
        constexpr uint64_t kAtOnce = 256;
        for (uint64_t at = 0; at < 2 * options_.sectors && goes_on(); at += kAtOnce) {
            if (!clients_[0]->begin_read(at % options_.sectors, kAtOnce))
                return shared_.fail("a read did not begin");
            run_until([this] { return idle(); }, "reading back did not end");
            if (clients_[0]->last_outcome() != initiator::Outcome::kOk)
                return shared_.fail("reading back failed");
        }
    }
    void phase_of_destaging() {
        bool drained = false;
        Status how;
        target_->cache().drain("", [&](Status status) {
            how = std::move(status);
            drained = true;
        });
        run_until([&] { return drained; }, "a drain did not end");
        if (!goes_on()) return;
        if (!how) return shared_.fail("a drain failed: " + how.to_string());
        if (!is_clean()) return shared_.fail("lines are dirty after a drain");
        result_.destaged = target_->cache().info().volumes.at(0).counters.destaged_lines;
    }
    void check_image() {
        std::vector<std::byte> data(options_.sectors * kSectorBytes);
        processes_.image().contents().read(0, data);
        std::vector<uint64_t> found(options_.sectors);
        for (uint64_t i = 0; i < found.size(); ++i) found[i] = read_stamp(data.data() + i * kSectorBytes, i);
        shared_.model.read_begins(0, found.size());
        const std::string wrong = shared_.model.read_ends(0, found);
        if (!wrong.empty()) shared_.fail("the image: " + wrong);
    }

    void shut_down() {
        for (auto& client : clients_) client->close();
        const auto closed = [this] {
            return std::all_of(clients_.begin(), clients_.end(),
                               [](const auto& one) { return one->closed(); });
        };
        if (!world_.run_until(closed, kHealedLimit)) return shared_.fail("a client did not close");
        for (auto& engine : engines_) engine->leave();
        const auto left = [this] {
            return std::all_of(engines_.begin(), engines_.end(), [](const auto& one) { return one->gone(); });
        };
        if (!world_.run_until(left, kHealedLimit)) return shared_.fail("an engine could not leave");
        target_->stop();
        if (!world_.run_until([this] { return target_->stopped(); }, kHealedLimit))
            return shared_.fail("the target did not stop");
        if (!target_->cache_stopped()) return shared_.fail("the cache did not stop cleanly");
        backend_ = nullptr;
        processes_.stop_all();
        const auto off = [this] {
            processes_.go_on();
            return processes_.none_runs();
        };
        if (!world_.run_until(off, kHealedLimit)) return shared_.fail("the storage did not stop");
        engines_.clear();
        target_.reset();
        clients_.clear();
    }
    // The processes may be in any state, so they are not destroyed.
    void abandon() {
        retire(std::move(target_));
        for (auto& engine : engines_) retire(std::move(engine));
        processes_.abandon();
        for (auto& client : clients_) client.release();
    }

    const StorageOptions options_;
    const fabric::SimNetwork engine_network_;
    World world_;
    Node& node_;
    io::SimDisk no_disk_;  // the target's local disk, which it does not use
    BlockShared shared_;
    StableText membership_;
    StorageResult result_;
    const std::vector<Node*> engine_nodes_;
    StorageProcesses processes_;
    std::vector<std::unique_ptr<ClusterEngine>> engines_;
    std::vector<std::unique_ptr<BlockClient>> clients_;
    std::unique_ptr<ClusterTarget> target_;  // nullptr while it does not run
    const io::Backend* backend_ = nullptr;   // the volume's; nullptr: the target has not started
    Nanoseconds stopping_until_{};           // 0: the target is not being stopped
    enum class PolicySetting : uint8_t { kDue, kAsked, kDone } policy_ = PolicySetting::kDone;
    Nanoseconds reached_{};  // when the holder last reached the target
    Nanoseconds suspended_since_{}, awaited_since_{};
    struct {
        uint64_t first = 0, count = 0, id = 0;
    } program_;  // a write by another program that the target may not have noticed; `count` 0: none
    static constexpr uint64_t kStolenAtOnce = 128;
    std::vector<uint64_t> stolen_;  // first sectors of the ranges that the other owner wrote
    uint64_t theft_ = 0;            // the id of these writes
    bool storage_joined_ = false;   // true if one has joined since the target's start
    bool healed_ = false;
};

}  // namespace

StorageResult run_storage(const StorageOptions& options) {
    return StorageRun(options).run();
}

}  // namespace wss::sim
