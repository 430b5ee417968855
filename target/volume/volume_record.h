// SPDX-License-Identifier: Apache-2.0
// What the parts of VolumeSet share: volume_set.cc, volume_resize.cc and volume_reopen.cc.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "target/volume/volume_set.h"

namespace wss::volume {

// A volume and its OpenVolume on each reactor. The vector is complete before any reactor sees it and is
// emptied when all have let go.
struct VolumeSet::Record {
    enum class State : uint8_t { kOpening, kLive, kRemoving };
    // Immutable.
    VolumeOptions options;         // as asked for; `volume` has what came of it. `limits` by m_
    bool write_protected = false;  // by an earlier set_read_only()
    bool grow = true;              // a file that is too short is made longer
    bool shrinking = false;        // as Known says
    uint64_t cut_from = 0;
    std::string cut_ownership;
    uint64_t part = 0;  // see Volume::fit(); 0: its size and its storage show it
    Identity identity;
    std::shared_ptr<const AccessList> access;  // of options.access, which follow set_access(): guarded by m_
    // Set by the thread that creates it, before any reactor sees it.
    std::shared_ptr<Volume> volume;
    uint64_t storage_bytes = 0;  // when `volume` was made of it
    std::vector<std::unique_ptr<OpenVolume>> opens;
    // At a start: forgets a cut that is not ours to make any more.
    void check_cut(const io::Backend& backend);
    State state = State::kOpening;      // guarded by m_
    bool reopening = false;             // it is replaced by another one of its name, or replaces one; by m_
    std::string not_followed;           // a size of its storage, for this reason; by m_
    std::atomic<bool> resizing{false};  // one change of size at a time; see Turn
};

// What reactors are told of a volume, with what replaces what they have.
struct VolumeSet::News {
    Change change;
    std::shared_ptr<const AccessList> access = nullptr;
    std::shared_ptr<RateLimiter> limiter = nullptr;  // of kLimits; nullptr: there are none
    // Counts the writes that a fence waits for; nullptr: the change fences nobody.
    WritesLeft writes = nullptr;
};

// Whatever the change was.
inline Status removed_meanwhile() {
    return Status(Code::kClosed, "the volume was removed meanwhile");
}

// Grants nothing.
std::shared_ptr<const AccessList> nobody();
// nullptr: no limits.
std::shared_ptr<RateLimiter> limiter_of(const RateLimits& limits);

// While it exists nobody else changes the size of the volume or reopens it.
struct VolumeSet::Turn {
    explicit Turn(RecordPtr its_record) : record(std::move(its_record)) {}
    ~Turn() { record->resizing.store(false); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    const RecordPtr record;
};

// A change that was begun. Shared: its end may come after everybody gave up waiting.
struct VolumeSet::Begun {
    static std::shared_ptr<Begun> begin(const std::function<void(Done)>& start);
    // False: it is not over after so long, or `stop` was requested.
    bool wait_for(Nanoseconds limit);
    bool wait(const std::stop_token& stop);
    std::mutex m;
    std::condition_variable_any changed;
    bool done = false;  // guarded by m
    Status status;      // guarded by m
};

// Calls `done` with the first failure, or ok, when `left` answers have come.
struct VolumeSet::Gathering {
    Gathering(size_t expected, Done when_done) : left(expected), done(std::move(when_done)) {}
    std::mutex m;
    size_t left;   // guarded by m
    Status first;  // guarded by m
    Done done;

    void arrive(Status status) {
        {
            std::lock_guard lock(m);
            if (!status && first) first = std::move(status);
            if (--left > 0) return;
        }
        done(std::move(first));
    }
};

}  // namespace wss::volume
