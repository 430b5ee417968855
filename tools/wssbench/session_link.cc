// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/session_link.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace wss::wssbench {

namespace {

using Memory = LinkOptions::Memory;
constexpr size_t kPage = 4096;
// Long enough for a thousand simultaneous connections, which are answered one after another.
constexpr Nanoseconds kConnectTimeout = from_s(30);

size_t room_of(uint32_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

Network::~Network() {
    if (poller_) reactor_->remove(*poller_);
}

Status Network::open(reactor::Reactor& reactor, const fabric::Address& address) {
    if (poller_) return Status::ok();
    auto opened = fabric::open(address);
    if (!opened) return opened.status();
    auto poller = (*opened)->create_poller();
    if (!poller) return poller.status();
    fabric_ = std::move(*opened);
    poller_ = std::move(*poller);
    reactor_ = &reactor;
    reactor.add(*poller_);
    return Status::ok();
}

Status SessionLink::prepare(const fabric::Address& address, Network& network, Random& random) {
    initiator::Options wish{.address = address, .queue_depth = options_.slots + 1};
    wish.bounce_bytes = std::max(initiator::kBounceMin, room_of(options_.bytes) * options_.slots);
    wish.connect_timeout = kConnectTimeout;
    if (options_.memory == Memory::kPinned) wish.pin_at_least = 1;
    auto session = initiator::Session::create(network.reactor(), network.fabric(), network.poller(), random,
                                              std::move(wish), *this);
    if (!session) return session.status();
    session_ = std::move(*session);
    return place_buffers(network.fabric());
}

Status SessionLink::place_buffers(fabric::Fabric& fabric) {
    size_t room = room_of(options_.bytes), all = room * slots_.size();
    std::byte* memory = nullptr;
    if (options_.memory == Memory::kRegistered) {
        auto region = fabric.allocate(all, fabric::Access::kRemoteReadWrite);
        if (!region) return region.status();
        memory = (*region)->bytes().data();
        WSS_TRY(session_->memory().regions().add(std::move(*region)));
    } else {
        memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, all)));
        if (!memory_) return Status(Code::kExhausted, "out of memory for the buffers of a load");
        memory = memory_.get();
    }
    std::memset(memory, 0x5a, all);
    for (uint32_t i = 0; i < slots_.size(); ++i) {
        slots_[i].link = this;
        slots_[i].index = i;
        slots_[i].segment.iov_base = memory + i * room;
        slots_[i].done = [](initiator::Request& request, void*) noexcept {
            Slot& slot = static_cast<Slot&>(request);
            slot.link->ended(slot);
        };
    }
    return Status::ok();
}

void SessionLink::on_ready(initiator::Session&) noexcept {
    if (volume_ != nullptr || closing_) return;
    session_->open_volume(options_.volume, [this](Result<initiator::Volume*> volume) {
        if (closing_) return;
        if (!volume) return failed(volume.status());
        volume_ = *volume;
        opened();
    });
}

void SessionLink::submit(Slot& slot, const Access& access) noexcept {
    slot.operation = access.write ? initiator::Operation::kWrite : initiator::Operation::kRead;
    slot.volume = volume_;
    slot.offset = access.offset;
    slot.length = access.length;
    slot.segment.iov_len = access.length;
    slot.buffers = {&slot.segment, 1};
    if (!session_->submit(slot)) ended(slot);
}

void SessionLink::ended(Slot& slot) noexcept {
    if (slot.outcome == initiator::Outcome::kOk)
        completed(slot);
    else if (!closing_)
        failed(Status(Code::kIo, describe(slot)));
}

void SessionLink::close() noexcept {
    using State = initiator::Session::State;
    if (std::exchange(closing_, true)) return;
    if (!session_ || session_->state() == State::kClosed || session_->state() == State::kIdle) return over();
    session_->close();
}

void SessionLink::ended(const Status& why) {
    closing_ = true;  // must precede failed(), which closes all links
    over();
    if (!why) failed(why);
}

}  // namespace wss::wssbench
