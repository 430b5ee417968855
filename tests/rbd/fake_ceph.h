// SPDX-License-Identifier: Apache-2.0
// FakeCeph: a cluster with one pool and one image, in memory, behind the functions of librbd and librados
// that the plug-in of Ceph images calls (fake_librbd.cc, fake_librados.cc). A program with it links neither
// library. The test controls which operations are answered, when, in which order and with which result.
//
// Where the plug-in depends on it, the behaviour is that observed with librbd and librados 16:
//  C1  librbd answers each call that it accepts once, on a separate thread, and at once unless it is held.
//  C2  A change takes effect when it is answered, however long after it was accepted.
//  C3  All operations of a blocklisted client that are carried out later end with ESHUTDOWN.
//  C4  rbd_close() and rbd_lock_release() return only after librbd has completed all calls of the image.
//  C5  librados answers on another thread, in the order of the requests, except for held ones.
//  C6  A refused change marks the object map as invalid in the memory of librbd. librbd loses this mark when
//      it reads the header again (forget_flags()).
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace wss::test {

constexpr const char* kImage = "1234";  // the id of the image

// Kinds of operations that can be held or refused.
enum class Kind : uint8_t {
    kRead,
    kWrite,
    kWriteZeroes,
    kTake,      // librbd accepts any of the above; it never calls back for a refused call; never held
    kLook,      // one read of size, lock and flags of the header
    kSize,      // another call of librados on a header, for example a read of the size
    kHeader,    // a read of the size by librbd, which may read the header again
    kMark,      // set_flags on the header
    kLock,      // acquire, release or break the lock of the image, or read its owner by librbd
    kLocker,    // a read of the lock's holder by librados
    kConnect,   // a connection to the monitors
    kMonitors,  // commands to monitors
    kOsdMap,    // a wait for the newest map of the OSDs
    kResize,
    kResized,   // the return of a resize that has taken effect
    kSettings,  // a read of the image's settings
    kWatchers,  // a read of the image's watchers
    kNotify,    // a notification of the clients that watch the image
    kMetadata,  // a write to the image's metadata
    kCount,
};

// A connection of librados.
struct FakeClient {
    uint64_t number = 0;  // assigned by the monitors
    bool blocklisted = false;
};
struct FakeImage {
    FakeClient* client = nullptr;
    std::string id;
    uint64_t in_librbd = 0;    // calls
    bool map_invalid = false;  // in the memory of librbd
    bool marked = false;       // the mark of the object map, when librbd last read the header
};

class FakeCeph {
  public:
    struct Layout {
        uint64_t size = 64 << 20, object = 1 << 20, stripe_unit = object;
    };
    explicit FakeCeph(const Layout& layout);
    // All clients must have ended.
    ~FakeCeph();
    FakeCeph(const FakeCeph&) = delete;
    FakeCeph& operator=(const FakeCeph&) = delete;

    // ---- Answers
    // Holds requests that touch this part of the image: they wait until release().
    void hold(uint64_t offset, uint64_t length);
    // Holds all operations of a kind.
    void hold(Kind kind);
    // Holds all looks at the header of the image with this id.
    void hold_looks_at(const std::string& image);
    // Holds calls for the lock as soon as a lock is broken.
    void hold_broken_locks() { holds_broken_locks_.store(true); }
    // Carries out blocking calls of a kind, but holds their return.
    void hold_returns(Kind kind);
    // Ends all holds. Held operations are answered in the order in which they were accepted.
    void release();
    // Ends the hold of a kind. Requests that touch a held part still wait.
    void release(Kind kind);
    struct HeldCall {
        uint64_t id = 0;
        Kind kind = Kind::kRead;
        uint64_t offset = 0, length = 0;
    };
    std::vector<HeldCall> held() const;  // in order of acceptance
    bool holds(Kind kind) const;         // at least one call of this kind is held
    void release(const HeldCall& call);  // releases only this call
    // `error` 0 ends the refusal.
    void refuse(Kind kind, int error);
    void refuse_looks_at(const std::string& image, int error);
    // Number of answered operations of a kind, including refused ones.
    uint64_t answered(Kind kind) const;
    // librbd answers its calls in a random order, which the seed determines.
    void shuffle(uint64_t seed);
    // Returns true as soon as `condition` does, or false after a timeout that only a defect exceeds.
    // `condition` is called under the lock of the fake, and again after each change of its state.
    bool wait_until(const std::function<bool()>& condition) const;
    // Waits until all operations that are not held are answered.
    bool wait_until_quiet() const;

    // ---- The cluster
    std::string read(uint64_t offset, uint64_t length) const;
    // Resize or configure the image as other programs do: its clients are notified.
    void resize(uint64_t bytes);
    void set(const std::string& name, const std::string& value);
    void notify();
    void have_headers_read();
    uint64_t size() const;
    void delete_pool();
    // Makes `image` (kImage, or the parent of an earlier call) a clone of a snapshot of `parent`. "": `image`
    // is no longer a clone.
    void clone(const std::string& image, const std::string& parent);
    void remove(const std::string& parent);
    // Called each time before the image is opened.
    std::function<void()> before_open = [] {};
    void set_metadata(const std::string& key, const std::string& value);
    std::string metadata(const std::string& key) const;  // "": not set
    // Sets whether librbd is executing an operation for another client (rbd resize).
    void work_for_others(bool works);
    // The next client that takes the lock finds that another one has it, which releases it right after.
    void let_others_lock_once();
    // As soon as a lock is broken, the client of another program takes it and releases it.
    void let_others_lock(uint64_t client);
    // 0: no owner. A number that no client of this fake has: another program.
    void set_lock_owner(uint64_t client);
    uint64_t lock_owner() const;
    // Another program opens the image for writing.
    void add_watcher(uint64_t client);
    // Another program like this one serves a clone of the image.
    void add_parent_watcher(uint64_t client);
    // Another program opens the image for writing and ends without closing it: it stays listed until Ceph
    // notices.
    void add_dead_watcher(uint64_t client);
    // The other programs end without closing the image.
    void kill_watchers();
    void remove_dead_watchers();
    bool is_blocklisted(uint64_t client) const;
    // Whether the header marks the object map of the image as invalid.
    bool is_map_invalid() const;
    // Whether librbd of this client has read that mark. Requires the lock of the fake.
    bool knows_mark(uint64_t client) const;
    void rebuild_map();
    void forget_flags();

    // ---- For the functions of librbd and librados
    static FakeCeph& current();
    struct Operation {
        Kind kind = Kind::kRead;
        FakeClient* client = nullptr;
        FakeImage* image = nullptr;  // nullptr: an operation of librados
        uint64_t offset = 0, length = 0;
        std::function<int64_t()> carry_out;   // called under the lock of the fake
        std::function<void(int64_t)> answer;  // called without it
        const void* completion = nullptr;     // of librados, to cancel the operation
        std::string header;                   // read by a look
        uint64_t id = 0;
    };
    void take(Operation operation);
    // Returns false if the operation is not held: it has been or will be carried out. Otherwise it ends with
    // ECANCELED.
    bool cancel(const void* completion);
    // A blocking call. Returns the result of carry_out, or the error of a refusal.
    int call(Kind kind, FakeClient* client, const std::function<int()>& carry_out);
    FakeClient* connect();
    void disconnect(FakeClient* client);
    FakeImage* open(FakeClient* client, const std::string& id);
    void close(FakeImage* image);
    void wait_for_calls(FakeImage& image);
    // An object processes operations in order: a client's marks come before the release of its lock.
    void wait_for_marks(const FakeClient* client);
    uint64_t watch(void (*changed)(void*), void* context);
    uint64_t watch_header(const std::string& header, std::function<void()> changed);
    // `notified` is called when the client of let_others_lock() takes the lock.
    uint64_t watch_lock(std::function<void(uint64_t client)> notified);
    void lock_broken();
    void unwatch(uint64_t id);
    size_t watches();
    // 0, or the error with which librbd refuses calls.
    int taking() const;
    const Layout& layout() const { return layout_; }

    // `state` and the functions below require the lock of the fake, which carry_out and with() hold.
    template <typename What>
    auto with(What&& what) const {
        std::lock_guard lock(m_);
        return what();
    }
    int64_t read_bytes(uint64_t offset, uint64_t length, char* to) const;
    int64_t write_bytes(uint64_t offset, uint64_t length, const char* from);  // nullptr: zeroes
    bool blocklist(const std::string& address);
    struct Watcher {
        uint64_t client = 0, cookie = 1;
    };
    static constexpr uint64_t kWatchesOnly = 2;  // the cookie of a HeaderWatch
    std::vector<Watcher> alive() const;          // watches of the image by clients that are not blocklisted
    static std::string address_of(uint64_t client);

    // Guarded by the lock of the fake.
    struct State {
        uint64_t size = 0, lock_owner = 0;
        uint64_t parent_stripe_unit = 0;  // 0: that of the image
        bool maps_objects = true, map_invalid = false, pool_exists = true, lock_is_taken_once = false;
        std::map<std::string, std::string> metadata, settings;
        std::map<std::string, std::string> cloned_from;  // id of the clone to id of the parent image
        std::set<std::string> parents;                   // existing ones
        std::set<uint64_t> watchers, parent_watchers;    // of other programs
        std::map<uint64_t, uint64_t> dead_watchers;      // client to cookie
    } state;

  private:
    // The threads of one library.
    struct Lane {
        std::deque<Operation> ready;
        uint64_t answering = 0;
        std::vector<std::thread> threads;
    };
    void answer_calls(Lane& lane);
    void answer(Lane& lane, std::unique_lock<std::mutex>& lock, Operation operation);
    bool is_held(const Operation& operation) const;
    int refusal_of(Kind kind, const FakeClient* client) const;
    size_t next_of(const Lane& lane);
    Lane& lane_of(const Operation& operation) { return operation.image != nullptr ? librbd_ : librados_; }

    static FakeCeph* current_;
    const Layout layout_;
    mutable std::mutex m_;
    mutable std::condition_variable changed_;
    // Guarded by m_.
    std::map<uint64_t, std::vector<char>> objects_;  // existing objects, by number
    std::vector<std::pair<uint64_t, uint64_t>> held_ranges_;
    std::set<Kind> held_kinds_, held_returns_;
    std::set<std::string> held_headers_;
    std::map<std::string, int> refused_headers_;
    std::vector<Operation> held_;
    std::array<int, static_cast<size_t>(Kind::kCount)> refusals_{};
    std::array<uint64_t, static_cast<size_t>(Kind::kCount)> answered_{};
    std::set<FakeClient*> clients_;
    std::set<FakeImage*> images_;
    std::set<uint64_t> blocklist_;
    uint64_t next_client_ = 4711, next_id_ = 1, chance_ = 0;
    bool ends_ = false;
    Lane librbd_, librados_;

    struct Watch {
        std::string header;  // empty: the image's
        std::function<void()> changed;
    };
    void notify_of(const std::string& header);
    std::mutex watches_lock_;            // held while clients are notified
    std::map<uint64_t, Watch> watches_;  // guarded by watches_lock_
    std::map<uint64_t, std::function<void(uint64_t client)>> lock_watches_;  // guarded by watches_lock_
    uint64_t other_locker_ = 0;  // guarded by watches_lock_; 0: none
    std::atomic<bool> holds_broken_locks_{false};
};

}  // namespace wss::test
