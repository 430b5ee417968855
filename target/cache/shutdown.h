// SPDX-License-Identifier: Apache-2.0
// Shutdown: the end of the cache (life.h). Everything dirty is brought home, the engines' links are closed,
// the membership is saved a last time.
//
// It owns the deadline and the results. It calls the volume control (drain), the engines, the admission and
// the members.
//
// Thread-safety: belongs to the cache's reactor. Control plane: allocates.
#pragma once

#include <functional>

#include "target/cache/admission.h"
#include "target/cache/volume_control.h"

namespace wss::se {

// Whether the membership is saved at the end. A target that did not start leaves what its predecessor saved.
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

    // How everything was brought home: what was not stays in the engines, and the next start finds it;
    // whether what that start needs was saved.
    using Done = std::function<void(Status home, Status saved)>;
    void begin(Nanoseconds home_max, LastSave last, Done done);
    void turn() {
        if (uses_.life.stopping()) check();
    }

  private:
    void leave_engines(Status home);
    void check();

    const Uses uses_;
    reactor::Reactor& reactor_;
    Nanoseconds until_{};  // the end of what begin() is at
    LastSave last_ = LastSave::kYes;
    bool behind_ = false;  // what was saved was not the latest even before the end
    Status home_;          // from Life::State::kLeaving on: how everything was brought home
    Done done_;
};

}  // namespace wss::se
