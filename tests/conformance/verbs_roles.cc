// SPDX-License-Identifier: Apache-2.0
// One end of a connection in a process of its own, for tests that kill it, cut its link or remove its device
// (tests/system/test_fabric_verbs.py and verbs_close_test.cc). The environment selects it instead of the
// tests:
//   WSS_TEST_RDMA_ROLE=serve WSS_TEST_RDMA=rdma://HOST:PORT    accepts one connection, receives its messages
//   WSS_TEST_RDMA_ROLE=send  …     connects and sends messages, one at a time
//   WSS_TEST_RDMA_ROLE=idle  …     connects, sends one message and no more
// Prints "ready" when data flows, and how the connection ended. Exits after a minute at the latest.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/conformance/verbs_process.h"

namespace wss::fabric {
namespace {

constexpr size_t kReceives = 32;
constexpr uint32_t kMessage = 64;

class Role final : public ConnectionHandler, public ListenHandler {
  public:
    Role(std::string_view name, Address where) : name_(name), where_(std::move(where)) {}

    // Returns the exit status: 0 closed, 1 not connected, 2 timed out.
    int run() {
        if (Status started = start(); !started) {
            std::printf("failed: %s\n", started.to_string().c_str());
            return 1;
        }
        Nanoseconds bound = SystemClock().now() + from_s(60);
        while (!over_ && SystemClock().now() < bound) own_.poller->poll();
        connection_.reset();
        return over_ ? status_ : 2;
    }

    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        auto made = request->create(*own_.poller, {}, *this);
        if (!made) return;
        connection_ = std::move(*made);
        for (uint64_t i = 0; i < kReceives; ++i) receive(i);
        if (Status accepted = connection_->accept({}); !accepted)
            std::printf("failed: %s\n", accepted.to_string().c_str());
    }
    void on_established(Connection&, std::span<const std::byte>) noexcept override {
        if (name_ != "serve") send();
    }
    void on_refused(Connection&, const Status& why, std::span<const std::byte>) noexcept override {
        std::printf("refused: %s\n", why.to_string().c_str());
        over_ = true;
        status_ = 1;
    }
    void on_completions(Connection&, std::span<const Completion> done) noexcept override {
        for (const Completion& one : done) {
            if (one.status != CompletionStatus::kOk) continue;
            if (!std::exchange(ready_, true)) std::printf("ready\n");
            if (name_ == "serve") receive(one.cookie);
            if (name_ == "send") send();
        }
    }
    void on_closed(Connection&, const Status& why) noexcept override {
        std::printf("closed: %s\n", why.to_string().c_str());
        over_ = true;
    }

  private:
    Status start() {
        WSS_TRY(own_.start(where_, kMessage * kReceives));
        if (name_ == "serve") {
            auto listening = own_.poller->listen(where_, *this);
            if (!listening) return listening.status();
            listener_ = std::move(*listening);
            std::printf("listening\n");
            return Status::ok();
        }
        auto made = own_.poller->connect(where_, {}, {}, *this);
        if (!made) return made.status();
        connection_ = std::move(*made);
        return Status::ok();
    }
    Segment segment(uint64_t i) const {
        return {own_.memory->bytes().data() + i * kMessage, kMessage, own_.memory->lkey()};
    }
    void receive(uint64_t i) {
        Segment one = segment(i);
        Receive receive{.cookie = i, .segments = {&one, 1}};
        // This fails only while the connection is closing.
        [[maybe_unused]] Code code = connection_->post_receives({&receive, 1});
    }
    void send() {
        Segment one = segment(0);
        WorkRequest request{.op = Op::kSend, .segments = {&one, 1}};
        [[maybe_unused]] Code code = connection_->post({&request, 1});
    }

    const std::string_view name_;
    const Address where_;
    VerbsProcess own_;
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<Connection> connection_;
    bool ready_ = false;
    bool over_ = false;
    int status_ = 0;
};

[[maybe_unused]] const bool played = [] {
    const char* name = std::getenv("WSS_TEST_RDMA_ROLE");
    const char* where = std::getenv("WSS_TEST_RDMA");
    if (name == nullptr || where == nullptr) return false;
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    int status = 1;
    if (auto address = Address::parse(where, 0)) status = Role(name, *address).run();
    std::fflush(stdout);
    _exit(status);
}();

}  // namespace
}  // namespace wss::fabric
