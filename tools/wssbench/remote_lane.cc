// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/remote_lane.h"

#include <cstdlib>
#include <cstring>

namespace wss::wssbench {

namespace {

using Memory = RemoteOptions::Memory;
constexpr size_t kPage = 4096;
// Long enough for a thousand simultaneous connections, which are answered one after the other.
constexpr Nanoseconds kConnectTimeout = from_s(30);

size_t room_of(uint32_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

}  // namespace

// One session.
class RemoteLane::Link final : public initiator::SessionHandler {
  public:
    Link(RemoteLane& lane, std::unique_ptr<Accesses> accesses)
        : lane_(lane), accesses_(std::move(accesses)), slots_(lane.options_.depth) {}

    Status prepare(const fabric::Address& address);
    void start() { session_->start(); }
    void close() noexcept;

    void on_ready(initiator::Session&) noexcept override;
    void on_lost(initiator::Session&, const Status& why) noexcept override {
        if (!closing_) lane_.failed(why);
    }
    void on_failed(initiator::Session&, const Status& why) noexcept override { over(why); }
    void on_closed(initiator::Session&) noexcept override { over(Status::ok()); }

  private:
    struct Slot : initiator::Request {
        Link* link = nullptr;
        iovec piece{};
        Nanoseconds begun{};
    };

    Status place_buffers();
    void over(const Status& why);
    void go(Slot& slot) noexcept;
    void ended(Slot& slot) noexcept;

    RemoteLane& lane_;
    const std::unique_ptr<Accesses> accesses_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<Slot> slots_;
    std::unique_ptr<initiator::Session> session_;
    initiator::Volume* volume_ = nullptr;
    size_t in_flight_ = 0;
    bool closing_ = false;
};

Status RemoteLane::Link::prepare(const fabric::Address& address) {
    initiator::Options wish{.address = address, .queue_depth = lane_.options_.depth + 1};
    wish.bounce_bytes = std::max(initiator::kBounceMin, room_of(lane_.options_.bytes) * lane_.options_.depth);
    wish.connect_timeout = kConnectTimeout;
    if (lane_.options_.memory == Memory::kPinned) wish.pin_at_least = 1;
    auto session = initiator::Session::create(lane_.reactor_, *lane_.fabric_, *lane_.poller_, lane_.random_,
                                              std::move(wish), *this);
    if (!session) return session.status();
    session_ = std::move(*session);
    return place_buffers();
}

Status RemoteLane::Link::place_buffers() {
    size_t room = room_of(lane_.options_.bytes), all = room * slots_.size();
    std::byte* memory = nullptr;
    if (lane_.options_.memory == Memory::kRegistered) {
        auto region = lane_.fabric_->allocate(all, fabric::Access::kRemoteReadWrite);
        if (!region) return region.status();
        memory = (*region)->bytes().data();
        WSS_TRY(session_->memory().regions().add(std::move(*region)));
    } else {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, all)));
        if (!memory_) return Status(Code::kExhausted, "out of memory for the buffers of a load");
        memory = memory_.get();
    }
    std::memset(memory, 0x5a, all);
    for (size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].link = this;
        slots_[i].piece.iov_base = memory + i * room;
        slots_[i].done = [](initiator::Request& request, void*) noexcept {
            Slot& slot = static_cast<Slot&>(request);
            slot.link->ended(slot);
        };
    }
    return Status::ok();
}

void RemoteLane::Link::close() noexcept {
    if (closing_) return;
    closing_ = true;
    if (!session_ || session_->state() == initiator::Session::State::kClosed ||
        session_->state() == initiator::Session::State::kIdle)
        return lane_.link_over();
    // Requests in flight end as closed; the measurement is over.
    session_->close();
}

void RemoteLane::Link::over(const Status& why) {
    closing_ = true;  // before failed(), which closes all links
    lane_.link_over();
    if (!why) lane_.failed(why);
}

void RemoteLane::Link::on_ready(initiator::Session&) noexcept {
    if (volume_ != nullptr || closing_) return;
    session_->open_volume(lane_.options_.volume, [this](Result<initiator::Volume*> opened) {
        if (closing_) return;
        if (!opened) return lane_.failed(opened.status());
        volume_ = *opened;
        lane_.begun_.fetch_add(1, std::memory_order_relaxed);
        lane_.operations_begin();
        for (Slot& slot : slots_) go(slot);
        if (in_flight_ == 0) close();
    });
}

void RemoteLane::Link::go(Slot& slot) noexcept {
    Access access;
    if (closing_ || lane_.ending() || !accesses_->next(access)) return;
    slot.operation = access.write ? initiator::Operation::kWrite : initiator::Operation::kRead;
    slot.volume = volume_;
    slot.offset = access.offset;
    slot.length = access.length;
    slot.piece.iov_len = access.length;
    slot.buffers = {&slot.piece, 1};
    slot.begun = lane_.stamp();
    ++in_flight_;
    if (!session_->submit(slot)) ended(slot);
}

void RemoteLane::Link::ended(Slot& slot) noexcept {
    --in_flight_;
    if (slot.outcome == initiator::Outcome::kOk) {
        lane_.count_one(slot.begun);
        go(slot);
    } else if (!closing_) {
        lane_.failed(Status(Code::kIo, describe(slot)));
    }
    if (in_flight_ == 0 && !closing_) close();
}

RemoteLane::RemoteLane(const RemoteOptions& options) : options_(options), random_(Random::entropy()) {}

Result<std::unique_ptr<Lane>> RemoteLane::create(const std::string& uri, const RemoteOptions& options,
                                                 std::vector<std::unique_ptr<Accesses>> accesses) {
    auto address = fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT);
    if (!address) return address.status();
    std::unique_ptr<RemoteLane> lane(new RemoteLane(options));
    auto opened = fabric::open(*address);
    if (!opened) return opened.status();
    lane->fabric_ = std::move(*opened);
    auto poller = lane->fabric_->create_poller();
    if (!poller) return poller.status();
    lane->poller_ = std::move(*poller);
    lane->reactor_.add(*lane->poller_);
    for (uint32_t i = 0; i < options.connections; ++i) {
        lane->links_.push_back(std::make_unique<Link>(*lane, std::move(accesses[i])));
        WSS_TRY(lane->links_.back()->prepare(*address));
    }
    return std::unique_ptr<Lane>(std::move(lane));
}

RemoteLane::~RemoteLane() {
    links_.clear();
    if (poller_) reactor_.remove(*poller_);
}

void RemoteLane::begin() {
    for (const auto& link : links_) link->start();
}

void RemoteLane::wind_down() {
    for (const auto& link : links_) link->close();
}

void RemoteLane::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
