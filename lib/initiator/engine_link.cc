// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/engine_link.h"

#include <algorithm>

namespace wss::initiator {

EngineLink::~EngineLink() {
    WSS_ASSERT(is_over(), "a link ends before it is destroyed");
}

Status EngineLink::connect(fabric::Poller& poller, const wire::CacheEngineNotice& notice, Nanoseconds timeout,
                           size_t device) {
    auto address = fabric::Address::parse(notice.uri_text(), WSS_SRP_DEFAULT_PORT);
    if (!address) return address.status();
    std::array<std::byte, sizeof(wss_cache_login)> data;
    wire::encode_cache_login({notice.handle, notice.token}, data);
    fabric::ConnectionOptions options;
    options.send_depth = 1;
    options.receive_depth = kReceives;
    options.send_segments = 1;
    options.inline_bytes = 0;
    options.posts_reads = false;
    options.connect_timeout = timeout;
    options.device = device;
    auto connection = poller.connect(*address, data, options, *this);
    if (!connection) return connection.status();
    connection_ = std::move(*connection);
    state_ = State::kConnecting;
    return Status::ok();
}

bool EngineLink::post_receives(uint32_t count) noexcept {
    std::array<fabric::Receive, 32> batch;  // receives without memory: only immediate values arrive
    while (count > 0) {
        const uint32_t now = std::min<uint32_t>(count, batch.size());
        if (connection_->post_receives({batch.data(), now}) != Code::kOk) return false;
        count -= now;
    }
    return true;
}

void EngineLink::on_established(fabric::Connection&, std::span<const std::byte>) noexcept {
    if (state_ != State::kConnecting) return;
    state_ = State::kUp;
    if (!post_receives(kReceives)) close();
}

void EngineLink::on_completions(fabric::Connection&,
                                std::span<const fabric::Completion> completions) noexcept {
    uint32_t used = 0;
    for (const fabric::Completion& completion : completions) {
        if (state_ != State::kUp) return;
        if (completion.status != fabric::CompletionStatus::kOk) continue;  // on_closed() follows
        if (completion.kind != fabric::CompletionKind::kReceiveImmediate) return close();
        ++used;
        bytes_ += completion.length;
        if (!owner_.part_arrived(*this, completion.immediate, completion.length)) return close();
    }
    if (state_ == State::kUp && !post_receives(used)) close();
}

void EngineLink::close() noexcept {
    if (state_ != State::kConnecting && state_ != State::kUp) return;
    state_ = State::kClosing;
    connection_->close();
}

void EngineLink::on_refused(fabric::Connection& connection, const Status& why,
                            std::span<const std::byte>) noexcept {
    on_closed(connection, why);
}

void EngineLink::on_closed(fabric::Connection&, const Status& why) noexcept {
    state_ = State::kOver;
    owner_.link_over(*this, why);
}

}  // namespace wss::initiator
