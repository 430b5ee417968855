// SPDX-License-Identifier: Apache-2.0
// A relay to which an initiator connects. It opens a connection of its own to the target, and forwards the
// login and all messages in both directions. It cannot forward one-sided operations.
#pragma once

#include <memory>
#include <vector>

#include "lib/fabric/fabric.h"

namespace wss::fabric {

class Relay final : public ListenHandler {
  public:
    Relay(Fabric& fabric, Poller& poller, const Address& here, Address target)
        : fabric_(fabric), poller_(poller), target_(std::move(target)) {
        auto listener = poller_.listen(here, *this);
        status_ = listener.status();
        if (listener) listener_ = std::move(*listener);
    }
    const Status& status() const { return status_; }
    uint32_t forwarded() const { return forwarded_; }  // number of messages
    void close() {
        for (const auto& pair : pairs_) pair->close();
    }
    bool is_over() const {
        for (const auto& pair : pairs_)
            if (!pair->is_over()) return false;
        return true;
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        pairs_.push_back(std::make_unique<Pair>(*this));
        if (!pairs_.back()->begin(std::move(request))) pairs_.pop_back();
    }

  private:
    static constexpr uint32_t kMessageBytes = 20480;
    static constexpr uint64_t kReceives = 16;  // receives of one direction; more than the number of messages
                                               // in a login

    struct Pair;
    struct Side final : ConnectionHandler {
        Side(Pair& owner, size_t first) : pair(owner), first_receive(first) {}
        void on_established(Connection&, std::span<const std::byte> data) noexcept override {
            if (this == &pair.to_target) pair.accept(data);
        }
        void on_refused(Connection&, const Status&, std::span<const std::byte>) noexcept override {
            over = true;
            pair.close();
        }
        void on_closed(Connection&, const Status&) noexcept override {
            over = true;
            pair.close();
        }
        void on_completions(Connection&, std::span<const Completion> all) noexcept override {
            for (const Completion& one : all)
                if (one.status == CompletionStatus::kOk && one.kind == CompletionKind::kReceive)
                    pair.forward(*this, one);
        }
        Pair& pair;
        const size_t first_receive;
        std::unique_ptr<Connection> connection;
        bool over = false;
    };

    struct Pair {
        explicit Pair(Relay& owner) : relay(owner) {}
        bool begin(std::unique_ptr<ConnectRequest> asked) {
            request = std::move(asked);
            auto allocated = relay.fabric_.allocate(2 * kReceives * kMessageBytes, Access::kLocal);
            if (!allocated) return false;
            memory = std::move(*allocated);
            auto made = relay.poller_.connect(relay.target_, request->data(), {}, to_target);
            if (made) to_target.connection = std::move(*made);
            return made.is_ok();
        }
        void accept(std::span<const std::byte> data) {
            post_receives(to_target);
            auto made = request->create(relay.poller_, {}, to_initiator);
            if (!made) return close();
            to_initiator.connection = std::move(*made);
            post_receives(to_initiator);
            if (!to_initiator.connection->accept(data)) close();
        }
        // The slot is not posted again, because its memory is being sent.
        void forward(Side& from, const Completion& received) {
            Side& to = &from == &to_target ? to_initiator : to_target;
            const Segment segment = slot(received.cookie, received.length);
            const WorkRequest work{.op = Op::kSend, .segments = {&segment, 1}};
            if (to.connection->post({&work, 1}) == Code::kOk) ++relay.forwarded_;
        }
        void close() {
            request.reset();
            for (Side* side : {&to_target, &to_initiator})
                if (side->connection != nullptr) side->connection->close();
        }
        bool is_over() const {
            return (to_target.over || to_target.connection == nullptr) &&
                   (to_initiator.over || to_initiator.connection == nullptr);
        }
        Segment slot(uint64_t index, uint32_t length = kMessageBytes) const {
            return {memory->bytes().data() + index * kMessageBytes, length, memory->lkey()};
        }
        void post_receives(Side& side) {
            for (uint64_t i = side.first_receive; i < side.first_receive + kReceives; ++i) {
                const Segment segment = slot(i);
                const Receive receive{i, {&segment, 1}};
                side.connection->post_receives({&receive, 1});
            }
        }
        Relay& relay;
        std::unique_ptr<Region> memory;
        std::unique_ptr<ConnectRequest> request;
        Side to_target{*this, 0}, to_initiator{*this, kReceives};
    };

    Fabric& fabric_;
    Poller& poller_;
    const Address target_;
    Status status_;
    std::unique_ptr<Listener> listener_;
    std::vector<std::unique_ptr<Pair>> pairs_;  // kept to the end
    uint32_t forwarded_ = 0;
};

}  // namespace wss::fabric
