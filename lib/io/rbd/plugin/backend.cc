// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/backend.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/plugin.h"
#include "lib/io/rbd/plugin/queue.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr uint32_t kPhysicalBlock = 4096;  // an OSD writes it without reading first

// While clients exist (abandoned, or leaked with requests in flight) threads of librados and librbd run. Then
// a process that ends must not run the destructors of these libraries.
void leave_at_exit() {
    static const int registered = on_exit(
        [](int status, void*) {
            if (Client::alive() == 0) return;
            std::fflush(nullptr);
            _exit(status);
        },
        nullptr);
    (void)registered;
}

}  // namespace

// Returns the options of an opening, or an error if these alone show that the opening is impossible.
static Result<RbdOptions> options_to_open(const std::string& rest, const OpenOptions& options) {
    auto parsed = parse_rbd_options(rest);
    if (!parsed) return parsed.status();
    if (options.create)
        return failure(Code::kUnsupported,
                       "rbd:{}: images are created by rbd create, not by a volume's 'create'",
                       parsed->name());
    if (!parsed->is_head() && !options.read_only)
        return failure(Code::kInvalid, "rbd:{}: a snapshot is read-only: give the volume 'ro'",
                       parsed->name());
    return parsed;
}

// True if the image need not grow. An error if it would have to grow and the volume does not permit that.
static Result<bool> fits(const std::string& name, uint64_t bytes, const OpenOptions& options) {
    if (options.any_size || options.size <= bytes) return true;
    if (options.grow && !options.read_only) return false;
    return failure(Code::kIo, "rbd:{} has only {}, {} ({} bytes) are needed: rbd resize enlarges it", name,
                   readable_size(bytes), readable_size(options.size), options.size);
}

Result<std::unique_ptr<Backend>> RbdBackend::open(const std::string& rest, const OpenOptions& options) {
    auto parsed = options_to_open(rest, options);
    if (!parsed) return parsed.status();
    leave_at_exit();
    // Only the operator's command steals back a lost image. Otherwise two targets with steal=true in their
    // specifications would take it from each other forever.
    parsed->steal = (parsed->steal && !options.any_size) || options.steal;
    const Deadline limit = in_seconds(parsed->open_timeout);
    auto client = Client::open(*parsed, options);
    if (!client) return client.status();
    std::unique_ptr<RbdBackend> backend(new RbdBackend(std::move(*client)));
    WSS_TRY(backend->fit(options, limit));
    return std::unique_ptr<Backend>(std::move(backend));
}

Status RbdBackend::check(const std::string& rest, const OpenOptions& options) {
    auto parsed = options_to_open(rest, options);
    if (!parsed) return parsed.status();
    leave_at_exit();
    auto bytes = Client::check(*parsed, options);
    return bytes ? fits(parsed->name(), *bytes, options).status() : bytes.status();
}

void RbdBackend::begin_close() noexcept {
    if (closing_) return;
    client_->watch_size({});
    closing_ = Client::begin_close(client_);
}

RbdBackend::~RbdBackend() {
    begin_close();
    Client::end_close(*closing_);
}

Status RbdBackend::fit(const OpenOptions& options, Deadline limit) {
    const auto fitting = fits(client_->options().name(), client_->size(), options);
    if (!fitting) return fitting.status();
    return *fitting ? Status::ok() : grow(options.size, options, limit);
}

// A part of the opening. An image that Ceph enlarges later is found with that size by the next opening.
Status RbdBackend::grow(uint64_t bytes, const OpenOptions& options, Deadline limit) {
    const auto is_given_up = [&] { return options.given_up != nullptr && options.given_up->load(); };
    WSS_TRY(check_new_size(bytes));
    BoundedCall call;
    WSS_TRY(call.start([client = client_, bytes] { return client->resize(bytes); }).within(describe()));
    if (auto done = call.wait_while_program_runs(limit, is_given_up)) return *done;
    if (is_given_up()) return failure(Code::kClosed, "{}: the opening was given up", describe());
    return abandoned(fmt::format("the image could not be enlarged within {} s (open_timeout): see ceph -s",
                                 client_->options().open_timeout))
        .within(describe());
}

Limits RbdBackend::limits() const noexcept {
    const auto object = static_cast<uint32_t>(std::min<uint64_t>(client_->object_bytes(), 1u << 30));
    return {.size = client_->size(),
            .logical_block = kBlock,
            .physical_block = kPhysicalBlock,
            .optimal_transfer = object,
            .discard_granularity = object,
            .discard = !client_->read_only(),
            .volatile_cache = false,
            .rotational = false};
}

Result<std::unique_ptr<Queue>> RbdBackend::open_queue(reactor::Reactor& reactor) {
    auto calls = client_->add_calls();
    if (!calls) return calls.status();
    return std::unique_ptr<Queue>(std::make_unique<RbdQueue>(client_, reactor, **calls));
}

Status RbdBackend::check_new_size(uint64_t bytes) const {
    if (bytes != 0 && bytes % kBlock == 0) return Status::ok();
    return failure(Code::kInvalid, "{}: size {} is 0, or not a multiple of its block of {} bytes", describe(),
                   bytes, kBlock);
}

Status RbdBackend::resize(uint64_t bytes) {
    WSS_TRY(check_new_size(bytes));
    if (client_->read_only()) return failure(Code::kPermission, "{} is opened read-only", describe());
    // During a resize size() is a limit for requests, not the size of the image.
    if (bytes == client_->size() && !client_->is_resizing()) return Status::ok();
    return bounded(
        resize_, [client = client_, bytes] { return client->resize(bytes); },
        "the volume was removed meanwhile, and Ceph may still resize the image");
}

std::optional<Status> RbdBackend::late_resize() {
    if (!resize_.is_started()) return std::nullopt;
    if (auto done = resize_.wait_until(std::chrono::steady_clock::now())) return *done;
    return failure(Code::kBusy, "{}: Ceph has not answered the resize yet: see ceph -s", describe());
}

Status RbdBackend::may_resize() {
    if (client_->read_only()) return failure(Code::kPermission, "{} is opened read-only", describe());
    BoundedCall begun;
    return bounded(
        begun, [client = client_] { return client->may_resize(); }, "the volume was removed meanwhile");
}

// Returns after resize_timeout at the latest. Returns early when the client is lost or the volume is removed,
// because the reopening or the removal waits for this call.
Status RbdBackend::bounded(BoundedCall& begun, std::function<Status()> call, std::string_view removed) const {
    const uint32_t limit = client_->options().resize_timeout;
    if (ends_.load()) return failure(Code::kClosed, "{}: the volume was removed", describe());
    WSS_TRY(begun.start(std::move(call)).within(describe()));
    if (auto done = begun.wait_while_program_runs(in_seconds(limit),
                                                  [this] { return client_->lost() || ends_.load(); }))
        return *done;
    if (ends_.load()) return failure(Code::kClosed, "{}: {}", describe(), removed);
    if (client_->lost()) return failure(Code::kClosed, "{}: the image was lost meanwhile", describe());
    return abandoned(fmt::format("Ceph has not answered within {} s (resize_timeout): see ceph -s", limit))
        .within(describe());
}

}  // namespace wss::io::rbd

extern "C" const wss::io::Plugin* wss_io_plugin() {
    static const wss::io::Plugin plugin{
        .set_log_level = [](const char* level) { (void)wss::log::set_level(level); },
        .end_waits = [] { wss::io::rbd::program_ends.store(true); },
        .open = wss::io::rbd::RbdBackend::open,
        .check = wss::io::rbd::RbdBackend::check};
    return &plugin;
}
