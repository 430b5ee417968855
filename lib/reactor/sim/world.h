// SPDX-License-Identifier: Apache-2.0
// The simulated world: one thread, virtual time, and random numbers from a seed.
//
// A World holds virtual time, a heap of events and the nodes. Each node has its own clock (with skew and
// drift) and the reactors that run on it. World::step() steps every reactor that is not asleep, in a random
// order. Only when none has work does it advance time, to the next event or timer. So a run of hours takes
// seconds, and the same seed gives the same run. trace() is a hash of all events that note() recorded, for
// tests to compare.
//
// A reactor that reports work in every turn would stop simulated time and so hang the run. In production it
// would keep a core busy. The world counts the turns of one instant and aborts the process with a message
// that names the busy nodes (livelock()).
//
// Fault sites have two levels: in each run a site is armed with a probability of one in four, and an armed
// site fires with the given odds. A run in which every site fired would only exercise the first error path.
//
// Thread-safety: none, by design.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/reactor/reactor.h"

namespace wss::sim {

class World;

// The clock of a node.
class NodeClock final : public Clock {
  public:
    explicit NodeClock(World& world) : world_(world) {}
    Nanoseconds now() noexcept override;
    Nanoseconds skew{0};
    int32_t drift_ppm = 0;
    // World time at which this clock shows `local`.
    Nanoseconds to_world(Nanoseconds local) const noexcept;

  private:
    World& world_;
};

// A machine. It can crash and restart. Its incarnation counts the restarts. The scenario owns what runs on
// the node, and destroys it when the node crashes.
class Node {
  public:
    Node(World& world, std::string name, uint32_t index)
        : world_(world), name_(std::move(name)), index_(index), clock_(world) {}
    const std::string& name() const { return name_; }
    uint32_t index() const { return index_; }
    World& world() { return world_; }
    NodeClock& clock() { return clock_; }
    bool alive() const { return alive_; }
    uint32_t incarnation() const { return incarnation_; }

    // Without `arm` the reactor never sleeps and is stepped in every round. With it, the reactor behaves like
    // a real one: after a turn without work, and after the others had their turns, the world calls `arm`
    // (Source::arm() of its sources). If `arm` returns true, the reactor sleeps: from then on it is stepped
    // only when the node was woken or a timer is due.
    void run(reactor::Reactor& reactor, std::function<bool()> arm = nullptr) {
        runners_.push_back({.reactor = &reactor, .arm = std::move(arm)});
    }
    void forget(reactor::Reactor& reactor) {
        std::erase_if(runners_, [&](const Runner& runner) { return runner.reactor == &reactor; });
    }
    // Wakes the sleeping reactors of this node, as epoll would. A scenario must also call it after it has
    // called code of the node from outside a turn.
    void wake() {
        for (Runner& runner : runners_) runner.woken = true;
    }
    bool asleep(const reactor::Reactor& reactor) const {
        return std::any_of(runners_.begin(), runners_.end(), [&](const Runner& runner) {
            return runner.reactor == &reactor && runner.state == Runner::State::kAsleep && !runner.woken;
        });
    }

    // Listeners by port. The fabric that adds one casts it to its type. A crash removes them.
    std::map<uint16_t, void*>& services() { return services_; }

    // Power off: reactors stop at once, without notification. The scenario then destroys what ran here.
    void crash();
    void restart();

  private:
    friend class World;
    World& world_;
    const std::string name_;
    const uint32_t index_;
    NodeClock clock_;
    bool alive_ = true;
    uint32_t incarnation_ = 0;
    struct Runner {
        enum class State : uint8_t { kAwake, kIdle, kAsleep };
        reactor::Reactor* reactor = nullptr;
        std::function<bool()> arm;
        State state = State::kAwake;
        bool woken = false;
    };
    Runner* find(const reactor::Reactor* reactor);
    bool stays_asleep(Runner& runner);
    std::vector<Runner> runners_;
    std::map<uint16_t, void*> services_;
};

class World {
  public:
    // Maximum turns at one instant. The busiest correct run takes a few hundred.
    static constexpr uint32_t kTurnsMax = 100'000;

    explicit World(uint64_t seed);
    World(const World&) = delete;

    Nanoseconds now() const noexcept { return now_; }
    Random& random() noexcept { return random_; }
    Node& add_node(std::string name);
    Node* find(std::string_view name);

    // Runs `event` at `at` (not before now). Events of equal time run in the order in which they were
    // scheduled.
    void schedule(Nanoseconds at, std::function<void()> event);
    void schedule_in(Nanoseconds delay, std::function<void()> event) {
        schedule(now_ + delay, std::move(event));
    }

    // Does the work of the current instant. If there is none, advances time to the next event or timer.
    // Returns false if nothing happens until `limit`. The time is then `limit`, or unchanged if that is
    // kNever.
    bool step(Nanoseconds limit = kNever);
    void run_for(Nanoseconds duration);
    // Steps until `done` returns true, or until the time `limit` has passed. Returns the last result of
    // `done`.
    bool run_until(const std::function<bool()>& done, Nanoseconds limit);

    // Links between nodes. A cut link delivers no messages, and its nodes are not notified.
    void cut(const Node& a, const Node& b);
    void heal(const Node& a, const Node& b);
    void heal_all() { cuts_.clear(); }
    bool connected(const Node& a, const Node& b) const;

    // True when the fault site `name` fires. Its first use decides at random whether it is armed.
    bool fault(std::string_view name, uint32_t one_in);
    void disarm_faults() { faults_on_ = false; }

    // Mixes an event into the trace.
    void note(uint64_t what) noexcept;
    uint64_t trace() const noexcept { return trace_; }

  private:
    struct Event {
        Nanoseconds at;
        uint64_t order;
        std::function<void()> run;
    };
    struct Later {
        bool operator()(const Event& a, const Event& b) const {
            return a.at != b.at ? a.at > b.at : a.order > b.order;
        }
    };
    size_t step_reactors();
    size_t run_due_events();
    void count_turn();
    [[noreturn]] void livelock() const;
    Nanoseconds next_time() const;

    Nanoseconds now_{0};
    Random random_;
    uint64_t trace_ = 0xcbf29ce484222325u;
    uint64_t scheduled_ = 0;
    uint32_t turns_ = 0;          // turns since time last advanced
    std::set<std::string> busy_;  // nodes that had work in the last turns before a livelock
    bool faults_on_ = true;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::vector<Event> events_;  // heap by Later
    std::set<std::pair<uint32_t, uint32_t>> cuts_;
    std::vector<std::pair<std::string, bool>> fault_sites_;  // name, armed
};

}  // namespace wss::sim
