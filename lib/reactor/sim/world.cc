// SPDX-License-Identifier: Apache-2.0
#include "lib/reactor/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace wss::sim {

// Greater than any skew, so that no clock of a node is negative.
constexpr Nanoseconds kEpoch = from_s(1000);
// In this many turns before it reports a livelock, the world records the busy nodes.
constexpr uint32_t kTurnsNamed = 100;

Nanoseconds NodeClock::now() noexcept {
    Nanoseconds t = world_.now();
    return kEpoch + t + skew + Nanoseconds{t.count / 1'000'000 * drift_ppm};
}

Nanoseconds NodeClock::to_world(Nanoseconds local) const noexcept {
    if (local == kNever) return kNever;
    int64_t t = (local - kEpoch - skew).count;
    // The result is rounded up, so that a timer never fires before the node's clock shows its deadline.
    return {t - t / (1'000'000 + drift_ppm) * drift_ppm + (drift_ppm != 0 ? 1000 : 0)};
}

void Node::crash() {
    alive_ = false;
    runners_.clear();
    services_.clear();
    world_.note(0xdead0000u + index_);
}

Node::Runner* Node::find(const reactor::Reactor* reactor) {
    for (Runner& runner : runners_)
        if (runner.reactor == reactor) return &runner;
    return nullptr;
}

bool Node::stays_asleep(Runner& runner) {
    using State = Runner::State;
    if (!runner.arm) return false;
    if (runner.state == State::kIdle) runner.state = runner.arm() ? State::kAsleep : State::kAwake;
    return runner.state == State::kAsleep && !runner.woken && runner.reactor->next_deadline() > clock_.now();
}

void Node::restart() {
    alive_ = true;
    ++incarnation_;
    world_.note(0xa11e0000u + index_);
}

World::World(uint64_t seed) : random_(seed) {}

Node& World::add_node(std::string name) {
    nodes_.push_back(std::make_unique<Node>(*this, std::move(name), static_cast<uint32_t>(nodes_.size())));
    return *nodes_.back();
}

Node* World::find(std::string_view name) {
    for (auto& node : nodes_)
        if (node->name() == name) return node.get();
    return nullptr;
}

void World::schedule(Nanoseconds at, std::function<void()> event) {
    events_.push_back({std::max(at, now_), scheduled_++, std::move(event)});
    std::push_heap(events_.begin(), events_.end(), Later());
}

size_t World::run_due_events() {
    size_t ran = 0;
    while (!events_.empty() && events_.front().at <= now_) {
        std::pop_heap(events_.begin(), events_.end(), Later());
        std::function<void()> run = std::move(events_.back().run);
        events_.pop_back();
        run();
        ++ran;
    }
    return ran;
}

size_t World::step_reactors() {
    std::vector<std::pair<Node*, reactor::Reactor*>> all;
    for (auto& node : nodes_)
        for (const Node::Runner& runner : node->runners_) all.emplace_back(node.get(), runner.reactor);
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random_.below(i)]);
    size_t events = 0;
    for (auto& [node, reactor] : all) {
        // An earlier reactor of this round may have crashed the node or removed this reactor.
        Node::Runner* runner = node->find(reactor);
        if (runner == nullptr || node->stays_asleep(*runner)) continue;
        runner->woken = false;
        const size_t done = reactor->step();
        // The step may have crashed the node.
        if (runner = node->find(reactor); runner != nullptr)
            runner->state = done > 0 ? Node::Runner::State::kAwake : Node::Runner::State::kIdle;
        if (done > 0 && turns_ + kTurnsNamed > kTurnsMax) busy_.insert(node->name());
        events += done;
    }
    return events;
}

Nanoseconds World::next_time() const {
    Nanoseconds next = events_.empty() ? kNever : events_.front().at;
    for (const auto& node : nodes_)
        for (const Node::Runner& runner : node->runners_)
            next = std::min(next, node->clock_.to_world(runner.reactor->next_deadline()));
    return next;
}

void World::count_turn() {
    if (++turns_ > kTurnsMax) livelock();
}

void World::livelock() const {
    std::string names;
    for (const std::string& name : busy_) names += " " + name;
    std::fprintf(stderr, "livelock: %u turns at %.9f s of simulated time, and there is still work; busy:%s\n",
                 kTurnsMax, static_cast<double>(now_.count) / 1e9, names.empty() ? " events" : names.c_str());
    std::abort();
}

bool World::step(Nanoseconds limit) {
    if (run_due_events() + step_reactors() > 0) {
        count_turn();
        return true;
    }
    turns_ = 0;
    Nanoseconds next = next_time();
    if (next > limit || next == kNever) {
        if (limit != kNever) now_ = limit;
        return false;
    }
    // Time advances by at least one nanosecond: rounding for a drifting clock could otherwise stop it.
    now_ = std::max(next, now_ + Nanoseconds{1});
    return true;
}

void World::run_for(Nanoseconds duration) {
    Nanoseconds limit = now_ + duration;
    while (step(limit)) {
    }
}

bool World::run_until(const std::function<bool()>& done, Nanoseconds limit) {
    Nanoseconds end = now_ + limit;
    while (!done())
        if (!step(end)) return done();
    return true;
}

static std::pair<uint32_t, uint32_t> link(const Node& a, const Node& b) {
    return std::minmax(a.index(), b.index());
}
void World::cut(const Node& a, const Node& b) {
    cuts_.insert(link(a, b));
}
void World::heal(const Node& a, const Node& b) {
    cuts_.erase(link(a, b));
}
bool World::connected(const Node& a, const Node& b) const {
    return !cuts_.contains(link(a, b));
}

bool World::fault(std::string_view name, uint32_t one_in) {
    if (!faults_on_ || one_in == 0) return false;
    auto site =
        std::find_if(fault_sites_.begin(), fault_sites_.end(), [&](auto& s) { return s.first == name; });
    if (site == fault_sites_.end()) {
        fault_sites_.emplace_back(std::string(name), random_.chance(4));
        site = fault_sites_.end() - 1;
    }
    if (!site->second || !random_.chance(one_in)) return false;
    note(std::hash<std::string_view>()(name));
    return true;
}

void World::note(uint64_t what) noexcept {
    // FNV-1a over words: cheap, and order matters.
    trace_ = (trace_ ^ what) * 0x100000001b3u;
    trace_ = (trace_ ^ static_cast<uint64_t>(now_.count)) * 0x100000001b3u;
}

}  // namespace wss::sim
