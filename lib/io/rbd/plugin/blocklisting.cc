// SPDX-License-Identifier: Apache-2.0
// Commands to the monitors, which blocklist a former owner of the image, or this client if it lost the lock.
#include <algorithm>
#include <cerrno>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr auto kTryAgain = std::chrono::seconds(1);
constexpr Nanoseconds kCommandReserve = from_s(1);
constexpr const char* kCommandLimit = "rados_mon_op_timeout";

}  // namespace

// Returns 0 or the negative error of the monitors. Bounded by rados_mon_op_timeout.
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

// A sent command cannot be cancelled: a silent monitor carries it out when it resumes, even long after the
// opening was given up. So a monitor must first answer another command, and both are limited by the opening.
// rados_blocklist_add() is not used, because it also waits for the map, without a limit.
Status Client::blocklist(const std::string& address, const std::string& failure_text) {
    constexpr const char* kAdd = R"({{"prefix": "osd {0}", "{0}op": "add", "addr": "{1}", "expire": {2}.0}})";
    WSS_TRY(
        command_monitors(failure_text, [this] { return ask_monitors(R"({"prefix": "osd getmaxosd"})"); }));
    return command_monitors(failure_text, [&] {
        const int result = ask_monitors(fmt::format(kAdd, "blocklist", address, kBlocklistSeconds));
        // Monitors before version 16 support only the word "blacklist".
        return result != -EINVAL ? result
                                 : ask_monitors(fmt::format(kAdd, "blacklist", address, kBlocklistSeconds));
    });
}

// Waits until this client has the cluster map with the blocklisting. From then on only OSDs that have this
// map, too, answer this client. librados has no limit for this, so a separate thread waits, and keeps the
// connection.
Status Client::wait_for_blocklist(const std::string& failure_text) const {
    const uint32_t seconds = std::max<uint32_t>(1, command_limit());
    BoundedCall call;
    Status begun = call.start([kept = KeptConnection{{}, connection_}, failure_text] {
        const int result = rados_wait_for_latest_osdmap(kept.connection.get());
        return result == 0 ? Status::ok() : refusal(-result, failure_text);
    });
    if (!begun) return begun.within(failure_text);
    auto result = call.wait_while_program_runs(in_seconds(seconds));
    if (!result)
        return abandoned(fmt::format("{}: no monitor answered within {} s (ceph -s)", failure_text, seconds));
    return *result;
}

// Returns the time limit of a monitor command in seconds, or 0 if no time is left.
uint32_t Client::command_limit() const {
    const Nanoseconds left = commands_until_ - kCommandReserve - SystemClock().now();
    return static_cast<uint32_t>(std::clamp<int64_t>(left.count / from_s(1).count, 0, options_.mon_timeout));
}

Status Client::command_monitors(const std::string& failure_text, const std::function<int()>& command) {
    // A client that lost the image or its lock blocklists itself in any case.
    if (!lost() && !is_without_lock()) WSS_TRY(check_wanted());
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

// Sends a request to Ceph, because librbd also reports a client as blocklisted while it ends the exclusive
// lock. Blocks.
bool Client::is_shut_out() const {
    return change_nothing() == -ESHUTDOWN;
}

// Blocklists this client, which lost the lock while Ceph still serves it. Its operations in flight, including
// those for other clients, could overwrite data of the next owner, which finds no former owner to shut out.
Status Client::shut_itself_out() {
    constexpr const char* kFailure = "this client cannot be blocklisted, and could continue to write";
    // The extra second leaves at least mon_timeout whole seconds for the first command.
    commands_until_ = SystemClock().now() + from_s(options_.mon_timeout + 1) + kCommandReserve;
    char* addresses = nullptr;
    if (int result = rados_getaddrs(cluster_, &addresses); result < 0) return refusal(-result, kFailure);
    const std::string self(addresses);
    rados_buffer_free(addresses);
    WSS_TRY(blocklist(self, kFailure));
    log::warning("rbd:{}: this client ({}) gives up the image and is blocklisted", options_.name(), self);
    return Status::ok();
}

// Runs before the image is closed, because the closing completes the operations of librbd for other clients.
void Client::end_without_lock() {
    for (; is_without_lock() && !gave_up_lock_; std::this_thread::sleep_for(kTryAgain)) {
        const Status shut = shut_itself_out();
        if (!shut && !keeps_claim_.exchange(true))
            log::warning("rbd:{}: {}", options_.name(), shut.to_string());
        gave_up_lock_ = shut.is_ok();
    }
}

}  // namespace wss::io::rbd
