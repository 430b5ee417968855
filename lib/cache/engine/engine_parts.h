// SPDX-License-Identifier: Apache-2.0
// The parts of an Engine (engine.h), for its own .cc files only.
#pragma once

#include "lib/cache/engine/engine.h"
#include "lib/wire/auth_initiator.h"

namespace wss::cache {

constexpr uint32_t kClientDepth = 256;   // outstanding work requests of one client
constexpr size_t kStageMax = 16u << 20;  // all stages (for atomic moves) in the part of one SE
constexpr size_t kClientsMax = 4096;
constexpr size_t kGrantsMax = 8192;

using HeaderBytes = std::array<std::byte, wire::kCacheHeaderBytes>;

// One kMove, from its record to its kDone. For a kStorage (storage.h) it is the RDMA operation in progress,
// or both if there are two.
//   kFree ─▶ [kWaiting: for a stage, or for room at the client] ─▶ kMoving ─▶ kFree
struct alignas(8) Engine::Operation : ListNode<> {
    enum class State : uint8_t { kFree, kWaiting, kMoving };
    static constexpr uint32_t kNoStage = UINT32_MAX;

    SeLink* link = nullptr;
    Client* client = nullptr;  // nullptr: the move has no client
    uint32_t id = 0;
    uint32_t stage = kNoStage;
    State state = State::kFree;
    uint32_t pings = 0;  // the link's `pings_` when the operation began
    wire::CacheMove move;
    std::byte* buffer = nullptr;  // real storage uses this memory instead of a slot
};

// The SE's permission for one client to connect.
struct Engine::Grant {
    wire::CacheToken token{};
    SeLink* link = nullptr;
    Client* client = nullptr;  // nullptr: not yet connected
    bool used = false;
};

class Engine::Client final : public fabric::ConnectionHandler {
  public:
    Client(Engine& engine, SeLink& link, uint64_t handle, size_t net)
        : engine_(engine), link_(&link), handle_(handle), net_(net) {}

    Status accept(fabric::ConnectRequest& request, fabric::Poller& poller);
    void run(Operation& operation) noexcept;
    void close() noexcept { connection_->close(); }
    bool is_over() const noexcept { return over_; }
    uint64_t handle() const noexcept { return handle_; }
    SeLink* link() const noexcept { return link_; }

    void on_established(fabric::Connection&, std::span<const std::byte>) noexcept override;
    void on_refused(fabric::Connection& connection, const Status& why,
                    std::span<const std::byte>) noexcept override {
        on_closed(connection, why);
    }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status& why) noexcept override;

  private:
    Engine& engine_;
    SeLink* link_;
    const uint64_t handle_;
    const size_t net_;
    std::unique_ptr<fabric::Connection> connection_;
    List<Operation> waiting_;
    uint32_t outstanding_ = 0;
    bool over_ = false;
};

class Engine::SeLink final : public RecordLinkOwner {
  public:
    SeLink(Engine& engine, size_t net, fabric::Address address);
    ~SeLink();

    Status start(std::span<std::byte> part);
    void request_leave() noexcept;
    void join_again() noexcept;
    void stop() noexcept;
    size_t turn() noexcept;
    bool is_over() const noexcept { return link_ == nullptr || link_->is_over(); }
    // True if no command of the SE is in progress, and all connections of its clients and to the engines that
    // it named have ended.
    bool is_quiet() const noexcept;
    // True if the SE no longer needs this engine. An absent SE does not need a storage process, which holds
    // no data for it.
    bool has_left() const noexcept {
        const bool is_away = link_ == nullptr || !link_->is_up();
        return goodbye_received_ || storage_ == 0 || (storage_volumes_ != nullptr && is_away);
    }
    EngineStorageInfo info() const;
    // The dirty lines on record as of the SE's last message. An absent SE may have destaged some since.
    uint64_t dirty_lines() const noexcept;

    // engine_datapath.cc
    void client_counted() noexcept { ++clients_; }
    void client_attached(Client& client) noexcept;
    void client_detached(Client& client) noexcept;
    void moved(Operation& operation, wire::CacheStatus status) noexcept;
    fabric::WorkRequest work_for(Operation& operation, size_t net, fabric::Segment& segment) noexcept;
    // The client of a handle that this SE granted; nullptr if it is not connected.
    Client* client_of(uint64_t handle) noexcept;
    bool post(Operation& operation) noexcept;
    bool is_up() const noexcept { return link_ != nullptr && link_->is_up(); }
    void began() noexcept { ++busy_; }
    void done(uint32_t id, wire::CacheStatus status, bool urgent = true) noexcept;
    void failed(uint32_t id, int error) noexcept;
    void report(const wire::CacheVolumeState& state) noexcept;
    void ended() noexcept { --busy_; }
    void engine_gone(uint64_t handle) noexcept;

  private:
    bool link_up(RecordLink&, std::span<const std::byte> data) noexcept override;
    bool record(RecordLink&, const wire::Record& record) noexcept override;
    void operation_over(RecordLink&, uint64_t cookie, bool good) noexcept override;
    void link_over(RecordLink&, const Status& why) noexcept override;

    wire::CacheJoin join() const;
    void connect() noexcept;
    void retry_later() noexcept;
    bool refuse(std::string why) noexcept;
    bool welcomed(std::span<const std::byte> data) noexcept;
    bool begin_proving(std::span<const std::byte> data) noexcept;
    bool prove(const wire::Record& record) noexcept;
    void look_for_storage() noexcept;
    void cut(const wire::CacheWelcome& welcome);
    void introduce(bool inventory, const wire::CacheWelcome& welcome) noexcept;
    void revoke_all() noexcept;
    bool grant(const wire::Record& record) noexcept;
    bool revoke(const wire::Record& record) noexcept;
    bool move(const wire::Record& record) noexcept;
    bool header(const wire::Record& record) noexcept;
    bool wipe(const wire::Record& record) noexcept;
    void run(Operation& operation) noexcept;
    void serve_stage_waiters() noexcept;
    std::byte* slot_memory(uint32_t slot) const noexcept { return part_.data() + size_t{slot} * line_bytes_; }
    std::byte* stage_memory(uint32_t stage) const noexcept {
        return part_.data() + size_t{slots_ + stage} * line_bytes_;
    }

    Engine& engine_;
    const size_t net_;
    const fabric::Address address_;
    std::unique_ptr<RecordLink> link_;
    reactor::Timer retry_;     // time to connect again, or to stop
    reactor::Timer look_;      // time of the next check; set while the link is up
    uint64_t received_ = 0;    // messages received from the SE at the last check
    uint32_t silent_for_ = 0;  // consecutive checks without a new message
    Nanoseconds pause_{};
    std::string last_error_;
    std::unique_ptr<wire::AuthInitiator> auth_;  // exists during authentication; prove() shows the order
    std::string target_name_;  // name that the SE proved in the first join; later joins require it
    std::string refusal_;      // the last rejection that was logged
    bool refused_ = false;     // this connection was rejected, and the reason was logged

    std::unique_ptr<Storage> storage_volumes_;  // only in a storage process (RS)

    // The contents (CE1).
    std::span<std::byte> part_;
    uint64_t storage_ = 0;
    uint32_t incarnation_ = 0;
    uint32_t line_bytes_ = 0;
    uint32_t slots_ = 0, stages_ = 0;
    std::vector<HeaderBytes> headers_;  // indexed by slot

    std::vector<Operation> operations_;  // indexed by id
    std::vector<uint32_t> free_stages_;
    List<Operation> waiting_;  // operations that wait for a stage
    uint32_t busy_ = 0;        // operations that are not free
    uint32_t pings_ = 0;  // pings received; operations that began before the last one are reported at once
    uint32_t clients_ = 0;
    bool leaving_ = false, goodbye_received_ = false, stopping_ = false;
};

}  // namespace wss::cache
