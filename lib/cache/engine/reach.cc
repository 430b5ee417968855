// SPDX-License-Identifier: Apache-2.0
#include "lib/cache/engine/reach.h"

#include <algorithm>

namespace wss::cache {

// One for each engine, and some that are still closing.
constexpr size_t kConnectionsMax = 4 * WSS_CACHE_ENGINES_MAX;
constexpr Nanoseconds kConnectTimeout = from_s(2);

// One connection to an engine. The RS sends no messages on it, and the engine's READs and WRITEs need no
// action by the RS.
//   connecting → up → over, only forwards
class Engine::Reach::EngineConnection final : public fabric::ConnectionHandler {
  public:
    EngineConnection(Reach& reach, const wire::CacheEngineNotice& notice)
        : reach_(reach), index_(notice.index), handle_(notice.handle) {}

    Status connect(const wire::CacheEngineNotice& notice) {
        auto address = fabric::Address::parse(notice.uri_text(), WSS_SRP_DEFAULT_PORT);
        if (!address) return address.status();
        std::array<std::byte, sizeof(wss_cache_login)> data;
        wire::encode_cache_login({notice.handle, notice.token}, data);
        fabric::ConnectionOptions options;
        options.send_depth = options.receive_depth = options.send_segments = 1;
        options.inline_bytes = 0;
        options.posts_reads = false;
        options.connect_timeout = kConnectTimeout;
        options.device = reach_.device_;
        auto connection = reach_.net_.poller->connect(*address, data, options, *this);
        if (!connection) return connection.status();
        connection_ = std::move(*connection);
        return Status::ok();
    }
    void close() noexcept {
        if (!over_) connection_->close();
    }
    bool is_over() const noexcept { return over_; }
    uint16_t index() const noexcept { return index_; }
    uint64_t handle() const noexcept { return handle_; }

    void on_established(fabric::Connection&, std::span<const std::byte>) noexcept override {}
    void on_refused(fabric::Connection& connection, const Status& why,
                    std::span<const std::byte>) noexcept override {
        on_closed(connection, why);
    }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override {}
    void on_closed(fabric::Connection&, const Status&) noexcept override {
        over_ = true;
        reach_.some_over_ = true;
    }

  private:
    Reach& reach_;
    const uint16_t index_;
    const uint64_t handle_;
    std::unique_ptr<fabric::Connection> connection_;
    bool over_ = false;
};

Engine::Reach::Reach(SeLink& link, const Net& net, std::span<std::byte> staging)
    : link_(link), net_(net), staging_(staging) {}

Result<std::unique_ptr<Engine::Reach>> Engine::Reach::create(SeLink& link, const Net& net,
                                                             std::span<std::byte> staging) {
    std::unique_ptr<Reach> made(new Reach(link, net, staging));
    auto region = net.fabric->register_memory(staging, fabric::Access::kRemoteReadWrite);
    if (!region) return region.status().within("registering memory for cache engines");
    made->region_ = std::move(*region);
    return made;
}

Engine::Reach::~Reach() {
    WSS_ASSERT(connections_.empty(), "connections are closed before their memory is freed");
}

void Engine::Reach::introduce(RecordLink& link) noexcept {
    device_ = link.device();
    link.wrote(
        wire::put_staging({region_->remote_address(), staging_.size(), region_->rkey(device_)}, link.room()));
}

bool Engine::Reach::named(const wire::Record& record) noexcept {
    wire::CacheEngineNotice notice;
    if (wire::parse_cache_engine(record.body, notice) != wire::ParseError::kNone) return false;
    close(notice.index);
    if (!notice.added) return true;
    auto connection = std::make_unique<EngineConnection>(*this, notice);
    if (connections_.size() < kConnectionsMax && connection->connect(notice))
        connections_.push_back(std::move(connection));
    else
        link_.engine_gone(notice.handle);
    return true;
}

std::byte* Engine::Reach::staging_buffer(uint64_t offset, uint64_t bytes) const noexcept {
    const bool inside = offset <= staging_.size() && bytes <= staging_.size() - offset;
    return inside ? staging_.data() + offset : nullptr;
}

void Engine::Reach::close(uint16_t index) noexcept {
    for (auto& connection : connections_)
        if (connection->index() == index) connection->close();
}

void Engine::Reach::close_all() noexcept {
    for (auto& connection : connections_) connection->close();
}

size_t Engine::Reach::turn() noexcept {
    if (!std::exchange(some_over_, false)) return 0;
    for (const auto& connection : connections_)
        if (connection->is_over()) link_.engine_gone(connection->handle());
    return std::erase_if(connections_, [](const auto& connection) { return connection->is_over(); });
}

}  // namespace wss::cache
