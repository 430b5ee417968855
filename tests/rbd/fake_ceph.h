// SPDX-License-Identifier: Apache-2.0
// FakeCeph: a cluster with one pool and one image, in memory, behind the functions of librbd and librados
// that the plug-in of Ceph images calls (fake_librbd.cc, fake_librados.cc). A program with it links neither
// library, and a test decides what is answered, when, in which order and how.
//
// It behaves as librbd and librados 16 were seen to, where the plug-in depends on that:
//  C1  What librbd takes it answers once, on a thread of its own. Without hold() that is at once.
//  C2  A change takes effect when it is answered, however long after it was taken.
//  C3  A blocklisted client gets ESHUTDOWN for whatever is carried out from then on.
//  C4  rbd_close() and rbd_lock_release() return when librbd has none of the image's calls any more.
//  C5  librados answers on another thread, in the order in which it was asked, but for what is held.
//  C6  A change that is refused leaves the object map invalid in the memory of librbd, which forgets that
//      when it reads the header anew (forget_flags()).
//
// Thread-safety: all of it may be called from any thread.
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

// What can be held or refused.
enum class Kind : uint8_t {
    kRead,
    kWrite,
    kWriteZeroes,
    kTake,      // of any of these by librbd: refused, it calls back for none; it is never held
    kLook,      // reads of the header that answer size, lock and flags at once
    kSize,      // … its size alone
    kMark,      // set_flags on it
    kLock,      // of the image: acquire, release, break
    kMonitors,  // commands to them
    kResize,
    kSettings,  // of the image
    kCount,
};

// One connection of librados, one opened image of it.
struct FakeClient {
    uint64_t number = 0;  // that the monitors gave it
    bool blocklisted = false;
};
struct FakeImage {
    FakeClient* client = nullptr;
    std::string id;
    uint64_t in_librbd = 0;    // calls
    bool map_invalid = false;  // in the memory of librbd
};

class FakeCeph {
  public:
    struct Layout {
        uint64_t size = 64 << 20, object = 1 << 20, stripe_unit = object;
    };
    explicit FakeCeph(const Layout& layout);
    // All clients have ended.
    ~FakeCeph();
    FakeCeph(const FakeCeph&) = delete;
    FakeCeph& operator=(const FakeCeph&) = delete;

    // ---- Answers
    // What touches this part of the image waits from now on, …
    void hold(uint64_t offset, uint64_t length);
    // … and all of a kind.
    void hold(Kind kind);
    // … and all looks at the header of an image with that id.
    void hold_looks_at(const std::string& image);
    // … and calls of a kind that block are carried out, and return later.
    void hold_returns(Kind kind);
    // Nothing waits any more. What did is answered in the order in which it was taken.
    void release();
    // A kind waits no more, unless it touches a part that does.
    void release(Kind kind);
    struct HeldCall {
        uint64_t id = 0;
        Kind kind = Kind::kRead;
        uint64_t offset = 0, length = 0;
    };
    std::vector<HeldCall> held() const;  // in the order in which they were taken
    bool holds(Kind kind) const;         // a call of that kind, at least
    void release(const HeldCall& call);  // this one, although others like it go on to wait
    // 0: it is not refused any more.
    void refuse(Kind kind, int error);
    void refuse_looks_at(const std::string& image, int error);
    // How many of a kind were answered, also with a refusal.
    uint64_t answered(Kind kind) const;
    // librbd answers what it has in an order that is drawn from the seed.
    void shuffle(uint64_t seed);
    // True as soon as `condition` is, false after a time that only an error takes. It is called with the lock
    // of the fake, and again after each change of its state.
    bool wait_until(const std::function<bool()>& condition) const;
    // All is answered that is not held.
    bool wait_until_quiet() const;

    // ---- The cluster
    std::string read(uint64_t offset, uint64_t length) const;
    // Of the image that others resize, or whose settings they change: its clients are notified.
    void resize(uint64_t bytes);
    void set(const std::string& name, const std::string& value);
    void notify();
    uint64_t size() const;
    void delete_pool();
    // `image` (kImage, or one that was named so before) is a clone of a snapshot of `parent` from now on;
    // "": it is none any more.
    void clone(const std::string& image, const std::string& parent);
    void remove(const std::string& parent);
    // Happens each time before the image is opened.
    std::function<void()> before_open = [] {};
    void set_metadata(const std::string& key, const std::string& value);
    std::string metadata(const std::string& key) const;  // "": there is none
    // As soon as a lock is broken another program takes it, and releases it.
    void let_others_lock(uint64_t client);
    // 0: nobody has it. A number that no client has: another program.
    void set_lock_owner(uint64_t client);
    uint64_t lock_owner() const;
    // Another program opens the image for writing.
    void add_watcher(uint64_t client);
    // … and ends without closing it: it is listed until Ceph notices.
    void add_dead_watcher(uint64_t client);
    void remove_dead_watchers();
    bool is_blocklisted(uint64_t client) const;
    // The object map of the image, as its header says.
    bool is_map_invalid() const;
    void rebuild_map();
    void forget_flags();

    // ---- For the functions of librbd and librados
    static FakeCeph& current();
    struct Operation {
        Kind kind = Kind::kRead;
        FakeClient* client = nullptr;
        FakeImage* image = nullptr;  // nullptr: librados has it
        uint64_t offset = 0, length = 0;
        std::function<int64_t()> carry_out;   // with the lock of the fake
        std::function<void(int64_t)> answer;  // without it
        const void* completion = nullptr;     // of librados, which can cancel it
        std::string header;                   // that is looked at
        uint64_t id = 0;
    };
    void take(Operation operation);
    // False: it has been carried out. Else it is answered with ECANCELED.
    bool cancel(const void* completion);
    // A call that blocks: what carry_out returns, or the refusal.
    int call(Kind kind, FakeClient* client, const std::function<int()>& carry_out);
    FakeClient* connect();
    void disconnect(FakeClient* client);
    FakeImage* open(FakeClient* client, const std::string& id);
    void close(FakeImage* image);
    void wait_for_calls(FakeImage& image);
    // One object takes its operations in their order: a client's marks come before its lock is released.
    void wait_for_marks(const FakeClient* client);
    uint64_t watch(void (*changed)(void*), void* context);
    uint64_t watch_header(const std::string& header, std::function<void()> changed);
    // Clients that take or release the lock notify of it.
    uint64_t watch_lock(std::function<void(uint64_t client)> notified);
    void lock_broken();
    void unwatch(uint64_t id);
    size_t watches();
    // 0 or the error with which librbd takes nothing.
    int taking() const;
    const Layout& layout() const { return layout_; }

    // With the lock of the fake: in carry_out, and in `with`.
    template <typename What>
    auto with(What&& what) const {
        std::lock_guard lock(m_);
        return what();
    }
    int64_t read_bytes(uint64_t offset, uint64_t length, char* to) const;
    int64_t write_bytes(uint64_t offset, uint64_t length, const char* from);  // nullptr: zeroes
    bool blocklist(const std::string& address);
    std::vector<uint64_t> alive() const;  // clients with the image that are not shut out
    static std::string address_of(uint64_t client);

    // Guarded by the lock of the fake.
    struct State {
        uint64_t size = 0, lock_owner = 0;
        bool map_invalid = false, pool_exists = true;
        std::map<std::string, std::string> metadata, settings;
        std::map<std::string, std::string> cloned_from;  // by the ids of images, of snapshots of them
        std::set<std::string> parents;                   // that exist
        std::set<uint64_t> watchers, dead_watchers;      // that are no clients of this fake
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
    std::map<uint64_t, std::vector<char>> objects_;  // by number; those that exist
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
    std::map<uint64_t, std::function<void(uint64_t client)>> lock_watches_;  // …
    uint64_t other_locker_ = 0;                                              // …; 0: nobody
};

}  // namespace wss::test
