// SPDX-License-Identifier: Apache-2.0
// ReservationBook: the persistent reservations of all volumes, by WWID. Only the book changes them.
//
// Reservations that persist (APTPL) are kept in the file `STATE.reservations` beside the state file: JSON,
// replaced atomically, written before the change takes effect. The file also holds those of volumes that are
// not open. Without a state file nothing is kept.
//
// Thread-safety: all methods may be called from any thread. With a file, changes run on the book's own
// thread, because writing may block. Without one, they run on the caller's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "target/volume/repeater.h"
#include "target/volume/reservations.h"
#include "target/volume/state_lock.h"

namespace wss::volume {

class ReservationBook {
  public:
    using Shared = std::shared_ptr<const Reservations>;
    // Returns the new reservations; nullopt: no change.
    using Decide = std::function<std::optional<Reservations>(const Reservations& now)>;
    // `now`: the reservations after the call. A failure changes nothing.
    using Done = std::function<void(const Status& status, const Shared& now)>;

    ReservationBook() = default;  // without a file
    // Replaces the file. Tests inject another function.
    using Write = std::function<Status(const StateLock& state, std::string_view text)>;
    static Status write_file(const StateLock& state, std::string_view text);
    static Result<std::shared_ptr<ReservationBook>> open(StateLock::Shared state, Write write = write_file);
    ~ReservationBook();
    ReservationBook(const ReservationBook&) = delete;
    ReservationBook& operator=(const ReservationBook&) = delete;

    bool has_file() const noexcept { return state_ != nullptr; }
    // nullptr: the volume has no entry.
    Shared find(uint64_t wwid) const;
    // Changes run one at a time, in the order of the calls. `lasts`: the volume keeps its WWID across a
    // restart.
    void change(uint64_t wwid, bool lasts, Decide decide, Done done);
    // Drops the reservations of a deleted volume.
    void forget(uint64_t wwid);
    // The target is stopping: after this call volumes close without being deleted, so forget() does nothing.
    void keep_all() noexcept { keeps_all_ = true; }

    // Convert to the file's text and back, for tests.
    using Stored = std::map<uint64_t, Reservations>;
    static std::string format(const Stored& stored);
    static Result<Stored> parse(const std::string& text, const std::string& path);

  private:
    struct Entry {
        Shared now;
        bool lasts = true;
    };
    using Entries = std::map<uint64_t, Entry>;
    ReservationBook(StateLock::Shared state, Write write)
        : state_(std::move(state)), write_(std::move(write)) {}
    Status load();
    void run();
    void perform(uint64_t wwid, bool lasts, const Decide& decide, const Done& done);
    Entries entries() const;
    Status store(const Entries& all);
    Status store_or_correct(const Entries& all);
    bool correct();
    void post(std::function<void()> task);

    const StateLock::Shared state_;
    const Write write_;
    std::atomic<bool> keeps_all_{false};
    std::mutex change_m_;  // one change at a time; taken before m_
    // The text of the file; nullopt: a write of it failed. Guarded by change_m_. A file that could not be
    // read is never written.
    std::optional<std::string> stored_ = "";
    mutable std::mutex m_;
    // Guarded by m_.
    Entries entries_;
    std::deque<std::function<void()>> tasks_;
    bool stopping_ = false;
    std::condition_variable wake_;  // of m_
    std::thread thread_;            // with a file
    // Rewrites a file that may hold a refused change.
    Repeater correct_later_{[this] { return correct(); }};
};

}  // namespace wss::volume
