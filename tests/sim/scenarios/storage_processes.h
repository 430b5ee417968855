// SPDX-License-Identifier: Apache-2.0
// StorageProcesses: the storage processes of the scenario "storage", each on a separate node, and the
// faults of these processes. All of them have the same image and the same target.
//
// A process that starts takes the image, spends some time opening it, and joins the target. At most one opens
// it at a time: two processes that are started together are not successors of each other
// (Documentation/ceph.md).
#pragma once

#include <memory>
#include <vector>

#include "lib/io/sim/sim_image.h"
#include "tests/sim/scenarios/cluster_parts.h"
#include "tests/sim/scenarios/storage.h"

namespace wss::sim {

class StorageProcesses {
  public:
    StorageProcesses(World& world, const StorageOptions& options, Node& target,
                     const std::vector<Node*>& engines, StorageResult& result);

    // Starts the first process without faults.
    void start_first();
    // One turn of the injector. `rescue` means that the holder has not reached the target for a while. It can
    // then reach the target, and suffers no faults.
    void inject(bool rescue);
    // Ends the faults.
    void heal();
    // Continues what has begun, without new faults.
    void go_on();
    // Like go_on(), after heal(). Also ensures that one process has the image.
    void settle() {
        go_on();
        rescue();
    }
    // Stops every process cleanly.
    void stop_all();
    void abandon();

    // Returns the engine of the process that has the image. nullptr: no process has it, or that process has
    // not started its engine yet, is stopping or is read-only.
    cache::Engine* holder_engine();
    io::SimImage& image() noexcept { return image_; }
    // Returns true if the chain of holders has ended, or another owner was in it, and the target has not used
    // a holder since.
    bool chain_ended() const noexcept { return chain_ended_; }
    // Returns true if no process is running, opening the image or stopping.
    bool none_runs() const;
    // Another owner takes the image from the holder.
    void take_by_another();

  private:
    struct Process {
        enum class State : uint8_t { kOff, kOpening, kRunning, kStopping };
        Node* node = nullptr;
        io::SimImageClient* client = nullptr;
        std::unique_ptr<ClusterEngine> engine;
        State state = State::kOff;
        bool read_only = false;
        Nanoseconds until{};        // kOpening: it joins then; kStopping: it is killed then
        Nanoseconds cut_until{};    // end of its cut from the image
        bool starts_again = false;  // it is started again after the stop
    };
    static constexpr Nanoseconds kLinkCutMax = from_s(8), kImageCutMax = from_s(45), kStopMax = from_s(10);
    static constexpr const char* kOwner = "target";
    static constexpr uint64_t kMemory = 8 * 1024 * 1024;

    Random& random() { return world_.random(); }
    Process& any() { return processes_[random().below(processes_.size())]; }
    Process* holder();
    bool one_opens() const;
    // Most spans are short.
    Nanoseconds span(Nanoseconds most);
    void take(Process& process, Nanoseconds opening, bool read_only = false);
    void join(Process& process);
    void kill(Process& process);
    void stop(Process& process);
    void stopped(Process& process);
    void die_while_taking();
    void note_chain_end();
    void cut_from_image(Process& process, Nanoseconds how_long);
    void cut_link(Node& one, Node& other, Nanoseconds how_long);
    void pause(Process& process);
    void silence_image();
    bool by_mistake() { return random().chance(options_.read_only_one_in); }
    Nanoseconds cut_span() { return span(random().chance(2) ? kImageCutMax : kLinkCutMax); }
    void inject_into(Process& process);
    void inject_takings();
    void rescue();

    World& world_;
    const StorageOptions& options_;
    Node& target_;
    const std::vector<Node*>& engines_;
    StorageResult& result_;
    io::SimImage image_;
    std::vector<Process> processes_;
    Nanoseconds silent_until_{};  // until then the image answers no process
    bool chain_ended_ = false;
};

}  // namespace wss::sim
