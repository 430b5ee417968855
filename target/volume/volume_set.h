// SPDX-License-Identifier: Apache-2.0
// VolumeSet: the volumes of a target, seen from the control plane.
//
// Creates, resizes and removes volumes while I/O continues, keeps each reactor's VolumeTable up to date by
// tasks posted to it, and remembers identities (LUN, WWID) and run-time volumes in a state file.
//
// Most changes have two forms. The *_async form does not wait for reactors and calls `done` exactly once: on
// the thread of some reactor, or before it returns when it fails early or there is no reactor. So the
// single-threaded simulation can use it (call, then step). The plain form waits for the change, at most
// Options::wait. Never call it on a reactor's thread. The state file is written before anything is destroyed,
// so if the state disk is full the change fails and everything stays as it was.
//
// Thread-safety: all methods may be called from any thread. The plain forms open and resize files on the
// caller's thread. A resize that times out ends on a background thread.
// Lifetime: the reactors outlive the set. Stop it by close_all() while the reactors still run, then stop the
// reactors, then destroy it. Volumes whose I/O does not end are leaked and logged, not freed, because devices
// may still access their memory.
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
#include <vector>

#include "lib/base/clock.h"
#include "target/volume/closer.h"
#include "target/volume/late_ends.h"
#include "target/volume/notices.h"
#include "target/volume/repeater.h"
#include "target/volume/state_file.h"
#include "target/volume/unopened.h"
#include "target/volume/volume.h"

namespace wss::volume {

// One line of `wssctl volume list`.
struct VolumeInfo {
    std::string name, backend;
    Identity identity;
    uint64_t size = 0;
    uint32_t block_size = 0;
    bool read_only = false, declared = false, removing = false;
    bool closed = false;  // it could not be opened; `trouble` has the reason
    std::vector<std::string> access;
    RateLimits limits;
    std::string trouble;  // of its storage; empty: none
    Totals totals;
};

struct RemoveOptions {
    bool give_up_dirty = false;  // lose acknowledged data that is not in storage
};

class VolumeSet {
  public:
    using Done = std::function<void(Status)>;
    // The number of outstanding writes that a change waits for.
    using WritesLeft = std::shared_ptr<std::atomic<uint64_t>>;
    using Open = std::function<Result<std::unique_ptr<io::Backend>>(const std::string& specification,
                                                                    const io::OpenOptions& options)>;
    using Write = std::function<Status(const StateLock& state, const std::vector<StoredVolume>& volumes)>;
    using Extend = std::function<Result<std::unique_ptr<Extension>>(const Volume& volume)>;

    struct Options {
        StateLock::Shared state;  // nullptr: nothing is stored
        // Mixed into the WWIDs when there is no state file, so that they are the same after a restart and
        // differ between hosts (for instance the machine id).
        std::string identity_salt;
        Open open = io::open_backend;
        // True if the storage of a specification may serve only one volume and does not enforce that itself.
        // If empty, no storage has this restriction.
        std::function<bool(const std::string& specification)> of_one_volume;
        Extend extend;  // may be empty
        Write write = write_state_file;
        // Called after a volume that is not open was deleted: none of its data may be kept. Runs on the
        // caller's thread. `recorded` is called on any thread when the deletion is on stable storage. May be
        // empty.
        std::function<void(uint64_t wwid, std::function<void()> recorded)> deleted;
        // Called on the caller's thread after a volume that is not open was deleted: its persistent
        // reservations must be dropped. May be empty.
        std::function<void(uint64_t wwid)> forgotten;
        // Called before a command deletes anything of a volume, on the caller's thread. May be empty.
        std::function<void(Deletion deletion)> before_deletion;
        Nanoseconds wait = from_s(30);
        // Adds each table to its reactor at once. Otherwise the owner adds it, at its place among the
        // sources.
        bool attach = true;
        // False: the thread that releases a volume last closes it. For programs with a single thread, such as
        // the simulation.
        bool closing_thread = true;
        // For tests with a single thread. `turn` is called while a plain form or a background task waits, and
        // lets reactors and storage continue. If it returns false, the plain form has waited for long enough.
        // `later` takes over the background tasks. The state file is then not corrected in the background.
        std::function<bool()> turn;
        LateEnds::Start later;
    };

    VolumeSet(std::vector<reactor::Reactor*> reactors, Options options);
    ~VolumeSet();
    VolumeSet(const VolumeSet&) = delete;
    VolumeSet& operator=(const VolumeSet&) = delete;

    // Reads the state file and opens its run-time volumes. A damaged file is an error and is not changed. A
    // volume that cannot be opened is logged, listed and kept in the file, and reopen() tries again. Also
    // fails, with nothing open, if try_volumes() finds that one of `declared`, which the caller creates next,
    // cannot be opened. Call once, before create(); the reactors must run.
    Status restore(const std::vector<VolumeOptions>& declared = {});

    // Gives each of these volumes its former LUN, or else a new one, in this order. Call after restore() and
    // before any of them is opened, so that the LUN of one that cannot be opened goes to no other.
    Status declare(const std::vector<VolumeOptions>& volumes);

    VolumeTable& table(size_t reactor_index) { return *tables_[reactor_index]; }
    size_t tables() const { return tables_.size(); }

    Status create(const VolumeOptions& options);
    // The backing file stays. The volume is removed only if that file has all acknowledged data, or `how`
    // gives that data up.
    Status remove(const std::string& name, const RemoveOptions& how = {});
    Status resize(const std::string& name, uint64_t bytes);
    // Opens a volume again after another owner had its storage. It keeps its name, identity, size (unless it
    // covered all of its storage), access and settings. Copies of its contents are dropped, because others
    // may have written to the storage. Refuses when the storage has another owner, or when acknowledged data
    // is not in storage. Also opens a volume that could not be opened before, as a start would.
    struct ReopenOptions {
        bool steal = false;          // shut out the present owner
        bool give_up_dirty = false;  // lose acknowledged data that is not in storage
    };
    Status reopen(const std::string& name, const ReopenOptions& how);
    // Both return when no write that they forbid can still take effect. If storage does not complete such
    // writes within Options::wait, the change stays, and the error has the number of outstanding writes.
    Status set_read_only(const std::string& name, bool read_only);
    // Replaces the list.
    Status set_access(const std::string& name, const std::vector<std::string>& words);
    // A limit of nullopt stays as it is. Commands that wait under the former limits wait under the new ones,
    // or begin.
    struct LimitsChange {
        std::optional<uint64_t> iops, bandwidth;
    };
    Status set_limits(const std::string& name, const LimitsChange& change);

    void create_async(const VolumeOptions& options, Done done) { open_async(options, {}, std::move(done)); }
    void remove_async(const std::string& name, Done done);
    void resize_async(const std::string& name, uint64_t bytes, Done done);
    void set_read_only_async(const std::string& name, bool read_only, Done done, WritesLeft left = nullptr);
    void set_access_async(const std::string& name, const std::vector<std::string>& words, Done done,
                          WritesLeft left = nullptr);
    void set_limits_async(const std::string& name, const RateLimits& limits, Done done);

    // For shutdown: closes every volume on every reactor without forgetting it, including volumes that are
    // being created, reopened or removed. After that no volume is created.
    void close_all_async(Done done);
    Status close_all();

    std::vector<VolumeInfo> list() const;  // in order of LUN
    Result<VolumeInfo> find(const std::string& name) const;
    size_t count() const;

  private:
    struct Record;
    struct Gathering;
    // The state of a volume that is kept even while it is not open.
    struct Known {
        Identity identity;
        // Set at run time; overrides the configuration.
        RecordedSizes sizes;
        bool write_protected = false;
        std::optional<std::vector<std::string>> access;  // nullopt: never
        std::optional<RateLimits> limits;                // nullopt: never
        // It was never opened, or the operator deleted it: its storage may be created. Storage of other
        // volumes is never created: if it is gone, initiators would mistake new, empty storage for it.
        bool unmade = false;
    };
    struct Begun;
    struct Resize;
    struct Turn;
    class SettingTurn;
    using RecordPtr = std::shared_ptr<Record>;

    struct Opening {
        bool again = false;  // it is one of `unopened_`; a file that is too short is not extended
        bool steal = false;  // see ReopenOptions
    };
    void open_async(const VolumeOptions& options, const Opening& how, Done done);
    Status open_again(const std::string& name, bool steal);
    Result<RecordPtr> reserve(const VolumeOptions& options, bool again);
    Status make_volume(Record& record, std::unique_ptr<io::Backend> backend);
    void serve(const RecordPtr& record, Done done);
    void open_on_reactors(const RecordPtr& record, Done done);
    void publish_on_reactors(const RecordPtr& record, Done done);
    void close_on_reactors(const RecordPtr& record, Done done, bool reopening = false);
    struct News;
    void notify_reactors(const std::shared_ptr<Volume>& volume, const News& news, Done done);
    void forget(const RecordPtr& record, bool identity_too);
    void forget_unserved(const RecordPtr& record, const Status& why);
    enum class Until : uint8_t { kBegun, kClosed };
    void retire(Until until = Until::kClosed);
    // False: storage must repeat the notice.
    bool follow_backend(const std::string& name, const Volume* volume, uint64_t before, uint64_t after);
    bool storage_lost(const std::string& name, const Volume* volume, uint64_t bytes);
    // volume_reopen.cc
    class LostVolume;
    Result<RecordPtr> make_again(const Record& lost, const Volume& volume, bool covered_all,
                                 std::unique_ptr<io::Backend> backend);
    void replace(const RecordPtr& lost, const RecordPtr& made, Done done);
    // volume_remove.cc
    struct Removal;
    // volume_resize.cc
    struct Following;
    Result<Resize> begin_resize(const std::string& name, uint64_t bytes, bool follows);
    Status begin_shrink(const Resize& change);
    void drop_beyond(const Resize& change, Done done);
    Status end_shrink(Resize& change);
    Status grow(Resize& change);

    bool is_being_deleted(const std::string& name) const;  // m_ held
    void end_deletion(uint64_t wwid);
    template <typename Value>
    Status save_and_do(const std::string& name, Value Known::*field, const Value& value,
                       const std::function<void(Done)>& start, const WritesLeft& left = nullptr);
    // False: the volume was removed, and another one may have its name.
    bool remember(const Volume& volume, const std::function<void(Known&)>& change);
    bool is_in_file(const std::string& name);  // change_m_ held
    Result<std::shared_ptr<Volume>> hold_live(const std::string& name) const;
    Result<RecordPtr> find_live(const std::string& name) const;      // m_ held
    Result<Identity> choose_identity(const VolumeOptions& options);  // m_ held
    VolumeInfo info_of(const Record& record) const;                  // m_ held
    Status end_of(Begun& begun, const std::string& what, const WritesLeft& left = nullptr);
    Status wait_for(const std::string& what, const std::function<void(Done)>& start);
    std::vector<StoredVolume> to_store() const;  // change_m_ held
    Status save();                               // change_m_ held
    void save_again();                           // change_m_ held

    // Immutable.
    const Options options_;
    const std::vector<reactor::Reactor*> reactors_;
    std::vector<std::unique_ptr<VolumeTable>> tables_;

    std::atomic<bool> ends_{false};  // set by close_all(), never cleared; written under m_

    // Held by one change of the stored state at a time, until that is saved or reverted. Otherwise another
    // change's save could write a refused change to the file. Never held while waiting for reactors. Taken
    // before m_.
    std::mutex change_m_;
    // Guarded by change_m_.
    bool restored_ = false;            // a file that was not read is not replaced
    std::vector<StoredVolume> saved_;  // contents of the file
    bool saved_is_known_ = false;      // false: a save failed, and the file may hold its contents

    std::mutex retire_m_;  // one thread at a time releases the volumes of retired_; taken before m_
    const std::shared_ptr<Closer> closer_;  // ended when all other threads of the set have ended

    mutable std::mutex m_;
    std::condition_variable setting_over_;  // of m_
    // By volume: the setting change in progress, then those that wait for it. No queue is empty.
    std::map<std::string, std::deque<const SettingTurn*>> settings_;
    std::vector<Done> all_closed_;  // called when the last record is gone
    std::map<std::string, RecordPtr> records_;
    std::map<std::string, Known> known_;  // also declared volumes that are not open now
    Unopened unopened_;
    std::vector<StoredVolume> deleting_;  // recorded in the file until they are gone
    // LUNs of volumes that this process has deleted, oldest first. They are used again only when no others
    // are free: commands that an initiator sent before it was notified of the deletion may arrive at any
    // time, and must not reach another volume. After a restart initiators log in and scan the volumes first.
    std::deque<uint32_t> former_luns_;
    // Volumes that every reactor has released, until retire() releases them too.
    std::vector<std::shared_ptr<Volume>> retired_;

    // Stopped before other members are destroyed.
    LateEnds late_ends_{options_.later, !options_.turn};
    const std::shared_ptr<Notices> notices_;  // ended then, too
    // The last member, so that its thread ends first. begin() is called with change_m_ held.
    Repeater correct_later_{[this] {
                                std::lock_guard changing(change_m_);
                                return saved_is_known_ || save().is_ok();
                            },
                            !options_.later};
};

}  // namespace wss::volume
