// SPDX-License-Identifier: Apache-2.0
#include "target/cache/shutdown.h"

namespace wss::cache {

constexpr Nanoseconds kLastSaveMax = from_s(2);  // limit for the save of the membership at the end

// Storage that hangs, or a state that cannot be saved, may keep dirty lines from being destaged forever. When
// the time has expired, the remaining lines stay in the engines, and these stay members on stable storage.
void Shutdown::begin(Nanoseconds home_max, LastSave last, Done done) {
    uses_.life.advance(Life::State::kStopping);
    done_ = std::move(done);
    last_ = last;
    until_ = reactor_.clock().now() + home_max;
    uses_.admission.close_ports();
    uses_.admission.tick();
    uses_.volumes.end_waits();
    destage();
}

// Commands that were unanswered when destaging began may have made lines dirty since.
void Shutdown::destage() {
    uses_.volumes.destage_all([this](Status home) {
        const bool again = home.is_ok() && uses_.volumes.any_dirty();
        again ? destage() : leave_engines(std::move(home));
    });
}

void Shutdown::leave_engines(Status home) {
    if (uses_.life.leaving()) return;
    if (last_ == LastSave::kYes) uses_.volumes.note_lost_storage();
    uses_.life.advance(Life::State::kLeaving);
    home_ = std::move(home);
    // If the cache ends cleanly and nothing is dirty, the next start need not wait for any engine. During a
    // recovery, the lines of volumes that are not open are unknown.
    const bool clean =
        last_ == LastSave::kYes && home_ && !uses_.recovery.holding() && !uses_.absent.any_lines();
    if (clean) {
        uses_.members.edit().degraded = false;
        std::erase_if(uses_.members.edit().dirty,
                      [this](const auto& known) { return !uses_.members.now().lost.any_of(known.first); });
        std::erase_if(uses_.members.edit().storage_lost,
                      [this](uint64_t wwid) { return !uses_.members.now().dirty.contains(wwid); });
    }
    behind_ = uses_.members.pending();
    for (const EngineLink& engine : uses_.engines.all())
        if (clean) uses_.members.edit().engines.erase(engine.identity().identity);
    until_ = reactor_.clock().now() + kLastSaveMax;
    if (last_ == LastSave::kYes) uses_.members.save();
    uses_.members.conclude();
    for (EngineLink& engine : uses_.engines.all())
        engine.close(Status(Code::kClosed, "the target is shutting down"));
    uses_.turn.want();
}

void Shutdown::check() {
    if (uses_.life.state() == Life::State::kStopped) return;
    const Nanoseconds now = reactor_.clock().now();
    if (!uses_.life.leaving() && now >= until_)
        leave_engines(
            failure(Code::kTimedOut, "dirty lines could not be destaged in time; they stay in the engines"));
    if (!uses_.life.leaving() || !uses_.engines.empty() || !uses_.admission.empty()) return;
    const bool unsaved = uses_.members.pending();
    if (unsaved && now < until_) return;
    uses_.life.advance(Life::State::kStopped);
    // If only the last save is missing, the next start waits for engines unnecessarily, but nothing worse
    // happens.
    Status saved;
    if (unsaved && behind_ && last_ == LastSave::kYes)
        saved = failure(
            Code::kIo,
            "the cache's membership could not be saved ({}). The next start uses an older one. It then "
            "destages dirty lines that have been given up since, and dirty lines for storage that another "
            "owner has written since. Make room, and check such volumes before that start",
            uses_.members.trouble() ? "it takes too long" : uses_.members.trouble().to_string());
    done_(home_, std::move(saved));
}

}  // namespace wss::cache
