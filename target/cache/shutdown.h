// SPDX-License-Identifier: Apache-2.0
// Shutdown: the end of the cache (life.h). Dirty lines are destaged, the links to engines are closed, and the
// membership is saved a last time.
//
// It owns the deadline and the results. It calls the volume control (destage_all()), the engines, the
// admission and the members.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>

#include "target/cache/admission.h"
#include "target/cache/volume_control.h"

namespace wss::cache {

// Whether the membership is saved at the end. A target that failed to start leaves the membership of its
// predecessor unchanged.
enum class LastSave : uint8_t { kYes, kNo };

class Shutdown {
  public:
    struct Uses {
        EngineSet& engines;
        Admission& admission;
        Members& members;
        AbsentVolumes& absent;
        RecoveryRun& recovery;
        VolumeControl& volumes;
        Life& life;
        Turn& turn;
    };
    Shutdown(const Uses& uses, reactor::Reactor& reactor) : uses_(uses), reactor_(reactor) {}

    // `home`: the result of destaging. Lines that were not destaged stay in the engines, where the next start
    // finds them. `saved`: whether the state that the next start needs was saved.
    using Done = std::function<void(Status home, Status saved)>;
    void begin(Nanoseconds home_max, LastSave last, Done done);
    void turn() {
        if (uses_.life.stopping()) check();
    }

  private:
    void destage();
    void leave_engines(Status home);
    void check();

    const Uses uses_;
    reactor::Reactor& reactor_;
    Nanoseconds until_{};  // deadline of the current step
    LastSave last_ = LastSave::kYes;
    bool behind_ = false;  // the saved membership was not the latest even before the last save
    Status home_;          // set in Life::State::kLeaving: the result of destaging
    Done done_;
};

}  // namespace wss::cache
