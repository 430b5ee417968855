// SPDX-License-Identifier: Apache-2.0
// Volumes: what the target serves, and how each reactor reaches them.
//
// A Volume is a name, an identity and a backend. It exists once. Each reactor has its own OpenVolume of it: a
// queue, counters and a count of the requests that use it. So the datapath shares nothing between cores and
// takes no lock. A reactor finds its OpenVolumes by LUN in its VolumeTable.
//
// Threads:  control thread  calls VolumeSet (see volume_set.h); may block
//           reactor thread  runs the table's reactor; owns all of OpenVolume and VolumeTable
//
// Life of an OpenVolume on its reactor:
//   published   find() returns it; observers are notified of kAdded
//   closing     find() no longer returns it; observers are notified of kRemoved and release it soon
//   gone        users() reached 0 and its queue is idle: queue destroyed. After the last reactor has done
//               this, the backend is closed (TV3).
//
// Rules
//  TV1  A request calls hold() before it first accesses an OpenVolume, and release() when it no longer uses
//       its memory(), its queue or its extension. Between turns no pointer to it is kept without a hold,
//       except by observers until they are notified of kRemoved.
//  TV2  size() and read_only() may change at any time. Check them once per request. A request that was
//       admitted before a shrink may fail with EIO or EFBIG, but never accesses another volume.
//  TV3  Any thread may hold a std::shared_ptr<Volume> and may be the last to release it. No reactor's thread
//       and no thread of the storage destroys a Volume, because its backend may block until the storage is
//       closed. Only a Closer creates volumes, and its thread destroys them.
//  TV4  The observers of the first reactor are notified of kAdded before those of the others, and of kRemoved
//       after them: what they keep for a volume exists as long as another reactor has the volume published.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/list.h"
#include "lib/base/status.h"
#include "lib/io/backend.h"
#include "lib/io/specification.h"
#include "lib/reactor/reactor.h"
#include "target/volume/access.h"
#include "target/volume/extension.h"
#include "target/volume/options.h"
#include "target/volume/rate_limit.h"
#include "target/volume/volume_size.h"

namespace wss::volume {

// One set per reactor, so each counter has one writer. Any thread may read them.
struct Counters {
    std::atomic<uint64_t> reads{0}, writes{0}, flushes{0}, discards{0}, others{0};
    std::atomic<uint64_t> read_bytes{0}, written_bytes{0};
    std::atomic<uint64_t> errors{0};
    std::atomic<uint64_t> delayed{0}, delayed_ns{0};  // commands that waited for the volume's limits
    // An increment by the only writer needs no locked instruction.
    static void add(std::atomic<uint64_t>& counter, uint64_t amount = 1) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
    }
};
// The sum of a volume's Counters.
struct Totals {
    uint64_t reads = 0, writes = 0, flushes = 0, discards = 0, others = 0;
    uint64_t read_bytes = 0, written_bytes = 0, errors = 0;
    uint64_t delayed = 0, delayed_ns = 0;
    void add(const Counters& counters);
};

// Thread-safety: attributes may be read from any thread. Only VolumeSet changes them.
class Volume : public ListNode<> {
  public:
    const std::string& name() const { return options_.name; }
    const std::string& backend_name() const { return options_.backend; }
    const io::StorageName& storage_name() const { return storage_name_; }
    uint32_t lun() const { return identity_.lun; }
    uint64_t wwid() const { return identity_.wwid; }
    uint32_t block_size() const { return options_.block_size; }
    bool declared() const { return options_.declared; }
    uint64_t size() const { return size_.bytes(); }  // bytes, multiple of block_size
    uint64_t blocks() const { return size() / block_size(); }
    bool read_only() const { return read_only_.load(std::memory_order_relaxed); }
    // True: it stays read-only while it is open.
    bool opened_read_only() const { return options_.read_only; }
    // Its storage is gone or has another owner. No initiator may use the volume.
    bool lost() const { return loss_.load(std::memory_order_acquire) != Loss::kNone; }
    // Grows with each change of the size or of the write protection.
    uint32_t generation() const { return generation_.load(std::memory_order_relaxed); }

    // discard, volatile_cache, rotational and physical block of the backend, logical block of the volume. Its
    // size is that of the volume's creation (see size()).
    const io::Limits& limits() const { return limits_; }
    io::Backend& backend() const { return *backend_; }
    // The same size, and what it is of the storage.
    const VolumeSize& sizes() const { return size_; }
    // The whole volume as memory; empty if its backend is not memory. The address never changes. The length
    // follows resize().
    std::span<std::byte> memory() const;
    // It was opened while a shrink to this size was incomplete: data beyond that must be dropped. 0: none.
    uint64_t drops_from() const { return drops_from_; }
    // The extension that the owner of the VolumeSet attached, or nullptr.
    Extension* extension() const { return extension_.get(); }

  private:
    friend class Closer;
    friend class VolumeSet;
    Volume(VolumeOptions options, Identity identity, std::unique_ptr<io::Backend> backend);
    ~Volume();  // TV3
    void note_change() { generation_.fetch_add(1, std::memory_order_relaxed); }
    // Begins to close the backend. Called when the volume has no users, by the thread that then owns it.
    void begin_close() noexcept {
        if (!std::exchange(closing_, true)) backend_->begin_close();
    }
    void end_waits() noexcept { backend_->end_waits(); }
    // kOfUnknownSize: a reopened volume keeps its size, because nobody knows whether that was all of the
    // storage.
    enum class Loss : uint8_t { kNone, kOfUnknownSize, kOfKnownSize };
    // Only the first call has an effect.
    void lose(Loss loss) {
        Loss none = Loss::kNone;
        loss_.compare_exchange_strong(none, loss, std::memory_order_acq_rel);
    }

    // Immutable.
    const VolumeOptions options_;  // size and read_only are those of its creation
    const Identity identity_;
    const io::StorageName storage_name_;  // as of its opening, because file system calls may block
    std::unique_ptr<io::Backend> backend_;
    uint64_t drops_from_ = 0;
    bool closing_ = false;  // begin_close() was called
    io::Limits limits_;
    std::unique_ptr<Extension> extension_;  // destroyed before the backend
    // Atomic: written by the control thread, read by all.
    VolumeSize size_;
    std::atomic<bool> read_only_;
    std::atomic<Loss> loss_{Loss::kNone};
    std::atomic<uint32_t> generation_{0};
};

// One reactor's access to a volume.
class OpenVolume : public ListNode<> {
  public:
    OpenVolume(std::shared_ptr<const Volume> volume, std::shared_ptr<const AccessList> access,
               std::shared_ptr<RateLimiter> limiter)
        : volume_(std::move(volume)), access_(std::move(access)), limiter_(std::move(limiter)) {}
    ~OpenVolume();

    const Volume& volume() const { return *volume_; }
    io::Queue& queue() { return *queue_; }
    // May change between turns. Observers are notified of kAccess.
    const AccessList& access() const noexcept { return *access_; }
    // The previous access(). Valid only while observers are notified of kAccess.
    const AccessList& former_access() const noexcept { return *former_access_; }
    // nullptr: no limits. May change between turns. Observers are notified of kLimits.
    const std::shared_ptr<RateLimiter>& limiter() const noexcept { return limiter_; }
    Counters& counters() { return counters_; }
    const Counters& counters() const { return counters_; }

    // Called when its storage is full. Returns true at most once a minute, for the log.
    bool is_full_again(Nanoseconds now) noexcept {
        if (now < next_full_) return false;
        next_full_ = now + kFullPause;
        return true;
    }

    void hold() noexcept { ++users_; }
    void release() noexcept {
        WSS_ASSERT(users_ > 0, "each release() has its hold()");
        --users_;
    }
    uint32_t users() const noexcept { return users_; }
    bool closing() const noexcept { return closing_; }
    // While closing: a volume with the same name and identity replaces it at once.
    bool reopening() const noexcept { return reopening_; }

  private:
    friend class VolumeTable;
    friend class VolumeSet;
    bool idle() const { return users_ == 0 && (queue_ == nullptr || queue_->in_flight() == 0); }

    std::shared_ptr<const Volume> volume_;
    std::shared_ptr<const AccessList> access_;
    std::shared_ptr<const AccessList> former_access_;  // set during kAccess
    std::shared_ptr<RateLimiter> limiter_;
    std::unique_ptr<io::Queue> queue_;
    Counters counters_;
    static constexpr Nanoseconds kFullPause = from_s(60);
    Nanoseconds next_full_{};
    uint32_t users_ = 0;
    bool closing_ = false, reopening_ = false;
    std::function<void()> gone_;  // set with closing_
};

enum class Change : uint8_t { kAdded, kRemoved, kResized, kReadOnly, kAccess, kLimits };
std::string_view to_string(Change change);

// A volume becomes smaller. The change is acknowledged when every observer has released the data beyond the
// new end. An observer that destroys this without done() fails the change, so each change ends.
class Shrink {
  public:
    Shrink(uint64_t bytes, std::function<void(Status)> ended) : bytes_(bytes), ended_(std::move(ended)) {}
    ~Shrink() {
        ended_(done_ ? Status::ok()
                     : Status(Code::kClosed, "data beyond the new end could not be discarded"));
    }
    Shrink(const Shrink&) = delete;
    Shrink& operator=(const Shrink&) = delete;
    uint64_t bytes() const noexcept { return bytes_; }
    void done() noexcept { done_ = true; }

  private:
    const uint64_t bytes_;
    const std::function<void(Status)> ended_;
    bool done_ = false;
};

// Fewer initiators may write a volume than before. The change is complete when every write that has begun and
// is no longer allowed has ended. Further such writes do not begin.
class WriteFence {
  public:
    // `writes` counts the outstanding writes of all reactors.
    WriteFence(std::shared_ptr<std::atomic<uint64_t>> writes, std::function<void()> ended)
        : writes_(std::move(writes)), ended_(std::move(ended)) {}
    ~WriteFence() { ended_(); }
    WriteFence(const WriteFence&) = delete;
    WriteFence& operator=(const WriteFence&) = delete;

  private:
    friend class FencedWrite;
    const std::shared_ptr<std::atomic<uint64_t>> writes_;
    const std::function<void()> ended_;
};

// An outstanding write. The fence waits until this is destroyed.
class FencedWrite {
  public:
    explicit FencedWrite(std::shared_ptr<WriteFence> fence) : fence_(std::move(fence)) {
        fence_->writes_->fetch_add(1, std::memory_order_relaxed);
    }
    FencedWrite(FencedWrite&&) = default;
    FencedWrite& operator=(FencedWrite&&) = delete;
    ~FencedWrite() {
        if (fence_ != nullptr) fence_->writes_->fetch_sub(1, std::memory_order_relaxed);
    }

  private:
    std::shared_ptr<WriteFence> fence_;
};
// The fences of one write. They may overlap. Allocates when a fence begins, not per command.
using FencedWrites = std::vector<FencedWrite>;

// A volume is about to be reopened after another owner had its storage. Each observer drops its copies of the
// contents. An observer that destroys this without end() fails the reopening.
class Reopening {
  public:
    // `give_up_dirty`: observers also drop acknowledged data that is not in storage. Otherwise they refuse
    // because of it. `look_only`: observers report whether they would refuse, and drop nothing.
    Reopening(bool give_up_dirty, bool look_only, std::function<void(Status)> ended)
        : give_up_dirty_(give_up_dirty), look_only_(look_only), ended_(std::move(ended)) {}
    ~Reopening() { ended_(std::move(status_)); }
    Reopening(const Reopening&) = delete;
    Reopening& operator=(const Reopening&) = delete;
    bool give_up_dirty() const noexcept { return give_up_dirty_; }
    bool look_only() const noexcept { return look_only_; }
    void end(Status status) { status_ = std::move(status); }

  private:
    const bool give_up_dirty_, look_only_;
    const std::function<void(Status)> ended_;
    Status status_{Code::kClosed, "the volume was removed meanwhile"};
};

// A command is about to delete a volume. The receiver (VolumeSet::Options::before_deletion) answers when
// storage has all acknowledged data of the volume, or refuses.
struct Deletion {
    // Part of a successful `answer`. No command of the volume begins while it exists.
    using Hold = std::shared_ptr<void>;

    uint64_t wwid = 0;  // of an open or an unopened volume
    std::string name;
    bool give_up_dirty = false;  // that data may be lost
    Nanoseconds limit{};         // the answer must come within this time
    std::function<void(Status, Hold)> answer;
};

// Notified, on the reactor's thread, of changes to the volumes of its table. Must not add or remove
// observers.
class Observer : public ListNode<> {
  public:
    virtual ~Observer() = default;
    // Called before a volume is published. A failure keeps it closed.
    virtual Status may_open(const Volume&) { return Status::ok(); }
    virtual void volume_changed(Change change, OpenVolume& volume) noexcept = 0;
    // Called after kResized: size() is already smaller, but commands that were admitted earlier may be in
    // flight.
    virtual void volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept { shrink->done(); }
    // Called after kReadOnly and kAccess. An observer keeps the fence while it has fenced writes in flight.
    virtual void volume_fences(OpenVolume&, std::shared_ptr<WriteFence>) noexcept {}
    // The volume no longer admits commands. Those that were admitted earlier may be in flight.
    virtual void volume_reopens(OpenVolume&, std::shared_ptr<Reopening> reopening) noexcept {
        reopening->end(Status::ok());
    }
};

// The volumes of one reactor. A single Source polls the queues of all volumes, so that its place among the
// reactor's sources does not change when volumes come and go.
class VolumeTable final : public reactor::Source {
  public:
    explicit VolumeTable(reactor::Reactor& reactor);
    ~VolumeTable() override;
    VolumeTable(const VolumeTable&) = delete;
    VolumeTable& operator=(const VolumeTable&) = delete;

    // The volume at `lun`, or nullptr.
    OpenVolume* find(uint64_t lun) const noexcept {
        return lun < by_lun_.size() ? by_lun_[static_cast<size_t>(lun)] : nullptr;
    }
    // In order of LUN.
    template <typename Visit>
    void for_each(Visit&& visit) {
        for (OpenVolume* volume : by_lun_)
            if (volume != nullptr) visit(*volume);
    }
    size_t count() const noexcept { return count_; }

    void add_observer(Observer& observer) { observers_.push_back(observer); }
    void remove_observer(Observer& observer) { observer.unlink(); }

    reactor::Reactor& reactor() { return reactor_; }

    size_t poll() noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return epoll_.get(); }

  private:
    friend class VolumeSet;
    Status open(OpenVolume& volume);   // creates its queue
    void publish(OpenVolume& volume);  // find() returns it from now on
    // find() no longer returns it. `gone` is called when the last user and request are done.
    void close(OpenVolume& volume, std::function<void()> gone);
    void notify(Change change, OpenVolume& volume);
    // `done` is called when all observers have completed or failed.
    void shrink(OpenVolume& volume, uint64_t bytes, std::function<void(Status)> done);
    void reopen(OpenVolume& volume, bool give_up_dirty, bool look_only, std::function<void(Status)> done);
    void fence(OpenVolume& volume, const std::shared_ptr<WriteFence>& fence);
    size_t reap_closing() noexcept;

    reactor::Reactor& reactor_;
    Descriptor epoll_;  // holds every queue's descriptor; none if no descriptors were left: open() fails then
    std::vector<OpenVolume*> by_lun_;
    std::vector<OpenVolume*> polled_;  // published or closing
    List<OpenVolume> closing_;
    List<Observer> observers_;
    size_t count_ = 0;
};

}  // namespace wss::volume
