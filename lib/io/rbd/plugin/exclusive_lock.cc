// SPDX-License-Identifier: Apache-2.0
// The exclusive lock of an image, whose holder alone may write the image.
//
// By default librbd takes the lock at the first write and releases it when another client requests it. This
// client takes the lock explicitly, before the first request, and keeps it: requests of others are rejected.
//
//  holder of the lock        action of an opening
//  none                      take the lock
//  a live client             fail with an error that names the client; with steal=true shut the client out
//  a dead client             shut the client out after Ceph has ended its watch of the header
//                            (osd_client_watch_timeout, 30 s); with steal=true at once
//
// A live client never gets a request for the lock: most clients would release it (librbd's automatic lock),
// and then wait for it or fail forever. A client is alive if it acknowledges a notification, which every
// client treats as a change of the image's header.
//
// Shutting a client out means blocklisting it and then breaking its lock. After that every OSD rejects its
// requests, even if its process was only paused and resumes. By default Ceph forgets a blocklisted client
// after an hour (mon_osd_blocklist_default_expire). A process may stay paused for longer, so
// kBlocklistSeconds is used. librados breaks the lock, because rbd_lock_break() would blocklist again, for a
// time that cannot be set.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/former_owners.h"
#include "lib/io/rbd/plugin/header_watch.h"
#include "lib/io/rbd/plugin/ownership.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr int kAttempts = 5;  // to take the lock while its owner keeps changing
constexpr int kLooksForLock = 3;
constexpr uint64_t kNoticeMs = 3000;
constexpr auto kLookAgain = std::chrono::seconds(1);
// Between the release of the lock and its record. Longer if the process or Ceph is slow at that moment.
constexpr Nanoseconds kRecordMax = from_s(3);
constexpr auto kRecordLook = std::chrono::milliseconds(100);
// Number of consecutive looks without a watch after which a client counts as dead. One is not enough: a live
// client that lost its connection has no watch until it has renewed it.
constexpr uint32_t kLooksWithoutWatch = 2;
constexpr uint32_t kLooksWithoutLock = 2;
constexpr Nanoseconds kReserve =
    from_s(5);  // part of open_timeout for the steps after the wait for a dead owner
constexpr Nanoseconds kLookMax = from_ms(kNoticeMs + 2000);  // one turn of a wait, with its pause
constexpr const char* kOperationLimit = "rados_osd_op_timeout";
constexpr size_t kWatchersMax = 4096;

// Returns the number in "client.4123", or 0 if the text has another form.
uint64_t client_number(std::string_view name) {
    constexpr std::string_view kPrefix = "client.";
    if (!name.starts_with(kPrefix)) return 0;
    name.remove_prefix(kPrefix.size());
    uint64_t number = 0;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), number);
    return wrong == std::errc() && end == name.data() + name.size() ? number : 0;
}

}  // namespace

Status Client::check_features() {
    uint64_t features = 0;
    if (int result = rbd_get_features(image_, &features); result < 0)
        return refusal(-result, "cannot read the features of the image");
    if ((features & RBD_FEATURE_EXCLUSIVE_LOCK) == 0)
        return failure(Code::kUnsupported,
                       "the image has no exclusive lock, so two targets could write it at the same time: rbd "
                       "feature enable {} exclusive-lock",
                       options_.name());
    return Status::ok();
}

Status Client::take_lock() {
    HolderMark::Taking taking{.was_free = true};
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        // After this client has broken a lock, it takes the lock even if the opening was given up: otherwise
        // another client could have the lock for a time and leave no trace.
        const bool goes_on = keeps_taken_ && taking.former != 0;
        if (!goes_on) WSS_TRY(check_wanted());
        Locker locker;
        // Called before lock_owner(), which does not return the number of the client. Errors other than
        // ETIMEDOUT mean that there is no single holder.
        if (read_locker(locker) == -ETIMEDOUT)
            return refusal(ETIMEDOUT, "cannot read the holder of the exclusive lock");
        auto owner = lock_owner();
        if (!owner) return owner.status();
        if (!owner->empty()) {
            auto ended = end_former_owner(*owner, locker.is_at(*owner) ? locker.number : 0);
            if (!ended) return ended.status();
            // Two clients released the lock, one after the other.
            if (ended->seen && taking.seen.value_or(*ended->seen) != *ended->seen) ended->seen = 0;
            taking = *ended;
            continue;
        }
        WSS_TRY(end_limit());
        may_have_lock_.store(true);
        if (!goes_on) WSS_TRY(check_wanted());
        // A client that takes the lock between these two calls does get a request for it.
        const int result = -rbd_lock_acquire(image_, RBD_LOCK_MODE_EXCLUSIVE);
        if (result == 0) {
            took_lock_ = true;
            return note_succession(taking);
        }
        taking = {};
        if (result == EROFS || result == EINVAL) WSS_TRY(check_primary());
        if (result != EROFS && result != EBUSY && result != EAGAIN)
            return refusal(result, "cannot take the exclusive lock");
    }
    return failure(Code::kBusy, "the owner of its exclusive lock keeps changing: try again");
}

// Operations that begin after this have no time limit.
Status Client::end_limit() const {
    const int result = rados_conf_set(cluster_, kOperationLimit, "0");
    if (result < 0) return Status::from_errno(-result, fmt::format("cannot set {} = 0", kOperationLimit));
    return Status::ok();
}

// Fails if the caller of open() has given up: the opening must then take nothing more from other clients.
Status Client::check_wanted() const {
    if (opening_.load() != Opening::kGivenUp) return Status::ok();
    return Status(Code::kClosed, "the opening was given up");
}

Result<HolderMark::Taking> Client::end_former_owner(const std::string& owner, uint64_t seen) {
    const auto former = wait_to_end(owner, Step::kOpening);
    if (!former) return former.status();
    const HolderMark::Taking released{.was_free = true, .seen = seen};
    if (*former == Former::kReleased) return released;
    // A client without a watch may be alive and have closed the image. It must not be blocklisted, because it
    // may use other images. It has released the lock before its watch ended.
    auto now = lock_owner();
    if (!now) return now.status();
    if (*now != owner) return released;
    if (options_.steal) {
        auto watcher = watcher_of(owner);
        if (watcher && *watcher)
            log::warning(
                "rbd:{}: the client at {} has the image and may be alive: shutting it out (steal=true)",
                options_.name(), owner);
    }
    return shut_out(owner, seen);
}

// The check looks only once, because the opening looks again.
Result<Client::Former> Client::wait_to_end(const std::string& owner, Step step) {
    for (;;) {
        // This wait comes first, because an owner that was away may be back when these watches end. Another
        // client may have died during the wait for the owner.
        if (keeps_taken_) {
            const auto ended = wait_for_dead_watches(owner, step);
            if (!ended || *ended == Former::kReleased) return ended;
        }
        if (options_.steal) return Former::kMayBeShutOut;
        const auto former = wait_until_dead(owner, step == Step::kCheck ? 1 : kLooksWithoutWatch);
        if (!former || !keeps_taken_ || *former == Former::kReleased) return former;
        const auto dead = find_dead_watch(owner, step);
        if (!dead) return dead.status();
        if (dead->empty()) return former;
    }
}

// A client that opened the image for writing and waited for the lock could have had it between the one that
// was shut out and this client. Such a client begins to watch the header before it has the lock. If it
// has closed the image again, it has notified lock_watch_.
Status Client::note_succession(HolderMark::Taking taking) {
    if (taking.former != 0) {
        bool alone = lock_watch_ && !lock_watch_->saw_another();
        if (alone) {
            auto others = look_elsewhere(taking.former);
            alone = others && others->kind == Elsewhere::Kind::kNobody;
        }
        if (!alone) taking.former = 0;
    }
    lock_watch_.reset();
    if (taking.was_free) wait_for_record();
    auto noted =
        note_holder(image_, fmt::format("{} {}", place_, header_), rados_get_instance_id(cluster_), taking);
    // Read-only volumes are also served from an image that cannot be written, in a full pool for example.
    if (!noted) return read_only_ ? Status::ok() : noted.status();
    succession_ = *noted;
    if (keeps_taken_ && noted->term > 1 && noted->since == noted->term)
        log::warning(
            "rbd:{}: another client may have had the image since the process that had it last: a volume "
            "which "
            "that process served is lost, and wssctl volume reopen serves it from this process",
            options_.name());
    return Status::ok();
}

// A client that is being stopped may have released the lock, but not marked the object map and recorded the
// release yet. It closes the image after that.
void Client::wait_for_record() const {
    for (const Nanoseconds limit = SystemClock().now() + kRecordMax; SystemClock().now() < limit;
         std::this_thread::sleep_for(kRecordLook)) {
        auto client = unreleased_holder(image_);
        auto all = watchers();
        if (!client || !all ||
            std::none_of(all->begin(), all->end(), [&](const Watcher& one) { return one.client == *client; }))
            return;
    }
}

// Returns false if another program broke the lock. Looks several times, because librbd may be taking the lock
// again after its watch had ended.
bool Client::has_lock() const {
    Locker locker;
    for (int look = 0; look < kLooksForLock; ++look) {
        if (look > 0) std::this_thread::sleep_for(kLookAgain);
        const int found = read_locker(locker);
        if (found != 0 && found != -ENOENT) return true;
        if (found == 0 && locker.number == rados_get_instance_id(cluster_)) return true;
    }
    return false;
}

static Status kept(const Status& why) {
    return Status(why.code(), fmt::format("{}. The exclusive lock is not released; after this process ends, "
                                          "the next client waits until Ceph considers this client dead",
                                          why.to_string()));
}

// Releases the lock so that the next holder continues the chain. librbd first ends what it does for other
// clients. The release is recorded afterwards: no program can break a lock that is recorded as released.
// Fails if the client keeps the lock, because the release failed or check_release() shows that it could not
// be recorded. Also fails if the client has lost the lock.
Status Client::release_in_order() {
    if (lost() || gave_up_lock_ || lock_is_gone_.load() || !took_lock_) return Status::ok();
    if (!has_lock()) return pools_exist() ? lose_lock() : Status::ok();  // without a pool there is no lock
    if (!succession_.is_known()) return Status::ok();                    // there is nothing to record
    const uint64_t client = rados_get_instance_id(cluster_);
    if (Status may = check_release(image_, client); !may) {
        if (is_blocklisted(may) && is_shut_out()) return Status::ok();  // it has no lock to keep
        if (keeps_taken_) return kept(may);
    }
    if (const int result = -rbd_lock_release(image_); result != 0) {
        const Status failed = refusal(result, "cannot release the exclusive lock");
        if (is_blocklisted(failed) && is_shut_out()) return Status::ok();
        return has_lock() ? kept(failed) : lose_lock();
    }
    mark_rebuilt_map();  // before the record, for which the next owner waits
    if (Status noted = note_release(image_, pool_, header_, client); !noted && keeps_taken_)
        log::warning(
            "rbd:{}: cannot record the release of the lock, so the next process must assume that another "
            "client had the image: {}",
            options_.name(), noted.to_string());
    return Status::ok();
}

Status Client::lose_lock() {
    log::error("rbd:{}: its exclusive lock was taken away before it was released", options_.name());
    lock_is_gone_.store(true);
    return failure(Code::kClosed, "its exclusive lock is gone");
}

// A client elsewhere that serves a clone of this image watches the image, but does not lock it.
Result<Client::Elsewhere> Client::look_elsewhere(uint64_t besides) {
    auto all = watchers();
    if (!all) return all.status();
    std::erase_if(
        *all, [=, this](const Watcher& one) { return one.client == besides || own_.contains(one.client); });
    if (all->empty()) return Elsewhere{Elsewhere::Kind::kNobody, {}};
    const std::vector<Answer> known = answers();
    std::erase_if(*all, [this](const Watcher& one) { return only_watches(one); });
    if (all->empty()) return Elsewhere{Elsewhere::Kind::kNobody, {}};
    const auto live = std::find_if(all->begin(), all->end(), [&](const Watcher& one) {
        return std::ranges::find(known, one.client, &Answer::client) != known.end();
    });
    if (live != all->end()) return Elsewhere{Elsewhere::Kind::kOpen, live->address};
    return Elsewhere{Elsewhere::Kind::kSilent, all->front().address};
}

// Returns true if consecutive looks find that `owner` does not have the lock. One is not enough: a live owner
// has no lock for a moment while librbd renews it.
bool Client::has_released(const std::string& owner) const {
    for (uint32_t look = 1;; ++look) {
        const auto now = lock_owner();
        if (!now || *now == owner) return false;
        if (look == kLooksWithoutLock) return true;
        std::this_thread::sleep_for(kLookAgain);
    }
}

// `looks`: number of consecutive looks that must find no watch of the owner.
Result<Client::Former> Client::wait_until_dead(const std::string& owner, uint32_t looks) {
    const Nanoseconds limit = opened_at_ + from_s(options_.open_timeout) - kReserve;
    bool waits = false;
    for (uint32_t without = 0;;) {
        WSS_TRY(check_wanted());
        auto watcher = watcher_of(owner);
        if (!watcher) return watcher.status();
        without = *watcher ? 0 : without + 1;
        if (without == looks) return Former::kMayBeShutOut;
        if (*watcher) {
            const bool lives = answers((*watcher)->client);
            // A client that is being closed releases the lock before its watch ends. The look follows the
            // answers, for which this client may wait for seconds.
            if (has_released(owner)) return Former::kReleased;
            if (lives) return uses_it(owner);
            if (SystemClock().now() > limit) return still_lists(owner);
            if (!std::exchange(waits, true))
                log::info("rbd:{}: the client at {} does not answer: waiting until Ceph considers it dead",
                          options_.name(), owner);
        }
        std::this_thread::sleep_for(kLookAgain);
    }
}

// Returns the address of a dead client, other than `owner`, that may have had the lock; empty: there is none.
Result<std::string> Client::find_dead_watch(const std::string& owner, Step step) {
    auto others = watchers();
    if (!others) return others.status();
    const uint64_t self = rados_get_instance_id(cluster_);
    std::erase_if(*others, [&](const Watcher& one) {
        return one.client == self || one.address == owner || only_watches(one) ||
               (step == Step::kCheck && FormerOwners::contains(own_.cluster(), one.address));
    });
    if (others->empty()) return std::string();
    const std::vector<Answer> alive = answers();
    const auto dead = std::find_if(others->begin(), others->end(), [&](const Watcher& one) {
        return std::ranges::find(alive, one.client, &Answer::client) == alive.end();
    });
    return dead == others->end() ? std::string() : dead->address;
}

// Waits until no dead client except `owner` is listed as a watcher. A client that ended without closing the
// image is listed for osd_client_watch_timeout, or longer if the OSD of the header changes meanwhile. It
// could have had the lock between `owner` and this client, so that this client could not continue the chain
// of `owner`. Fails if too little time is left: a later opening can still continue the chain.
Result<Client::Former> Client::wait_for_dead_watches(const std::string& owner, Step step) {
    const Nanoseconds limit = opened_at_ + from_s(options_.open_timeout) - kReserve - kLookMax;
    for (bool waits = false;; waits = true) {
        const auto dead = find_dead_watch(owner, step);
        if (!dead) return dead.status();
        if (dead->empty()) return Former::kMayBeShutOut;
        // The wait matters only if the lock is broken.
        if (has_released(owner)) return Former::kReleased;
        if (SystemClock().now() > limit) return still_lists(*dead);
        if (!waits)
            log::info("rbd:{}: waiting until Ceph ends the watch of the client at {}, which does not answer",
                      options_.name(), *dead);
        WSS_TRY(check_wanted());
        std::this_thread::sleep_for(kLookAgain);
    }
}

Status Client::still_lists(const std::string& dead) const {
    return failure(
        Code::kBusy,
        "the client at {} does not answer, and Ceph still lists it (rbd status {}): try again. Ceph "
        "forgets a dead client after 30 s, or later if OSDs change (open_timeout is {} s); end a "
        "client that hangs",
        dead, options_.name(), options_.open_timeout);
}

Status Client::uses_it(const std::string& owner) const {
    return failure(
        Code::kBusy,
        "the client at {} uses it (rbd status {}): stop that client, or give steal=true to shut it out",
        owner, options_.name());
}

// Fails if the owner is alive and still has the lock.
Status Client::refuse_live(const std::string& owner) {
    auto watcher = watcher_of(owner);
    if (!watcher) return watcher.status();
    if (!*watcher || !answers((*watcher)->client) || has_released(owner)) return Status::ok();
    return uses_it(owner);
}

Status Client::check_primary() const {
    rbd_mirror_image_info_t mirror{};
    if (rbd_mirror_image_get_info(image_, &mirror, sizeof mirror) < 0) return Status::ok();
    const bool follows = mirror.state == RBD_MIRROR_IMAGE_ENABLED && !mirror.primary;
    rbd_mirror_image_get_info_cleanup(&mirror);
    if (!follows) return Status::ok();
    return failure(
        Code::kPermission,
        "it is a mirror of an image in another cluster, not the primary one: serve the primary image, or "
        "see rbd mirror image promote");
}

// Returns "ADDRESS:0/NONCE" of the client that has the lock. The text is empty if no client has it.
Result<std::string> Client::lock_owner() const {
    rbd_lock_mode_t mode{};
    char* owners[8] = {};
    size_t count = std::size(owners);
    const int result = -rbd_lock_get_owners(image_, &mode, owners, &count);
    if (result == ENOENT) return std::string();
    if (result == EBUSY)
        return failure(Code::kBusy,
                       "it is locked by rbd lock add, or by another program in that way: see rbd lock ls {}",
                       options_.name());
    if (result == EINVAL) WSS_TRY(check_primary());
    if (result != 0) return refusal(result, "cannot read the owner of the exclusive lock");
    std::string owner(count == 0 ? "" : owners[0]);
    rbd_lock_get_owners_cleanup(owners, count);
    return owner;
}

Result<std::vector<Client::Watcher>> Client::watchers() const {
    size_t count = 64;
    std::vector<rbd_image_watcher_t> found(count);
    int result = rbd_watchers_list(image_, found.data(), &count);
    while (result == -ERANGE && count <= kWatchersMax) {
        found.resize(count);
        result = rbd_watchers_list(image_, found.data(), &count);
    }
    if (result < 0) return refusal(-result, "cannot read the clients that have the image open");
    std::vector<Watcher> all;
    for (size_t i = 0; i < count; ++i)
        all.push_back({static_cast<uint64_t>(found[i].id), found[i].cookie, found[i].addr});
    rbd_watchers_list_cleanup(found.data(), count);
    return all;
}

Result<std::optional<Client::Watcher>> Client::watcher_of(const std::string& address) const {
    auto all = watchers();
    if (!all) return all.status();
    for (Watcher& one : *all)
        if (one.address == address) return std::optional(std::move(one));
    return std::optional<Watcher>();
}

bool Client::answers(uint64_t id) {
    const std::vector<Answer> all = answers();
    return std::ranges::find(all, id, &Answer::client) != all.end();
}

bool Client::only_watches(const Watcher& one) const {
    return only_watch_.contains({one.client, one.cookie});
}

// Has librbd read the header again: an empty notification means a header change, as in the first versions of
// librbd. Blocks.
void Client::notify_librbd() const {
    char* reply = nullptr;
    size_t length = 0;
    (void)rados_notify2(pool_, header_.c_str(), "", 0, kNoticeMs, &reply, &length);
    rados_buffer_free(reply);
}

// Returns the answers of the clients that watch the image, or an empty list if they cannot be determined.
std::vector<Client::Answer> Client::answers() {
    char* reply = nullptr;
    size_t length = 0;
    (void)rados_notify2(pool_, header_.c_str(), "", 0, kNoticeMs, &reply, &length);
    std::vector<Answer> found;
    if (reply == nullptr) return found;
    notify_ack_t* acks = nullptr;
    notify_timeout_t* timeouts = nullptr;
    size_t ack_count = 0, timeout_count = 0;
    if (rados_decode_notify_response(reply, length, &acks, &ack_count, &timeouts, &timeout_count) == 0) {
        for (size_t i = 0; i < ack_count; ++i) {
            const std::string_view text(acks[i].payload, acks[i].payload_len);
            found.push_back({acks[i].notifier_id, acks[i].cookie});
            if (text == HeaderWatch::kAnswer) only_watch_.insert({acks[i].notifier_id, acks[i].cookie});
        }
        rados_free_notify_response(acks, ack_count, timeouts);
    }
    rados_buffer_free(reply);
    return found;
}

// Returns the same as end_former_owner(). The caller must read the lock again, because another client may
// have taken it.
Result<HolderMark::Taking> Client::shut_out(const std::string& owner, uint64_t seen) {
    // Logged in advance, because the process may end while it waits for the answer.
    log::warning("rbd:{}: the client at {} is being blocklisted", options_.name(), owner);
    WSS_TRY(blocklist(
        owner,
        fmt::format("the former owner at {} cannot be blocklisted, and could continue to write", owner)));
    Status known = wait_for_blocklist(
        fmt::format("the former owner at {} is blocklisted, but its lock is not broken", owner));
    if (Status wanted = check_wanted(); !wanted) {
        log::warning("rbd:{}: the client at {} is blocklisted, although the opening was given up meanwhile",
                     options_.name(), owner);
        return wanted;
    }
    if (!known) return known;
    return take_from(owner, seen);
}

// Breaks the lock of a blocklisted owner. If this function fails before that, the lock is unchanged, and the
// next opening of a storage process can still continue the chain.
Result<HolderMark::Taking> Client::take_from(const std::string& owner, uint64_t seen) {
    const std::string failure_text = fmt::format("cannot break the lock of the client at {}", owner);
    Locker locker;
    int result = -find_locker(owner, locker);
    uint64_t former = 0;
    if (result == 0 && (former = locker.number) != 0) {
        lock_watch_.emplace(cluster_, pool_, header_, former);
        if (int error = lock_watch_->error(); error != 0) return refusal(error, failure_text);
        auto others = look_elsewhere(former);
        if (!others) return others.status().within(failure_text);
        if (others->kind == Elsewhere::Kind::kSilent && keeps_taken_)
            return still_lists(others->address)
                .within(
                    fmt::format("the former owner at {} is blocklisted, but its lock is not broken", owner));
        if (others->kind != Elsewhere::Kind::kNobody) former = 0;
    }
    // No operation has a time limit from here on: the command that breaks the lock cannot be recalled, so its
    // answer must not be missed.
    WSS_TRY(end_limit());
    may_have_lock_.store(true);
    WSS_TRY(check_wanted());
    if (result == 0) result = -break_lock(locker);
    if (result != 0 && result != ENOENT) return refusal(result, failure_text);
    log::warning("rbd:{}: the former owner at {} is blocklisted{}", options_.name(), owner,
                 result == 0 ? ", and its lock is broken" : "; it had already released the lock");
    return result == 0 ? HolderMark::Taking{.former = former}
                       : HolderMark::Taking{.was_free = true, .seen = seen};
}

// Returns 0 or a negative errno. -ENOENT: no client has the lock, or several clients have it.
int Client::read_locker(Locker& locker) const {
    std::array<char, 256> tag{};
    std::array<char, 1024> clients{}, cookies{}, addresses{};
    size_t tag_bytes = tag.size(), clients_bytes = clients.size(), cookies_bytes = cookies.size(),
           addresses_bytes = addresses.size();
    int exclusive = 0;
    const ssize_t count = rados_list_lockers(pool_, header_.c_str(), kLockName, &exclusive, tag.data(),
                                             &tag_bytes, clients.data(), &clients_bytes, cookies.data(),
                                             &cookies_bytes, addresses.data(), &addresses_bytes);
    if (count < 0) return static_cast<int>(count);
    if (count != 1) return -ENOENT;
    locker = {client_number(clients.data()), clients.data(), cookies.data(), addresses.data()};
    return 0;
}

// Finds the client's entry of the lock. -ENOENT: the client does not have the lock, or is not its only
// holder.
int Client::find_locker(const std::string& owner, Locker& locker) const {
    if (int result = read_locker(locker); result < 0) return result;
    return locker.is_at(owner) ? 0 : -ENOENT;
}

// -ENOENT: the client no longer has the lock.
int Client::break_lock(const Locker& locker) const {
    return rados_break_lock(pool_, header_.c_str(), kLockName, locker.client.c_str(), locker.cookie.c_str());
}

}  // namespace wss::io::rbd
