// SPDX-License-Identifier: Apache-2.0
// ReservationBook: the persistent reservations of all volumes, by WWID. The only place where they change.
//
// Those that are to persist are kept in a file beside the state file, `STATE.reservations`: JSON, replaced
// atomically, written before the change counts. It holds volumes that are not open now as well. Without a
// state file nothing is kept.
//
// Thread-safety: all methods may be called from any thread. With a file, changes are made on a thread of the
// book's own, as writing may block; else on the caller's.
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
    // nullopt: nothing changes.
    using Decide = std::function<std::optional<Reservations>(const Reservations& now)>;
    // What there is now. A failure changed nothing.
    using Done = std::function<void(const Status& status, const Shared& now)>;

    ReservationBook() = default;  // without a file
    // Replaces the file; tests have another one.
    using Write = std::function<Status(const StateLock& state, std::string_view text)>;
    static Status write_file(const StateLock& state, std::string_view text);
    static Result<std::shared_ptr<ReservationBook>> open(StateLock::Shared state, Write write = write_file);
    ~ReservationBook();
    ReservationBook(const ReservationBook&) = delete;
    ReservationBook& operator=(const ReservationBook&) = delete;

    bool has_file() const noexcept { return state_ != nullptr; }
    // nullptr: there was never one since the start.
    Shared find(uint64_t wwid) const;
    // One at a time, in the order of the calls. `lasts`: the volume has the same WWID after a restart.
    void change(uint64_t wwid, bool lasts, Decide decide, Done done);
    // The volume was deleted.
    void forget(uint64_t wwid);
    // The target ends: volumes that go are not deleted ones.
    void keep_all() noexcept { keeps_all_ = true; }

    // The file's text and back, for tests.
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
    // What the file holds; nullopt: a write of it failed. Guarded by change_m_. A file that could not be read
    // is never written.
    std::optional<std::string> stored_ = "";
    mutable std::mutex m_;
    // Guarded by m_.
    Entries entries_;
    std::deque<std::function<void()>> tasks_;
    bool stopping_ = false;
    std::condition_variable wake_;  // of m_
    std::thread thread_;            // with a file
    // A file that may hold what was refused.
    Repeater correct_later_{[this] { return correct(); }};
};

}  // namespace wss::volume
