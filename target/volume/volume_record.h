// SPDX-License-Identifier: Apache-2.0
// Internal types that the source files of VolumeSet share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "target/volume/volume_set.h"

namespace wss::volume {

// A volume and its OpenVolume on each reactor. The vector is complete before any reactor uses it and is
// emptied when all have released it.
struct VolumeSet::Record {
    enum class State : uint8_t { kOpening, kLive, kRemoving };
    // Immutable once the volume is live, unless noted.
    VolumeOptions options;         // as requested; `volume` has the results. `limits` guarded by m_
    bool write_protected = false;  // by an earlier set_read_only()
    bool grow = true;              // extend a file that is too short
    RecordedSizes sizes;
    uint64_t configured_size = 0;  // `options` may have one that was set at run time
    // The volume begins with at most this size, because a shrink with which it followed its storage was cut
    // off; 0: no limit.
    uint64_t at_most = 0;
    // The next start requires the size that the volume has. False: it covers all of the storage then.
    bool keeps_size = true;
    // The size that a volume without size= has if nobody else may resize its storage; 0: all of it.
    uint64_t size_if_private = 0;
    uint64_t part = 0;  // for VolumeSize::make(); 0: derived from the sizes of volume and storage
    Identity identity;
    std::shared_ptr<const AccessList> access;  // of options.access; both guarded by m_
    // Set by the thread that creates it, before any reactor uses it.
    std::shared_ptr<Volume> volume;
    uint64_t storage_bytes = 0;  // its size when `volume` was created
    std::vector<std::unique_ptr<OpenVolume>> opens;
    // Takes what was set at run time, before it is opened.
    void restore(const Known& known);
    // Ends a shrink that the end of the target cut off, but leaves the storage unchanged.
    void end_shrink(VolumeSet& set) const;
    // At a start: forgets a shrink of the backend that this target must no longer make.
    void check_cut(const io::Backend& backend);
    State state = State::kOpening;  // guarded by m_
    // Set while it is being removed: a reopening in progress is then given up.
    const std::shared_ptr<std::atomic<bool>> removed = std::make_shared<std::atomic<bool>>(false);
    bool reopening = false;             // is replaced by, or replaces, one of the same name; guarded by m_
    std::string not_followed;           // why it does not follow its storage's size; guarded by m_
    std::atomic<bool> resizing{false};  // one change of size at a time; see Turn
};

// A change that is posted to the reactors, with the volume's new values.
struct VolumeSet::News {
    Change change;
    std::shared_ptr<const AccessList> access = nullptr;
    std::shared_ptr<RateLimiter> limiter = nullptr;  // for kLimits; nullptr: no limits
    // Counts the writes that a fence waits for; nullptr: no fence.
    WritesLeft writes = nullptr;
};

// The failure of any change whose volume was removed before the change completed.
inline Status removed_meanwhile() {
    return Status(Code::kClosed, "the volume was removed meanwhile");
}

// The access list that grants nothing.
std::shared_ptr<const AccessList> nobody();
// nullptr: no limits.
std::shared_ptr<RateLimiter> limiter_of(const RateLimits& limits);

// While it exists, it excludes other resizes and reopenings of the volume. The creator has set `resizing`.
struct VolumeSet::Turn {
    explicit Turn(RecordPtr its_record) : record(std::move(its_record)) {}
    ~Turn() { record->resizing.store(false); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    const RecordPtr record;
};

// A change in progress. Shared, because it may complete after its caller has timed out.
struct VolumeSet::Begun {
    static std::shared_ptr<Begun> begin(const std::function<void(Done)>& start);
    // False: it is not complete after `limit`, after Options::wait, or when `stop` is requested.
    bool wait_for(Nanoseconds limit);
    bool wait(const Options& options);
    bool wait(const Options& options, const std::stop_token& stop);
    std::mutex m;
    std::condition_variable_any changed;
    bool done = false;  // guarded by m
    Status status;      // guarded by m
};

// Calls `done` with the first failure, or ok, when `left` answers have arrived.
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
