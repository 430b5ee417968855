// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/remote_load.h"

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
class RemoteLoad::Link final : public initiator::SessionHandler {
  public:
    Link(RemoteLoad& thread, std::unique_ptr<Accesses> accesses)
        : thread_(thread), accesses_(std::move(accesses)), slots_(thread.options_.depth) {}

    Status prepare(const fabric::Address& address);
    void start() { session_->start(); }
    void close() noexcept;

    void on_ready(initiator::Session&) noexcept override;
    void on_lost(initiator::Session&, const Status& why) noexcept override {
        if (!closing_) thread_.failed(why);
    }
    void on_failed(initiator::Session&, const Status& why) noexcept override { over(why); }
    void on_closed(initiator::Session&) noexcept override { over(Status::ok()); }

  private:
    struct Slot : initiator::Request {
        Link* link = nullptr;
        iovec segment{};
        Nanoseconds begun{};
    };

    Status place_buffers();
    void over(const Status& why);
    void go(Slot& slot) noexcept;
    void ended(Slot& slot) noexcept;

    RemoteLoad& thread_;
    const std::unique_ptr<Accesses> accesses_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<Slot> slots_;
    std::unique_ptr<initiator::Session> session_;
    initiator::Volume* volume_ = nullptr;
    size_t in_flight_ = 0;
    bool closing_ = false;
};

Status RemoteLoad::Link::prepare(const fabric::Address& address) {
    initiator::Options wish{.address = address, .queue_depth = thread_.options_.depth + 1};
    wish.bounce_bytes =
        std::max(initiator::kBounceMin, room_of(thread_.options_.bytes) * thread_.options_.depth);
    wish.connect_timeout = kConnectTimeout;
    if (thread_.options_.memory == Memory::kPinned) wish.pin_at_least = 1;
    auto session = initiator::Session::create(thread_.reactor_, *thread_.fabric_, *thread_.poller_,
                                              thread_.random_, std::move(wish), *this);
    if (!session) return session.status();
    session_ = std::move(*session);
    return place_buffers();
}

Status RemoteLoad::Link::place_buffers() {
    size_t room = room_of(thread_.options_.bytes), all = room * slots_.size();
    std::byte* memory = nullptr;
    if (thread_.options_.memory == Memory::kRegistered) {
        auto region = thread_.fabric_->allocate(all, fabric::Access::kRemoteReadWrite);
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
        slots_[i].segment.iov_base = memory + i * room;
        slots_[i].done = [](initiator::Request& request, void*) noexcept {
            Slot& slot = static_cast<Slot&>(request);
            slot.link->ended(slot);
        };
    }
    return Status::ok();
}

void RemoteLoad::Link::close() noexcept {
    if (closing_) return;
    closing_ = true;
    if (!session_ || session_->state() == initiator::Session::State::kClosed ||
        session_->state() == initiator::Session::State::kIdle)
        return thread_.link_over();
    // Requests in flight end as closed; the measurement has ended.
    session_->close();
}

void RemoteLoad::Link::over(const Status& why) {
    closing_ = true;  // before failed(), which closes all links
    thread_.link_over();
    if (!why) thread_.failed(why);
}

void RemoteLoad::Link::on_ready(initiator::Session&) noexcept {
    if (volume_ != nullptr || closing_) return;
    session_->open_volume(thread_.options_.volume, [this](Result<initiator::Volume*> opened) {
        if (closing_) return;
        if (!opened) return thread_.failed(opened.status());
        volume_ = *opened;
        thread_.begun_.fetch_add(1, std::memory_order_relaxed);
        thread_.operations_begin();
        for (Slot& slot : slots_) go(slot);
        if (in_flight_ == 0) close();
    });
}

void RemoteLoad::Link::go(Slot& slot) noexcept {
    Access access;
    if (closing_ || thread_.ending() || !accesses_->next(access)) return;
    slot.operation = access.write ? initiator::Operation::kWrite : initiator::Operation::kRead;
    slot.volume = volume_;
    slot.offset = access.offset;
    slot.length = access.length;
    slot.segment.iov_len = access.length;
    slot.buffers = {&slot.segment, 1};
    slot.begun = thread_.stamp();
    ++in_flight_;
    if (!session_->submit(slot)) ended(slot);
}

void RemoteLoad::Link::ended(Slot& slot) noexcept {
    --in_flight_;
    if (slot.outcome == initiator::Outcome::kOk) {
        thread_.count_one(slot.begun);
        go(slot);
    } else if (!closing_) {
        thread_.failed(Status(Code::kIo, describe(slot)));
    }
    if (in_flight_ == 0 && !closing_) close();
}

RemoteLoad::RemoteLoad(const RemoteOptions& options) : options_(options), random_(Random::entropy()) {}

Result<std::unique_ptr<LoadThread>> RemoteLoad::create(const std::string& uri, const RemoteOptions& options,
                                                       std::vector<std::unique_ptr<Accesses>> accesses) {
    auto address = fabric::Address::parse(uri, WSS_SRP_DEFAULT_PORT);
    if (!address) return address.status();
    std::unique_ptr<RemoteLoad> thread(new RemoteLoad(options));
    auto opened = fabric::open(*address);
    if (!opened) return opened.status();
    thread->fabric_ = std::move(*opened);
    auto poller = thread->fabric_->create_poller();
    if (!poller) return poller.status();
    thread->poller_ = std::move(*poller);
    thread->reactor_.add(*thread->poller_);
    for (uint32_t i = 0; i < options.connections; ++i) {
        thread->links_.push_back(std::make_unique<Link>(*thread, std::move(accesses[i])));
        WSS_TRY(thread->links_.back()->prepare(*address));
    }
    return std::unique_ptr<LoadThread>(std::move(thread));
}

RemoteLoad::~RemoteLoad() {
    links_.clear();
    if (poller_) reactor_.remove(*poller_);
}

void RemoteLoad::begin() {
    for (const auto& link : links_) link->start();
}

void RemoteLoad::wind_down() {
    for (const auto& link : links_) link->close();
}

void RemoteLoad::link_over() {
    if (++links_over_ == links_.size()) finished();
}

}  // namespace wss::wssbench
