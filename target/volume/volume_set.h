// SPDX-License-Identifier: Apache-2.0
// VolumeSet: the volumes of a target, seen from the control plane.
//
// Creates, resizes and removes volumes while I/O goes on, keeps each reactor's VolumeTable up to date by
// tasks posted to it, and remembers identities (LUN, WWID) and run-time volumes in a state file.
//
// Each change has two forms. The *_async form returns at once and calls `done` exactly once, on the thread of
// some reactor, or before it returns when it fails early or there is no reactor; it never blocks on a
// reactor, so the single-threaded simulation can use it (call, then step). The plain form waits for it,
// bounded by Options::wait; never call it on a reactor's thread. The state file is written before anything is
// destroyed, so a state disk that is full refuses the change and leaves everything as it was.
//
// Thread-safety: all methods may be called from any thread. Opening and resizing of files happens on the
// caller's thread.
// Lifetime: the reactors outlive the set. Stop it by close_all() while the reactors still turn, then stop the
// reactors, then destroy it. Volumes whose I/O does not end are leaked with a log line rather than freed
// under the device's feet.
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
    bool closed = false;  // it could not be opened, for the reason that `trouble` has
    std::vector<std::string> access;
    RateLimits limits;
    std::string trouble;  // of its storage; empty: none
    Totals totals;
};

struct RemoveOptions {
    bool give_up_dirty = false;  // acknowledged data that is not in storage is lost
};

class VolumeSet {
  public:
    using Done = std::function<void(Status)>;
    // Writes that are under way, and that a change waits for.
    using WritesLeft = std::shared_ptr<std::atomic<uint64_t>>;
    using Open = std::function<Result<std::unique_ptr<io::Backend>>(const std::string& specification,
                                                                    const io::OpenOptions& options)>;
    using Write = std::function<Status(const StateLock& state, const std::vector<StoredVolume>& volumes)>;
    using Extend = std::function<Result<std::unique_ptr<Extension>>(const Volume& volume)>;

    struct Options {
        StateLock::Shared state;  // nullptr: nothing is remembered
        // Mixed into the WWIDs of volumes that no state file remembers, so that they are the same after a
        // restart and differ between hosts (for instance the machine id).
        std::string identity_salt;
        Open open = io::open_backend;
        // Whether storage, by its specification, is of one volume only and does not look after that itself.
        // May be empty: none is.
        std::function<bool(const std::string& specification)> of_one_volume;
        Extend extend;  // may be empty
        Write write = write_state_file;
        // A volume that is not open was deleted: nothing of it may be kept. On the caller's thread;
        // `recorded` follows on any thread when that is on stable storage. May be empty.
        std::function<void(uint64_t wwid, std::function<void()> recorded)> deleted;
        // Before anything of a volume is deleted by a command; on the caller's thread. May be empty.
        std::function<void(Deletion deletion)> before_deletion;
        Nanoseconds wait = from_s(30);
        // Adds each table to its reactor at once. Else the owner does, where he wants it among the sources.
        bool attach = true;
    };

    VolumeSet(std::vector<reactor::Reactor*> reactors, Options options);
    ~VolumeSet();
    VolumeSet(const VolumeSet&) = delete;
    VolumeSet& operator=(const VolumeSet&) = delete;

    // Reads the state file and opens the run-time volumes it names. A damaged file is an error and is left
    // alone; a volume that cannot be opened is logged, listed and kept in the file, and reopen() tries again.
    // An error also if one of `declared`, which are to be created, cannot be opened (try_volumes()): nothing
    // is open then. Call once, before create(); the reactors must turn.
    Status restore(const std::vector<VolumeOptions>& declared = {});

    // Gives each of these volumes the LUN that it had, else a new one, in this order and before any is
    // opened: one that cannot be opened leaves its LUN to no other. After restore().
    Status declare(const std::vector<VolumeOptions>& volumes);

    VolumeTable& table(size_t reactor_index) { return *tables_[reactor_index]; }
    size_t tables() const { return tables_.size(); }

    Status create(const VolumeOptions& options);
    // The backing file stays, and has all acknowledged data, or the volume is not removed.
    Status remove(const std::string& name, const RemoveOptions& how = {});
    Status resize(const std::string& name, uint64_t bytes);
    // Opens the storage of a volume that others took anew. Its name, identity, size (unless it is all of its
    // storage), access and what is set for it stay; what is known of its contents is dropped, because others
    // have written them. Refuses when its storage has another owner, or when acknowledged data is not in
    // storage. Also opens a volume that could not be opened before, as a start would.
    struct ReopenOptions {
        bool steal = false;          // shut out the present owner
        bool give_up_dirty = false;  // … and that data is lost
    };
    Status reopen(const std::string& name, const ReopenOptions& how);
    // Both return when no write that they forbid can take effect any more. When storage does not let go of
    // such writes within Options::wait, the change stays, and the failure says how many are under way.
    Status set_read_only(const std::string& name, bool read_only);
    // Replaces the list.
    Status set_access(const std::string& name, const std::vector<std::string>& words);
    // What is nullopt stays. Commands that wait for the former limits wait for the new ones, or begin.
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

    // Removes every volume from every reactor without forgetting it, for shutdown: also one that is being
    // made, reopened or removed. From then on none is made.
    void close_all_async(Done done);
    Status close_all();

    std::vector<VolumeInfo> list() const;  // in order of LUN
    Result<VolumeInfo> find(const std::string& name) const;
    size_t count() const;

  private:
    struct Record;
    struct Gathering;
    // What outlives a volume's being open.
    struct Known {
        Identity identity;
        // Changed by the operator at run time, which counts more than the configuration.
        uint64_t resized = 0;  // 0: never
        bool write_protected = false;
        std::optional<std::vector<std::string>> access;  // nullopt: never
        std::optional<RateLimits> limits;                // nullopt: never
        // A shrink to `resized` has begun and is not known to be over. What lay beyond must not come back.
        bool shrinking = false;
        // … which cuts a backend of this size to that one, as would its repetition; 0: it is left as it is.
        uint64_t cut_from = 0;
        std::string cut_ownership;  // … while nobody else has had it
        void forget_cut() {
            cut_from = 0;
            cut_ownership.clear();
        }
        void end_shrink() {
            shrinking = false;
            forget_cut();
        }
        // It was never opened, or the operator deleted it. Storage of another one is never created: where
        // that is gone, an empty one in its place would be taken for it by who knows its identity.
        bool unmade = false;
    };
    struct Begun;
    struct Resize;
    struct Turn;
    class SettingTurn;
    using RecordPtr = std::shared_ptr<Record>;

    struct Opening {
        bool again = false;  // it is one of `unopened_`; a file that is too short is not made longer
        bool steal = false;  // as ReopenOptions says
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
    void tell_reactors(const std::shared_ptr<Volume>& volume, const News& news, Done done);
    void forget(const RecordPtr& record, bool identity_too);
    void forget_unserved(const RecordPtr& record, const Status& why);
    void bury();
    // False: it has to be repeated.
    bool follow_backend(const std::string& name, const Volume* volume, uint64_t before, uint64_t after);
    bool storage_lost(const std::string& name, const Volume* volume, uint64_t bytes);
    // volume_reopen.cc
    class LostVolume;
    Result<RecordPtr> make_again(const Record& lost, const Volume& volume,
                                 std::unique_ptr<io::Backend> backend);
    void replace(const RecordPtr& lost, const RecordPtr& made, Done done);
    // volume_remove.cc
    struct Removal;
    // volume_resize.cc
    struct Following;
    Result<Resize> begin_resize(const std::string& name, uint64_t bytes, bool follows);
    Status begin_shrink(const Resize& change);
    void drop_beyond(const Resize& change, Done done);
    Status end_shrink(const Resize& change);
    Status grow(const Resize& change);

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
    void save_again();                           // … too

    // Immutable.
    const Options options_;
    const std::vector<reactor::Reactor*> reactors_;
    std::vector<std::unique_ptr<VolumeTable>> tables_;

    std::atomic<bool> ends_{false};  // all are being closed, for good; written under m_

    // One change of what is remembered at a time, until it is saved or taken back: else another one's save
    // would bring a refused change to the file. Nobody waits for reactors with it. Taken before m_.
    std::mutex change_m_;
    // Guarded by change_m_.
    bool restored_ = false;            // a file that was not read is not replaced
    std::vector<StoredVolume> saved_;  // what the file holds
    bool saved_is_known_ = false;      // false: a save has failed, the file may hold what that was to bring

    std::mutex bury_m_;  // one thread at a time closes what is in graves_; taken before m_

    mutable std::mutex m_;
    std::condition_variable setting_over_;  // of m_
    // Guarded by m_.
    // By volume: the change of a setting that is being made, and those that wait for it. None is empty.
    std::map<std::string, std::deque<const SettingTurn*>> settings_;
    std::vector<Done> all_closed_;  // called when there is no record any more
    std::map<std::string, RecordPtr> records_;
    std::map<std::string, Known> known_;  // also declared volumes that are not open now
    Unopened unopened_;
    std::vector<StoredVolume> deleting_;  // the file says so until they are gone
    // Of volumes that this process has deleted, in that order: given again only when there are no others.
    // Commands that an initiator sent before it heard of the deletion may come at any time, and must not find
    // another volume. After a restart initiators log in, and look at what there is first.
    std::deque<uint32_t> former_luns_;
    // Volumes that every reactor let go of. Closing one may take long (unmapping memory), so that it is left
    // to the control thread.
    std::vector<std::shared_ptr<Volume>> graves_;

    LateEnds late_ends_;                      // stopped before anything else of the set goes
    const std::shared_ptr<Notices> notices_;  // ended then, too
    // Ends before all else; begun with change_m_ held.
    Repeater correct_later_{[this] {
        std::lock_guard changing(change_m_);
        return saved_is_known_ || save().is_ok();
    }};
};

}  // namespace wss::volume
