// SPDX-License-Identifier: Apache-2.0
// A real target and an initiator session in one process and one thread, over loopback TCP. A test can cut
// connections.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/initiator/session.h"
#include "tests/unit/target/world.h"

namespace wss::initiator::testing {

using std::byte;

// A poller that records its connections, so that a test can cut them.
class CuttablePoller final : public fabric::Poller {
  public:
    explicit CuttablePoller(std::unique_ptr<fabric::Poller> inner) : inner_(std::move(inner)) {}
    void cut() {
        for (fabric::Connection* connection : std::exchange(open_, {})) connection->close();
    }
    // New connects fail while this is set; existing connections continue.
    bool unreachable = false;
    uint32_t connects = 0;

    Result<std::unique_ptr<fabric::Listener>> listen(const fabric::Address& address,
                                                     fabric::ListenHandler& handler) override {
        return inner_->listen(address, handler);
    }
    Result<std::unique_ptr<fabric::Connection>> connect(const fabric::Address& address,
                                                        std::span<const byte> data,
                                                        const fabric::ConnectionOptions& options,
                                                        fabric::ConnectionHandler& handler) override {
        ++connects;
        if (unreachable) return Status(Code::kUnavailable, "the test cut the network");
        handlers_.emplace_back(open_, handler);
        auto made = inner_->connect(address, data, options, handlers_.back());
        if (made) open_.push_back(made->get());
        return made;
    }
    size_t poll() noexcept override { return inner_->poll(); }
    bool arm() noexcept override { return inner_->arm(); }
    int fd() const noexcept override { return inner_->fd(); }

  private:
    using Open = std::vector<fabric::Connection*>;
    // Removes a connection from the open ones at the last call, after which its owner may destroy it.
    class Handler final : public fabric::ConnectionHandler {
      public:
        Handler(Open& open, fabric::ConnectionHandler& inner) : open_(open), inner_(inner) {}
        void on_established(fabric::Connection& connection, std::span<const byte> data) noexcept override {
            inner_.on_established(connection, data);
        }
        void on_refused(fabric::Connection& connection, const Status& why,
                        std::span<const byte> data) noexcept override {
            std::erase(open_, &connection);
            inner_.on_refused(connection, why, data);
        }
        void on_completions(fabric::Connection& connection,
                            std::span<const fabric::Completion> completions) noexcept override {
            inner_.on_completions(connection, completions);
        }
        void on_closed(fabric::Connection& connection, const Status& why) noexcept override {
            std::erase(open_, &connection);
            inner_.on_closed(connection, why);
        }

      private:
        Open& open_;
        fabric::ConnectionHandler& inner_;
    };

    std::unique_ptr<fabric::Poller> inner_;
    Open open_;
    std::deque<Handler> handlers_;  // of all connections ever made
};

// The system's time plus the time that a test has skipped.
class SkippingClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return stopped_.value_or(clock_.now()) + skipped_; }
    void skip(Nanoseconds time) { skipped_ = skipped_ + time; }
    // Later only skip() moves it.
    void stop() { stopped_ = clock_.now(); }

  private:
    SystemClock clock_;
    std::optional<Nanoseconds> stopped_;
    Nanoseconds skipped_;
};

// One request of a test.
struct Io : Request {
    bool over = false;
    std::vector<byte> data;
    std::vector<iovec> vector;
    Io() {
        done = [](Request& request, void*) noexcept { static_cast<Io&>(request).over = true; };
    }
};

// The environment of a session. turn() steps everything.
class Bench : public SessionHandler {
  public:
    explicit Bench(const fabric::Address& target, Options options = {});
    ~Bench() override;

    // Steps until `done`, for at most ten seconds.
    [[nodiscard]] bool until(const std::function<bool()>& done);
    // Returns true if the session is live, false if it has failed.
    [[nodiscard]] bool start();
    Volume* open(const std::string& name);
    // Submits the request and steps until it has ended.
    Outcome run(Io& io);
    Outcome write(Volume& volume, uint64_t offset, std::span<const byte> data, bool fua = false);
    std::vector<byte> read(Volume& volume, uint64_t offset, size_t length);
    Outcome simple(Volume& volume, Operation operation, uint64_t offset = 0, uint64_t length = 0);

    Session& session() { return *session_; }
    fabric::Fabric& fabric() { return *fabric_; }
    CuttablePoller& network() { return *poller_; }
    reactor::Reactor& reactor() { return reactor_; }
    SkippingClock& clock() { return clock_; }
    std::function<void()> others = [] {};  // steps the target
    uint32_t ready = 0, lost = 0, changed = 0;
    bool failed = false, closed = false;
    Status why, retry_why;

    void on_ready(Session&) noexcept override { ++ready; }
    void on_lost(Session&, const Status& status) noexcept override {
        ++lost;
        why = status;
    }
    void on_reconnect_failed(Session&, const Status& status) noexcept override { retry_why = status; }
    void on_failed(Session&, const Status& status) noexcept override {
        failed = true;
        why = status;
    }
    void on_closed(Session&) noexcept override { closed = true; }
    void on_volume_changed(Session&, Volume&) noexcept override { ++changed; }

  private:
    SkippingClock clock_;
    Random random_{42};
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<CuttablePoller> poller_;
    std::unique_ptr<Session> session_;
};

// A Bench with a target.
struct TargetAndBench {
    explicit TargetAndBench(Options options = {}, size_t reactors = 1)
        : world({.reactors = reactors}), bench(world.address(), options) {
        bench.others = [this] { world.step(); };
    }
    block::testing::World world;
    Bench bench;
};

std::vector<byte> pattern(size_t bytes, uint64_t seed);

}  // namespace wss::initiator::testing
