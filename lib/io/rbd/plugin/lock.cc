// SPDX-License-Identifier: Apache-2.0
// The exclusive lock of an image: who may write it.
//
// librbd alone takes the lock when it first writes and gives it to whoever asks. Here it is taken explicitly,
// before the first request, and kept: another client that asks is refused.
//
//  nobody has it             it is taken
//  a live client has it      an error names it; with steal=true it is broken
//  a dead client has it      librbd waits until Ceph counts it as dead (osd_client_watch_timeout, 30 s), then
//                            breaks it
// "Broken" always means that the former owner is blocklisted first: whatever it still sends, also when it was
// only stopped and is woken, is refused by every OSD. Ceph forgets a blocklisted client after an hour
// (mon_osd_blocklist_default_expire), which a stopped process may outlast: so the time is made longer.
#include <cerrno>
#include <cstdlib>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlocklistSeconds = 30 * 24 * 3600;
constexpr int kAttempts = 5;  // the owner changed meanwhile

}  // namespace

Status Client::take_lock() {
    uint64_t features = 0;
    if (int result = rbd_get_features(image_, &features); result < 0)
        return Status::from_errno(-result, "cannot read the features of the image");
    if ((features & RBD_FEATURE_EXCLUSIVE_LOCK) == 0)
        return failure(Code::kUnsupported,
                       "the image has no exclusive lock, so that nothing would keep two targets apart: rbd "
                       "feature enable {} exclusive-lock",
                       options_.name());
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const std::string former = lock_owner();
        if (!former.empty() && options_.steal) WSS_TRY(break_lock(former));
        const int result = -rbd_lock_acquire(image_, RBD_LOCK_MODE_EXCLUSIVE);
        if (result == 0) {
            // One that gave it up is still there; one that died is not.
            if (!former.empty() && !has_watcher(former)) blocklist_for_long(former);
            return Status::ok();
        }
        if (result == ESHUTDOWN)
            return failure(Code::kPermission, "Ceph has blocklisted this client (ceph osd blocklist ls)");
        if (result != EROFS && result != EBUSY && result != EAGAIN)
            return Status::from_errno(result, "cannot take the exclusive lock");
        const std::string owner = lock_owner();
        if (!owner.empty() && !options_.steal)
            return failure(Code::kBusy,
                           "the client at {} uses it (rbd status {}): stop that one, or give steal=true to "
                           "shut it out",
                           owner, options_.name());
    }
    return failure(Code::kBusy, "its exclusive lock changes hands all the time");
}

// "ADDRESS:0/NONCE" of a client; empty: nobody.
std::string Client::lock_owner() const {
    rbd_lock_mode_t mode{};
    char* owners[8] = {};
    size_t count = std::size(owners);
    if (rbd_lock_get_owners(image_, &mode, owners, &count) < 0 || count == 0) return {};
    std::string owner(owners[0]);
    rbd_lock_get_owners_cleanup(owners, count);
    return owner;
}

bool Client::has_watcher(const std::string& address) const {
    size_t count = 64;
    std::vector<rbd_image_watcher_t> watchers(count);
    int result = rbd_watchers_list(image_, watchers.data(), &count);
    if (result == -ERANGE) {
        watchers.resize(count);
        result = rbd_watchers_list(image_, watchers.data(), &count);
    }
    if (result < 0) return false;
    bool found = false;
    for (size_t i = 0; i < count; ++i) found |= address == watchers[i].addr;
    rbd_watchers_list_cleanup(watchers.data(), count);
    return found;
}

Status Client::break_lock(const std::string& owner) {
    const int result = -rbd_lock_break(image_, RBD_LOCK_MODE_EXCLUSIVE, owner.c_str());
    if (result != 0 && result != ENOENT && result != EBUSY)
        return Status::from_errno(result, fmt::format("cannot break the lock of the client at {}", owner));
    log::warning("rbd:{}: the client at {} had the image; it is shut out (steal=true)", options_.name(),
                 owner);
    return Status::ok();
}

void Client::blocklist_for_long(const std::string& address) {
    const std::string command =
        fmt::format(R"({{"prefix": "osd blocklist", "blocklistop": "add", "addr": "{}", "expire": {}.0}})",
                    address, kBlocklistSeconds);
    const char* commands[] = {command.c_str()};
    char *output = nullptr, *status = nullptr;
    size_t output_length = 0, status_length = 0;
    const int result =
        rados_mon_command(cluster_, commands, 1, "", 0, &output, &output_length, &status, &status_length);
    if (result < 0)
        log::warning("rbd:{}: the former owner {} stays blocklisted for an hour only: {}", options_.name(),
                     address, std::string_view(status == nullptr ? "" : status, status_length));
    else
        log::info("rbd:{}: the former owner at {} is blocklisted", options_.name(), address);
    if (output != nullptr) rados_buffer_free(output);
    if (status != nullptr) rados_buffer_free(status);
}

}  // namespace wss::io::rbd
