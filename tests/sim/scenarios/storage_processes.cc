// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/storage_processes.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/log.h"

namespace wss::sim {

StorageProcesses::StorageProcesses(World& world, const StorageOptions& options, Node& target,
                                   const std::vector<Node*>& engines, StorageResult& result)
    : world_(world),
      options_(options),
      target_(target),
      engines_(engines),
      result_(result),
      image_(world, options.sectors * io::SimDevice::kSector, options.image),
      processes_(options.processes) {
    for (size_t i = 0; i < processes_.size(); ++i)
        processes_[i].node = &world.add_node(fmt::format("storage{}", i));
}

Nanoseconds StorageProcesses::span(Nanoseconds most) {
    const int64_t limit = random().chance(3) ? most.count : most.count / 10;
    return Nanoseconds{1 + static_cast<int64_t>(random().below(static_cast<uint64_t>(limit)))};
}

StorageProcesses::Process* StorageProcesses::holder() {
    for (Process& process : processes_)
        if (process.client != nullptr && process.client == image_.holder()) return &process;
    return nullptr;
}

cache::Engine* StorageProcesses::holder_engine() {
    Process* process = holder();
    const bool serves =
        process != nullptr && process->state == Process::State::kRunning && !process->read_only;
    return serves ? &process->engine->engine() : nullptr;
}

bool StorageProcesses::one_opens() const {
    return std::any_of(processes_.begin(), processes_.end(),
                       [](const Process& one) { return one.state == Process::State::kOpening; });
}

bool StorageProcesses::none_runs() const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const Process& one) { return one.state == Process::State::kOff; });
}

void StorageProcesses::note_chain_end() {
    ++result_.chains;
    chain_ended_ = true;
}

void StorageProcesses::take_by_another() {
    note_chain_end();
    if (random().chance(2)) return image_.take_without_mark();
    log::info("[it has a mark]");
    io::SimImageClient& other = image_.take("another");
    if (random().chance(2)) return;
    if (random().chance(2))
        other.kill();
    else
        other.close();
}

// ---- The life of a process -------------------------------------------------------------------------------

void StorageProcesses::take(Process& process, Nanoseconds opening, bool read_only) {
    ++result_.takings;
    process.read_only = read_only;
    result_.read_only += read_only;
    process.client = &image_.take(read_only ? "" : kOwner);
    process.state = Process::State::kOpening;
    process.until = world_.now() + opening;
    const io::Succession now = process.client->succession();
    log::info("[{} takes the image{}, term {} since {}, opens for {} ms]", process.node->name(),
              read_only ? " read-only" : "", now.term, now.since, opening.count / 1'000'000);
    world_.note(now.term << 8 | process.node->index());
}

void StorageProcesses::join(Process& process) {
    log::info("[{} joins]", process.node->name());
    process.engine = std::make_unique<ClusterEngine>(*process.node, options_.network, kMemory, "target",
                                                     process.client, &options_.network, process.read_only);
    process.state = Process::State::kRunning;
    if (!process.engine->start()) kill(process);
}

void StorageProcesses::kill(Process& process) {
    log::info("[{} is killed]", process.node->name());
    process.node->crash();
    process.client->kill();
    result_.used += process.client->is_used();
    retire(std::move(process.engine));
    process.node->restart();
    process.client = nullptr;
    process.state = Process::State::kOff;
    process.cut_until = {};
}

void StorageProcesses::stop(Process& process) {
    log::info("[{} is stopped]", process.node->name());
    process.state = Process::State::kStopping;
    process.until = world_.now() + kStopMax;
    process.engine->stop();
}

void StorageProcesses::stopped(Process& process) {
    log::info("[{} has stopped]", process.node->name());
    process.client->close();
    result_.used += process.client->is_used();
    process.engine.reset();
    process.node->crash();
    process.node->restart();
    process.client = nullptr;
    process.state = Process::State::kOff;
    process.cut_until = {};
    if (!std::exchange(process.starts_again, false) || one_opens()) return;
    ++result_.restarts;
    take(process, span(std::min(options_.opening_max, from_s(2))), by_mistake());
}

void StorageProcesses::go_on() {
    const io::SimImageClient* holder = image_.holder();
    if (holder != nullptr && holder->is_used()) chain_ended_ = false;
    for (Process& process : processes_) {
        const bool due = world_.now() >= process.until;
        if (process.client != nullptr && process.client->is_cut_off() && world_.now() >= process.cut_until) {
            log::info("[{} reaches the image]", process.node->name());
            process.client->cut_off(false);
        }
        if (process.state == Process::State::kOpening && due)
            join(process);
        else if (process.state == Process::State::kStopping && process.engine->gone())
            stopped(process);
        else if (process.state == Process::State::kStopping && due)
            kill(process);
    }
}

void StorageProcesses::start_first() {
    take(processes_[0], {});
}

// ---- Faults ----------------------------------------------------------------------------------------------

void StorageProcesses::die_while_taking() {
    using Death = io::SimImage::Death;
    ++result_.deaths;
    const Death death = static_cast<Death>(random().below(3));
    log::info("[a start dies while it takes the image, {}]", static_cast<int>(death));
    if (image_.die_while_taking(death)) note_chain_end();
}

void StorageProcesses::cut_from_image(Process& process, Nanoseconds how_long) {
    log::info("[{} is cut off from the image for {} ms]", process.node->name(), how_long.count / 1'000'000);
    process.cut_until = world_.now() + how_long;
    process.client->cut_off(true);
}

void StorageProcesses::cut_link(Node& one, Node& other, Nanoseconds how_long) {
    log::info("[{} and {} are cut off for {} ms]", one.name(), other.name(), how_long.count / 1'000'000);
    world_.cut(one, other);
    world_.schedule_in(how_long, [this, &one, &other] { world_.heal(one, other); });
}

// Cuts the process off from the image, the target and the engines, as if it were paused. Its clock continues.
void StorageProcesses::pause(Process& process) {
    ++result_.pauses;
    const Nanoseconds how_long = cut_span();
    cut_from_image(process, how_long);
    cut_link(target_, *process.node, how_long);
    for (Node* engine : engines_) cut_link(*engine, *process.node, how_long);
}

void StorageProcesses::silence_image() {
    ++result_.silences;
    const Nanoseconds how_long = cut_span();
    log::info("[the image does not answer for {} ms]", how_long.count / 1'000'000);
    silent_until_ = world_.now() + how_long;
    for (Process& process : processes_)
        if (process.client != nullptr && !process.client->is_cut_off()) cut_from_image(process, how_long);
}

void StorageProcesses::inject_into(Process& process) {
    const bool runs = process.state == Process::State::kRunning;
    if (random().chance(options_.link_cut_one_in)) {
        ++result_.link_cuts;
        cut_link(target_, *process.node, span(kLinkCutMax));
    }
    if (random().chance(options_.reach_cut_one_in)) {
        ++result_.link_cuts;
        cut_link(*engines_[random().below(engines_.size())], *process.node, span(kLinkCutMax));
    }
    if (runs && !process.client->is_cut_off() && random().chance(options_.image_cut_one_in)) {
        ++result_.image_cuts;
        cut_from_image(process, cut_span());
    }
    if (runs && !process.client->is_cut_off() && random().chance(options_.pause_one_in)) pause(process);
    if (runs && random().chance(options_.stop_one_in)) {
        ++result_.stops;
        process.starts_again = random().chance(2);
        stop(process);
    } else if (process.state != Process::State::kOff && random().chance(options_.kill_one_in)) {
        ++result_.kills;
        kill(process);
    }
}

// Starts a process at random, as an operator would: more often if the holder is cut off from the image or if
// no process has the image.
void StorageProcesses::inject_takings() {
    if (one_opens() || world_.now() < silent_until_) return;
    if (random().chance(options_.death_one_in)) return die_while_taking();
    const Process* has_it = holder();
    uint32_t one_in = options_.take_one_in;
    if (has_it == nullptr) one_in = 40;
    if (has_it != nullptr && has_it->client->is_cut_off()) one_in /= 4;
    Process& process = any();
    if (process.state == Process::State::kOff && random().chance(one_in))
        take(process, span(options_.opening_max), by_mistake());
}

void StorageProcesses::rescue() {
    silent_until_ = {};
    Process* has_it = holder();
    if (has_it != nullptr && has_it->state == Process::State::kStopping) return;
    if (has_it != nullptr && has_it->read_only) kill(*std::exchange(has_it, nullptr));
    if (has_it == nullptr && one_opens()) return;
    if (has_it == nullptr) {
        const auto off = std::find_if(processes_.begin(), processes_.end(),
                                      [](const Process& one) { return one.state == Process::State::kOff; });
        has_it = off == processes_.end() ? &any() : &*off;
        if (has_it->state != Process::State::kOff) kill(*has_it);
        return take(*has_it, from_ms(500));
    }
    world_.heal(target_, *has_it->node);
    has_it->cut_until = world_.now();
    if (has_it->state == Process::State::kOpening) has_it->until = std::min(has_it->until, world_.now());
}

void StorageProcesses::inject(bool rescues) {
    go_on();
    if (rescues) return rescue();
    if (random().chance(options_.silence_one_in)) silence_image();
    inject_into(any());
    inject_takings();
}

void StorageProcesses::heal() {
    for (Process& process : processes_) {
        if (process.state == Process::State::kStopping) process.until = world_.now() + from_s(1);
        process.starts_again = false;
        const bool former = process.client != nullptr && process.client->is_fenced();
        // After the end of a chain the volume waits until the process that served it notices its loss.
        if (former && options_.formers_stay_cut && !chain_ended_)
            process.cut_until = kNever;
        else
            process.cut_until = world_.now();
    }
}

// ---- Shutdown --------------------------------------------------------------------------------------------

void StorageProcesses::stop_all() {
    for (Process& process : processes_) {
        process.cut_until = world_.now();
        if (process.state == Process::State::kRunning) stop(process);
    }
}

void StorageProcesses::abandon() {
    for (Process& process : processes_) {
        if (process.client != nullptr) result_.used += process.client->is_used();
        retire(std::move(process.engine));
    }
}

}  // namespace wss::sim
