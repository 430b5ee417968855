// SPDX-License-Identifier: Apache-2.0
// Fixture of the suite's tests: a world, two ends with an arena of registered memory each, and handlers that
// record their notifications.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "tests/conformance/fabric_under_test.h"

namespace wss::fabric {
// GoogleTest finds this function by its name when a comparison fails.
inline void PrintTo(CompletionStatus status, std::ostream* out) {
    *out << to_string(status);
}
}  // namespace wss::fabric

namespace wss::fabric::conformance {

constexpr size_t kArenaBytes = 1u << 20;
constexpr Nanoseconds kPatience = from_s(20);  // far longer than any operation takes; bounds a hang

inline std::vector<std::byte> bytes_of(std::string_view text) {
    auto* data = reinterpret_cast<const std::byte*>(text.data());
    return {data, data + text.size()};
}
inline std::string text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
// Private data may be padded with zeros (RDMA/CM has no length for it).
inline std::string private_text(std::span<const std::byte> bytes) {
    std::string text = text_of(bytes);
    return text.substr(0, text.find_last_not_of('\0') + 1);
}

// Records the events of one connection, and checks rules that must always hold (F5).
class Recorder : public ConnectionHandler {
  public:
    void on_established(Connection&, std::span<const std::byte> data) noexcept override {
        EXPECT_FALSE(established || over()) << "on_established is called first and only once";
        established = true;
        established_data = private_text(data);
    }
    void on_refused(Connection&, const Status& status, std::span<const std::byte> data) noexcept override {
        EXPECT_FALSE(established || over()) << "on_refused is called only once, and not with on_established";
        refused = true;
        why = status;
        refused_data = private_text(data);
    }
    void on_completions(Connection& connection, std::span<const Completion> batch) noexcept override {
        EXPECT_FALSE(over()) << "no handler is called after on_closed";
        EXPECT_FALSE(batch.empty());
        for (const Completion& completion : batch) {
            completions.push_back(completion);
            if (react) react(connection, completion);
        }
    }
    void on_closed(Connection&, const Status& status) noexcept override {
        EXPECT_FALSE(over()) << "on_closed is called only once";
        closed = true;
        why = status;
    }

    bool over() const { return closed || refused; }
    const Completion* find(uint64_t cookie) const {
        for (const Completion& completion : completions)
            if (completion.cookie == cookie) return &completion;
        return nullptr;
    }
    size_t count(uint64_t cookie) const {
        size_t n = 0;
        for (const Completion& completion : completions) n += completion.cookie == cookie;
        return n;
    }
    bool done(uint64_t cookie) const { return find(cookie) != nullptr; }
    CompletionStatus status(uint64_t cookie) const {
        const Completion* completion = find(cookie);
        return completion == nullptr ? CompletionStatus::kOther : completion->status;
    }

    bool established = false;
    bool refused = false;
    bool closed = false;
    std::string established_data;
    std::string refused_data;
    Status why;
    std::vector<Completion> completions;
    std::function<void(Connection&, const Completion&)> react;
};

// One end: its poller, its arena (remotely readable and writable), its connection.
struct End {
    Fabric* fabric = nullptr;
    std::unique_ptr<Poller> poller;
    std::unique_ptr<Region> arena;
    Recorder heard;
    std::unique_ptr<Connection> connection;

    std::byte* at(size_t offset) const { return arena->bytes().data() + offset; }
    Segment segment(size_t offset, uint32_t length) const {
        return {.address = at(offset), .length = length, .lkey = arena->lkey()};
    }
    RemoteAddress remote(size_t offset) const {
        return {.address = arena->remote_address() + offset, .rkey = arena->rkey(0)};
    }
    void fill(size_t offset, std::string_view text) const {
        std::memcpy(at(offset), text.data(), text.size());
    }
    std::string text(size_t offset, size_t length) const { return text_of({at(offset), length}); }
    Code post(WorkRequest request, std::span<const Segment> segments) {
        request.segments = segments;
        return connection->post({&request, 1});
    }
    Code receive(uint64_t cookie, size_t offset, uint32_t length) {
        Segment one = segment(offset, length);
        Receive receive{.cookie = cookie, .segments = {&one, 1}};
        return connection->post_receives({&receive, 1});
    }
    Code send(uint64_t cookie, size_t offset, uint32_t length, bool signalled = true) {
        Segment one = segment(offset, length);
        return post({.op = Op::kSend, .signalled = signalled, .cookie = cookie}, {&one, 1});
    }
    Code write(uint64_t cookie, size_t offset, uint32_t length, RemoteAddress remote, bool signalled = true) {
        Segment one = segment(offset, length);
        return post({.op = Op::kWrite, .signalled = signalled, .cookie = cookie, .remote = remote},
                    {&one, 1});
    }
    Code read(uint64_t cookie, size_t offset, uint32_t length, RemoteAddress remote, bool signalled = true) {
        Segment one = segment(offset, length);
        return post({.op = Op::kRead, .signalled = signalled, .cookie = cookie, .remote = remote}, {&one, 1});
    }
};

class OverAFabric : public testing::TestWithParam<FabricUnderTest>, protected ListenHandler {
  protected:
    void SetUp() override;
    void TearDown() override;

    // Polls both ends and advances the world until `done`, within kPatience.
    template <typename Done>
    bool wait(Done&& done) {
        SystemClock clock;
        Nanoseconds deadline = clock.now() + kPatience;
        while (!done()) {
            turn();
            if (clock.now() > deadline) return false;
        }
        return true;
    }
    virtual void turn();

    void listen();
    // Begins the client's connection; the test waits for the response.
    void begin_connect(std::string_view data = {});
    // Establishes the connection with `options_`.
    void connect();
    // Closes open ends, waits for on_closed on both sides and destroys the connections.
    void hang_up();
    bool both_closed() const { return client_.heard.closed && server_.heard.closed; }
    // For tests that skip fabrics without a capability.
    const Caps& caps() const { return world_->client().caps(); }

    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override;

    std::unique_ptr<World> world_;
    End client_;
    End server_;
    ConnectionOptions options_;
    Address address_;
    std::unique_ptr<Listener> listener_;
    enum class Answer { kAccept, kKeep, kReject, kDrop };
    Answer answer_ = Answer::kAccept;
    std::string answer_data_;
    std::string request_data_;
    std::unique_ptr<ConnectRequest> kept_;
};

}  // namespace wss::fabric::conformance
