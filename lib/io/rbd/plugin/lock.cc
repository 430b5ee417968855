// SPDX-License-Identifier: Apache-2.0
// The exclusive lock of an image: who may write it.
//
// librbd alone takes the lock when it first writes and gives it to whoever asks. Here it is taken explicitly,
// before the first request, and kept: another client that asks is refused.
//
//  nobody has it             it is taken
//  a live client has it      an error names it; with steal=true it is shut out
//  a dead client has it      when Ceph counts it as dead (its watch of the header is over,
//                            osd_client_watch_timeout, 30 s), it is shut out; with steal=true at once
// A live client is never asked for the lock: most would give it (librbd's automatic lock), and then wait for
// it or fail for ever. Whether it lives is seen from its answer to a notice that every client takes for a
// change of the image's header.
//
// "Shut out" means that it is blocklisted and then its lock is broken: whatever it still sends, also when it
// was only stopped and is woken, is refused by every OSD. Ceph forgets a blocklisted client after an hour
// (mon_osd_blocklist_default_expire), which a stopped process may outlast: so the time is longer. The lock is
// broken by librados: rbd_lock_break() blocklists once more, for a time that is not ours to set.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/ownership.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr int kAttempts = 5;  // the owner changed meanwhile
constexpr uint64_t kNoticeMs = 3000;
constexpr auto kLookAgain = std::chrono::seconds(1);
// In one after the other: a live client whose connection was lost has none while it renews its watch.
constexpr uint32_t kLooksWithoutWatch = 2;
constexpr Nanoseconds kReserve = from_s(5);  // of open_timeout, for what follows the wait for a dead owner
constexpr Nanoseconds kCommandReserve = from_s(1);
constexpr const char* kCommandLimit = "rados_mon_op_timeout";
constexpr const char* kOperationLimit = "rados_osd_op_timeout";
constexpr size_t kWatchersMax = 4096;

// Of "client.4123"; 0: it is none.
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
                       "the image has no exclusive lock, so that nothing would keep two targets apart: rbd "
                       "feature enable {} exclusive-lock",
                       options_.name());
    found_map_ = (features & RBD_FEATURE_OBJECT_MAP) != 0;
    return Status::ok();
}

Status Client::take_lock() {
    uint64_t former = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        // A client that has broken a lock takes it in any case: another one could hold it without a trace.
        const bool goes_on = keeps_taken_ && former != 0;
        if (!goes_on) WSS_TRY(check_wanted());
        auto owner = lock_owner();
        if (!owner) return owner.status();
        if (!owner->empty()) {
            auto ended = end_former_owner(*owner);
            if (!ended) return ended.status();
            former = *ended;
            continue;
        }
        WSS_TRY(end_limit());
        may_have_lock_.store(true);
        if (!goes_on) WSS_TRY(check_wanted());
        // One that takes the lock between these two calls is asked for it.
        const int result = -rbd_lock_acquire(image_, RBD_LOCK_MODE_EXCLUSIVE);
        if (result == 0) {
            // Nobody but the owner marks it.
            maps_objects_.store(found_map_);
            return note_succession(former);
        }
        former = 0;
        if (result == EROFS || result == EINVAL) WSS_TRY(check_primary());
        if (result != EROFS && result != EBUSY && result != EAGAIN)
            return refusal(result, "cannot take the exclusive lock");
    }
    return failure(Code::kBusy, "its exclusive lock changes hands all the time");
}

// What is begun from here on has none.
Status Client::end_limit() const {
    const int result = rados_conf_set(cluster_, kOperationLimit, "0");
    if (result < 0) return Status::from_errno(-result, fmt::format("cannot set {} = 0", kOperationLimit));
    return Status::ok();
}

// The caller of open() may have given it up: from then on nothing may be taken from others.
Status Client::check_wanted() const {
    if (opening_.load() != Opening::kGivenUp) return Status::ok();
    return Status(Code::kClosed, "the opening was given up");
}

// Its number, if its lock was broken and nobody else had a hand in the image; 0: that is not known.
Result<uint64_t> Client::end_former_owner(const std::string& owner) {
    WSS_TRY(wait_to_end(owner));
    if (options_.steal) {
        auto watcher = watcher_of(owner);
        if (watcher && *watcher)
            log::warning(
                "rbd:{}: the client at {} has the image and may be alive: it is shut out (steal=true)",
                options_.name(), owner);
    }
    // One that closed the image meanwhile has no watch either, and lives: its other images stay its own. It
    // releases the lock before its watch ends.
    auto now = lock_owner();
    if (!now) return now.status();
    return *now == owner ? shut_out(owner) : 0;
}

Status Client::wait_to_end(const std::string& owner) const {
    // First: an owner that was away may be back when these watches end.
    if (keeps_taken_) WSS_TRY(wait_for_dead_watches(owner));
    return options_.steal ? Status::ok() : wait_until_dead(owner);
}

// One that opened the image for writing and waited for its lock could have had that between `former` and this
// client. Who has the image open so watches its header, from before it has the lock; who has closed it again
// has notified lock_watch_.
Status Client::note_succession(uint64_t former) {
    const bool follows =
        former != 0 && !is_open_elsewhere(former) && lock_watch_ && !lock_watch_->saw_another();
    lock_watch_.reset();
    if (read_only_) return Status::ok();
    auto noted = note_holder(image_, rados_get_instance_id(cluster_), follows ? former : 0);
    if (!noted) return noted.status();
    succession_ = *noted;
    return Status::ok();
}

bool Client::is_open_elsewhere(uint64_t besides) const {
    const auto all = watchers();
    if (!all) return true;
    const uint64_t self = rados_get_instance_id(cluster_);
    return std::any_of(all->begin(), all->end(),
                       [=](const Watcher& one) { return one.client != self && one.client != besides; });
}

Status Client::wait_until_dead(const std::string& owner) const {
    const Nanoseconds limit = opened_at_ + from_s(options_.open_timeout) - kReserve;
    for (uint32_t without = 0;;) {
        auto watcher = watcher_of(owner);
        if (!watcher) return watcher.status();
        without = *watcher ? 0 : without + 1;
        if (without == kLooksWithoutWatch) return Status::ok();
        if (*watcher && (answers((*watcher)->client) || SystemClock().now() > limit)) return uses_it(owner);
        WSS_TRY(check_wanted());
        std::this_thread::sleep_for(kLookAgain);
    }
}

// A client that ended without closing the image is listed as a watcher for osd_client_watch_timeout. It could
// have had the lock between `owner` and this client, which would not continue the chain of `owner` then.
Status Client::wait_for_dead_watches(const std::string& owner) const {
    const Nanoseconds limit = opened_at_ + from_s(options_.open_timeout) - kReserve;
    for (bool waits = false; SystemClock().now() < limit; waits = true) {
        auto others = watchers();
        if (!others) return others.status();
        const uint64_t self = rados_get_instance_id(cluster_);
        std::erase_if(*others,
                      [&](const Watcher& one) { return one.client == self || one.address == owner; });
        if (others->empty()) break;
        const std::vector<uint64_t> alive = answering();
        const auto dead = std::find_if(others->begin(), others->end(), [&](const Watcher& one) {
            return std::find(alive.begin(), alive.end(), one.client) == alive.end();
        });
        if (dead == others->end()) break;
        if (!waits)
            log::info("rbd:{}: waiting until Ceph ends the watch of the client at {}, which does not answer",
                      options_.name(), dead->address);
        WSS_TRY(check_wanted());
        std::this_thread::sleep_for(kLookAgain);
    }
    return Status::ok();
}

Status Client::uses_it(const std::string& owner) const {
    return failure(
        Code::kBusy,
        "the client at {} uses it (rbd status {}): stop that one, or give steal=true to shut it out", owner,
        options_.name());
}

// As far as one look shows.
Status Client::refuse_live(const std::string& owner) const {
    auto watcher = watcher_of(owner);
    if (!watcher) return watcher.status();
    return *watcher && answers((*watcher)->client) ? uses_it(owner) : Status::ok();
}

Status Client::check_primary() const {
    rbd_mirror_image_info_t mirror{};
    if (rbd_mirror_image_get_info(image_, &mirror, sizeof mirror) < 0) return Status::ok();
    const bool follows = mirror.state == RBD_MIRROR_IMAGE_ENABLED && !mirror.primary;
    rbd_mirror_image_get_info_cleanup(&mirror);
    if (!follows) return Status::ok();
    return failure(Code::kPermission,
                   "it is a mirror of an image in another cluster, not the primary one: serve that one, or "
                   "see rbd mirror image promote");
}

// "ADDRESS:0/NONCE" of a client; empty: nobody.
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
    if (result != 0) return refusal(result, "cannot read who has the exclusive lock");
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
    if (result < 0) return refusal(-result, "cannot read who uses the image");
    std::vector<Watcher> all;
    for (size_t i = 0; i < count; ++i) all.push_back({static_cast<uint64_t>(found[i].id), found[i].addr});
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

bool Client::answers(uint64_t id) const {
    const std::vector<uint64_t> all = answering();
    return std::find(all.begin(), all.end(), id) != all.end();
}

// The clients with the image open that answer a notification. None when that cannot be known.
std::vector<uint64_t> Client::answering() const {
    char* reply = nullptr;
    size_t length = 0;
    // Empty: a change of the header, as the first versions of librbd wrote it.
    (void)rados_notify2(pool_, header_.c_str(), "", 0, kNoticeMs, &reply, &length);
    std::vector<uint64_t> found;
    if (reply == nullptr) return found;
    notify_ack_t* acks = nullptr;
    notify_timeout_t* timeouts = nullptr;
    size_t ack_count = 0, timeout_count = 0;
    if (rados_decode_notify_response(reply, length, &acks, &ack_count, &timeouts, &timeout_count) == 0) {
        for (size_t i = 0; i < ack_count; ++i) found.push_back(acks[i].notifier_id);
        rados_free_notify_response(acks, ack_count, timeouts);
    }
    rados_buffer_free(reply);
    return found;
}

// 0 or the negative error of the monitors; bounded by rados_mon_op_timeout.
int Client::ask_monitors(const std::string& command) const {
    const char* text = command.c_str();
    char *answer = nullptr, *status = nullptr;
    size_t answer_bytes = 0, status_bytes = 0;
    const int result =
        rados_mon_command(cluster_, &text, 1, "", 0, &answer, &answer_bytes, &status, &status_bytes);
    rados_buffer_free(answer);
    rados_buffer_free(status);
    return result;
}

// A command that was sent cannot be recalled: a monitor that was only silent carries it out when it goes on,
// also when the opening was given up long ago. So it has to answer something else first, and both have no
// longer than the opening. rados_blocklist_add() would wait for the map as well, without a limit.
Status Client::blocklist(const std::string& address, const std::string& failure_text) {
    constexpr const char* kAdd = R"({{"prefix": "osd {0}", "{0}op": "add", "addr": "{1}", "expire": {2}.0}})";
    WSS_TRY(
        command_monitors(failure_text, [this] { return ask_monitors(R"({"prefix": "osd getmaxosd"})"); }));
    return command_monitors(failure_text, [&] {
        const int result = ask_monitors(fmt::format(kAdd, "blocklist", address, kBlocklistSeconds));
        // Monitors before version 16 have the former word.
        return result != -EINVAL ? result
                                 : ask_monitors(fmt::format(kAdd, "blacklist", address, kBlocklistSeconds));
    });
}

// What this client sends from then on is answered by no OSD that does not know what was blocklisted. librados
// has no limit for it: a thread waits that keeps the connection to the cluster.
Status Client::wait_for_blocklist(const std::string& failure_text) const {
    const uint32_t seconds = std::max<uint32_t>(1, command_limit());
    BoundedCall call;
    Status begun = call.start([cluster = connection_, failure_text] {
        const int result = rados_wait_for_latest_osdmap(cluster.get());
        return result == 0 ? Status::ok() : refusal(-result, failure_text);
    });
    if (!begun) return begun.within(failure_text);
    auto result = call.wait_while_program_runs(in_seconds(seconds));
    if (!result)
        return abandoned(fmt::format("{}: no monitor answered within {} s (ceph -s)", failure_text, seconds));
    return *result;
}

// Seconds; 0: nothing is left.
uint32_t Client::command_limit() const {
    const Nanoseconds left = commands_until_ - kCommandReserve - SystemClock().now();
    return static_cast<uint32_t>(std::clamp<int64_t>(left.count / from_s(1).count, 0, options_.mon_timeout));
}

Status Client::command_monitors(const std::string& failure_text, const std::function<int()>& command) {
    WSS_TRY(check_wanted());
    const uint32_t limit = command_limit();
    if (limit == 0) return failure(Code::kTimedOut, "{}: too little time is left for it", failure_text);
    if (int result = rados_conf_set(cluster_, kCommandLimit, std::to_string(limit).c_str()); result < 0)
        return Status::from_errno(-result, fmt::format("cannot set {} = {}", kCommandLimit, limit));
    const int result = -command();
    (void)rados_conf_set(cluster_, kCommandLimit, std::to_string(options_.mon_timeout).c_str());
    if (result == 0) return Status::ok();
    if (result == ETIMEDOUT)
        return failure(Code::kTimedOut, "{}: no monitor answered within {} s (ceph -s)", failure_text, limit);
    return refusal(result, failure_text);
}

// As end_former_owner(). The next look at the lock shows what came of it.
Result<uint64_t> Client::shut_out(const std::string& owner) {
    // Before: the process may end while it waits for the answer.
    log::warning("rbd:{}: the client at {} is being blocklisted", options_.name(), owner);
    WSS_TRY(blocklist(
        owner, fmt::format("the former owner at {} cannot be blocklisted, and could go on to write", owner)));
    Status known = wait_for_blocklist(
        fmt::format("the former owner at {} is blocklisted, but its lock is not broken", owner));
    if (Status wanted = check_wanted(); !wanted) {
        log::warning("rbd:{}: the client at {} is blocklisted, although the opening was given up meanwhile",
                     options_.name(), owner);
        return wanted;
    }
    if (!known) return known;
    Locker locker;
    int result = -find_locker(owner, locker);
    const uint64_t former = result == 0 ? client_number(locker.client) : 0;
    if (former != 0) lock_watch_.emplace(cluster_, pool_, header_, former);
    const bool alone = former != 0 && !is_open_elsewhere(former);
    if (result == 0) result = -break_lock(locker);
    if (result == ENOENT)
        log::warning("rbd:{}: the former owner at {} is blocklisted; it had given the lock up meanwhile",
                     options_.name(), owner);
    else if (result != 0)
        return refusal(result, fmt::format("cannot break the lock of the client at {}", owner));
    else
        log::warning("rbd:{}: the former owner at {} is blocklisted, and its lock is broken", options_.name(),
                     owner);
    return result == 0 && alone ? former : 0;
}

// The lock was taken away, and Ceph goes on to serve this client: what it has under way, also for others,
// could come late over what the next owner writes, who finds nobody to shut out.
Status Client::shut_itself_out() {
    constexpr const char* kFailure = "this client cannot be blocklisted, and could go on to write";
    // Whole seconds are left of it when it is asked for the first time.
    commands_until_ = SystemClock().now() + from_s(options_.mon_timeout + 1) + kCommandReserve;
    char* addresses = nullptr;
    if (int result = rados_getaddrs(cluster_, &addresses); result < 0) return refusal(-result, kFailure);
    const std::string self(addresses);
    rados_buffer_free(addresses);
    WSS_TRY(blocklist(self, kFailure));
    log::warning("rbd:{}: the client at {}, which gives up the image, is blocklisted", options_.name(), self);
    return Status::ok();
}

// ENOENT: that client has no lock, or not alone.
int Client::find_locker(const std::string& owner, Locker& locker) const {
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
    locker = {clients.data(), cookies.data(), addresses.data()};
    // librados puts the protocol before the address ("v1:"), librbd does not.
    return locker.address == owner || locker.address.ends_with(":" + owner) ? 0 : -ENOENT;
}

// ENOENT: it has none any more.
int Client::break_lock(const Locker& locker) const {
    return rados_break_lock(pool_, header_.c_str(), kLockName, locker.client.c_str(), locker.cookie.c_str());
}

}  // namespace wss::io::rbd
