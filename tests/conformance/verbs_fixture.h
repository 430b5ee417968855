// SPDX-License-Identifier: Apache-2.0
// Fixture for tests of verbs alone: both ends in one thread, each with a poller of its own. The rules for all
// fabrics are in the conformance suite. The tests are registered only if WSS_TEST_RDMA names the address of
// an RDMA device of this machine, for example rdma://10.87.0.1 (see tests/lab/README.md).
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "lib/fabric/open.h"

namespace wss::fabric {

// One end, which records its notifications.
struct End final : ConnectionHandler {
    std::unique_ptr<Connection> connection;
    bool established = false, refused = false, closed = false;
    Status why;
    std::string data;
    std::vector<Completion> completions;

    static std::string text(std::span<const std::byte> bytes) {
        std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return all.substr(0, all.find('\0'));
    }
    void on_established(Connection&, std::span<const std::byte> bytes) noexcept override {
        established = true;
        data = text(bytes);
    }
    void on_refused(Connection&, const Status& status, std::span<const std::byte> bytes) noexcept override {
        refused = true;
        why = status;
        data = text(bytes);
    }
    void on_completions(Connection&, std::span<const Completion> done) noexcept override {
        EXPECT_FALSE(closed || refused) << "completions are reported before the last call";
        completions.insert(completions.end(), done.begin(), done.end());
    }
    void on_closed(Connection&, const Status& status) noexcept override {
        EXPECT_FALSE(closed) << "on_closed is called once";
        closed = true;
        why = status;
    }
};

inline std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}

class Verbs : public testing::Test, public ListenHandler {
  public:
    void SetUp() override {
        auto address = Address::parse(std::getenv("WSS_TEST_RDMA"), 0);
        ASSERT_TRUE(address) << address.status().to_string();
        where = *address;
        auto opened = open(where);
        ASSERT_TRUE(opened) << opened.status().to_string();
        fabric = std::move(*opened);
        server_poller = make_poller();
        client_poller = make_poller();
        auto listening = server_poller->listen(where, *this);
        ASSERT_TRUE(listening) << listening.status().to_string();
        listener = std::move(*listening);
        where = listener->address();
    }
    void TearDown() override {
        close(client);
        close(server);
    }
    std::unique_ptr<Poller> make_poller() {
        auto made = fabric->create_poller();
        EXPECT_TRUE(made) << made.status().to_string();
        return std::move(*made);
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        requested = End::text(request->data());
        if (hold) {
            held = std::move(request);
            return;
        }
        auto made = request->create(*server_poller, options, server);
        ASSERT_TRUE(made) << made.status().to_string();
        server.connection = std::move(*made);
        if (receives > 0) post_receives(server, receives);
        Status accepted = server.connection->accept(bytes_of("welcome"));
        EXPECT_TRUE(accepted) << accepted.to_string();
    }
    void start_connecting() {
        auto made = client_poller->connect(where, bytes_of("hello"), options, client);
        ASSERT_TRUE(made) << made.status().to_string();
        client.connection = std::move(*made);
    }
    void connect() {
        memory = std::move(*fabric->allocate(kMemory, Access::kRemoteReadWrite));
        start_connecting();
        ASSERT_TRUE(until([&] { return client.established && server.established; }));
    }
    void close(End& end) {
        if (end.connection == nullptr) return;
        end.connection->close();
        EXPECT_TRUE(until([&] { return end.closed || end.refused; }));
        end.connection.reset();
    }
    // Polls both ends until `done`, for a bounded time.
    bool until(const std::function<bool()>& done, Nanoseconds bound = from_s(30)) {
        SystemClock clock;
        Nanoseconds end = clock.now() + bound;
        while (!done()) {
            client_poller->poll();
            server_poller->poll();
            if (clock.now() > end) return false;
        }
        return true;
    }
    std::byte* at(size_t offset) { return memory->bytes().data() + offset; }
    Segment segment(size_t offset, uint32_t length) { return {at(offset), length, memory->lkey()}; }
    RemoteAddress remote(size_t offset) { return {memory->remote_address() + offset, memory->rkey(0)}; }
    // Receive i lands at kReceives + i * kReceiveSize.
    void post_receives(End& end, size_t count) {
        for (size_t i = 0; i < count; ++i) {
            Segment one = segment(kReceives + i * kReceiveSize, kReceiveSize);
            Receive receive{.cookie = 100 + i, .segments = {&one, 1}};
            ASSERT_EQ(end.connection->post_receives({&receive, 1}), Code::kOk);
        }
    }
    Code post(End& end, WorkRequest request, Segment one) {
        request.segments = {&one, 1};
        return end.connection->post({&request, 1});
    }

    static constexpr size_t kMemory = 1 << 20, kReceives = 512 << 10;
    static constexpr uint32_t kReceiveSize = 512;
    Address where;
    ConnectionOptions options;
    std::unique_ptr<Fabric> fabric;
    std::unique_ptr<Region> memory;
    std::unique_ptr<Poller> server_poller, client_poller;
    std::unique_ptr<Listener> listener;
    End server, client;
    std::string requested;
    bool hold = false;
    std::unique_ptr<ConnectRequest> held;
    size_t receives = 0;
};

using VerbsBody = void (*)(Verbs&);

class VerbsTest final : public Verbs {
  public:
    explicit VerbsTest(VerbsBody body) : body_(body) {}
    void TestBody() override { body_(*this); }

  private:
    VerbsBody body_;
};

#define VERBS_TEST(behaviour) \
    { #behaviour, behaviour }

// Registers at run time, so that a machine without RDMA does not list these tests.
inline bool register_verbs_tests(const char* suite, const char* file,
                                 std::span<const std::pair<const char*, VerbsBody>> tests) {
    if (std::getenv("WSS_TEST_RDMA") == nullptr) return false;
    for (const auto& [name, body] : tests)
        testing::RegisterTest(suite, name, nullptr, nullptr, file, 1,
                              [body = body]() -> Verbs* { return new VerbsTest(body); });
    return true;
}

}  // namespace wss::fabric
