// SPDX-License-Identifier: Apache-2.0
// Openings and closings. Each runs on a thread of its own with a time limit (bounded.h), and may continue
// after its caller has given up.
#include <mutex>
#include <vector>

#include "lib/base/log.h"
#include "lib/io/rbd/plugin/client.h"

namespace wss::io::rbd {

namespace {

// How long an ending program waits for the end of its watch: a notification takes up to 3 s (kNoticeMs), and
// in a closing librbd waits 5 s for dead clients.
constexpr uint32_t kWatchSeconds = 10;
constexpr uint32_t kOpenSeconds = 1;  // of these, until librbd has opened the image

}  // namespace

Result<std::shared_ptr<Client>> Client::open(const RbdOptions& options, const OpenOptions& how) {
    return begin(options, how, &Client::start);
}

Result<uint64_t> Client::check(const RbdOptions& options, const OpenOptions& how) {
    auto client = begin(options, how, &Client::look_for_owner);
    if (!client) return client.status();
    const uint64_t bytes = (*client)->found_bytes_;
    Closing closing = begin_close(*client);
    end_close(closing);
    return bytes;
}

Result<std::shared_ptr<Client>> Client::begin(const RbdOptions& options, const OpenOptions& how,
                                              Status (Client::*step)()) {
    const std::string name = "rbd:" + options.name();
    WSS_TRY(check_room().within(name));
    if (leaks.load() >= kLeaksMax)
        return failure(
            Code::kExhausted,
            "{}: {} openings and other calls to Ceph failed because descriptors, threads or memory "
            "ran out, and the resources that they had taken cannot be released: restart the target",
            name, kLeaksMax);
    std::shared_ptr<Client> client(new Client(options, how), [](Client* one) { delete one; });
    BoundedCall call;
    Status begun = call.start([client, step] {
        Status status = (client.get()->*step)();
        if (status && !client->decide(Opening::kDone)) status = client->check_wanted();
        if (!status) end(client);
        return status;
    });
    if (!begun) return begun.within(name);
    const auto is_given_up = [&how] { return how.given_up != nullptr && how.given_up->load(); };
    auto started = call.wait_while_program_runs(in_seconds(options.open_timeout), is_given_up);
    // The opening may be succeeding at this moment.
    if (!started && !client->decide(Opening::kGivenUp))
        started = call.wait_until(in_seconds(options.close_timeout));
    if (!started) {
        if (!client->is_without_lock()) client->claim_.release();
        const bool locks = client->may_have_lock_.load();
        const std::shared_ptr<std::atomic<Image>> image = client->image_is_;
        client.reset();
        // A storage process exits when an opening fails. After a removal, the program may end at any time.
        const bool given_up = is_given_up();
        if (program_ends.load() || how.keeps_taken || given_up) wait_for_end(call, locks, *image, options);
        if (given_up) return Status(Code::kClosed, "the opening was given up").within(name);
        return abandoned(fmt::format("the image could not be opened within {} s (open_timeout): see ceph -s",
                                     options.open_timeout))
            .within(name);
    }
    if (*started) return client;
    // Others may try again. A client whose opening threw is leaked, and keeps a lock that it had taken.
    client->claim_.release();
    return started->within(name);
}

// Waits until the client of an opening that was given up has ended, because the process ends. If this client
// has the lock then, the next opening of the image waits 30 s for a dead client, and if a lock was broken but
// not taken, the chain ends. If the image is merely open, librbd waits for the dead client at each
// notification, and an opening by a storage process waits for it, too.
void Client::wait_for_end(BoundedCall& call, bool locks, const std::atomic<Image>& image,
                          const RbdOptions& options) {
    if (locks) {
        if (call.wait_until(in_seconds(options.close_timeout))) return;
        log::warning(
            "rbd:{}: Ceph, or another client of the image, does not answer; the exclusive lock may be left "
            "behind after {} s (close_timeout)",
            options.name(), options.close_timeout);
    } else if (image.load() != Image::kNone) {
        const Deadline limit = in_seconds(kWatchSeconds);
        if (!call.wait_until(in_seconds(kOpenSeconds)) && image.load() == Image::kOpen)
            (void)call.wait_until(limit);
    }
}

Client::Closing Client::begin_close(const std::shared_ptr<Client>& client) {
    Closing closing{.name = client->options_.name(), .limit = client->options_.close_timeout};
    closing.deadline = in_seconds(closing.limit);
    client->is_closing_.store(true);
    if (!keeps_lock(client->loss_.load()) && !client->keeps_claim_.load()) client->claim_.release();
    closing.call.emplace();
    Status begun = closing.call->start([client] {
        end(client);
        return Status::ok();
    });
    if (begun) return closing;
    closing.call.reset();
    log::warning("rbd:{}: {}; its client is abandoned", closing.name, begun.to_string());
    // Its end may block, and there is no thread for it: the client is leaked.
    new std::shared_ptr<Client>(client);
    return closing;
}

void Client::end_close(Closing& closing) {
    if (!closing.call) return;
    const auto closed = closing.call->wait_until(closing.deadline);
    if (!closed)
        log::warning(
            "rbd:{}: Ceph, or another client of the image, does not answer; its client is abandoned after "
            "{} s (close_timeout)",
            closing.name, closing.limit);
    else if (!*closed)
        log::warning("rbd:{}: {}; its client is abandoned", closing.name, closed->to_string());
}

// Returns false if the other thread has already decided.
bool Client::decide(Opening how) noexcept {
    Opening goes_on = Opening::kGoesOn;
    return opening_.compare_exchange_strong(goes_on, how);
}

void Client::end(const std::shared_ptr<Client>& client) {
    const Status released = client->stop();
    if (released) return;
    log::warning("rbd:{}: {}", client->options_.name(), released.text());
    client->claim_.release();
    // The client lives until the process ends.
    static auto* const all = new std::vector<std::shared_ptr<Client>>;
    static std::mutex guards_all;
    std::lock_guard lock(guards_all);
    all->push_back(client);
}

}  // namespace wss::io::rbd
