// SPDX-License-Identifier: Apache-2.0
// F4: a forbidden remote access never touches memory, is reported as such, and ends the connection.
#include <sys/mman.h>

#include <atomic>
#include <thread>

#include "tests/conformance/suite.h"

namespace wss::fabric::conformance {

namespace {

std::unique_ptr<Region> region_of(End& end, std::span<std::byte> memory, Access access) {
    Result<std::unique_ptr<Region>> region = end.fabric->register_memory(memory, access);
    EXPECT_TRUE(region) << region.status().to_string();
    return region ? std::move(*region) : nullptr;
}

RemoteAddress remote_of(const Region& region) {
    return {.address = region.remote_address(), .rkey = region.rkey(0)};
}

// Memory of the server with a pattern that must stay unchanged.
struct Guarded {
    Guarded() { std::memset(memory.data(), 0x77, memory.size()); }
    bool untouched() const {
        return std::all_of(memory.begin(), memory.end(), [](std::byte b) { return b == std::byte{0x77}; });
    }
    std::vector<std::byte> memory = std::vector<std::byte>(64u << 10);
};

}  // namespace

class WithAccessRights : public OverAFabric {
  protected:
    // The client tries `op`. Both ends must close. The request must end with kRemoteAccess, and those after
    // it must be flushed. A READ must not have changed the client's memory at 0.
    void expect_refused(Op op, RemoteAddress where, uint32_t length) {
        ASSERT_NO_FATAL_FAILURE(connect());
        expect_refused_now(op, where, length);
    }
    void expect_refused_now(Op op, RemoteAddress where, uint32_t length) {
        std::memset(client_.at(0), 0x33, length);
        std::string before = client_.text(0, length);
        ASSERT_EQ(server_.receive(50, 0, 64), Code::kOk);
        Segment one = client_.segment(0, length);
        ASSERT_EQ(client_.post({.op = op, .cookie = 1, .remote = where}, {&one, 1}), Code::kOk);
        ASSERT_EQ(client_.send(2, 0, 8), Code::kOk);
        ASSERT_TRUE(wait([&] { return both_closed(); })) << "both sides close";
        EXPECT_EQ(client_.heard.status(1), CompletionStatus::kRemoteAccess);
        EXPECT_EQ(client_.heard.status(2), CompletionStatus::kFlushed);
        EXPECT_EQ(server_.heard.status(50), CompletionStatus::kFlushed) << "later requests are not executed";
        EXPECT_FALSE(server_.heard.why.is_ok());
        EXPECT_EQ(client_.text(0, length), before);
    }
};

INSTANTIATE_TEST_SUITE_P(Fabric, WithAccessRights, testing::ValuesIn(registry()),
                         [](const auto& instance) { return instance.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(WithAccessRights);

TEST_P(WithAccessRights, F4_an_unknown_key_is_refused) {
    RemoteAddress where = server_.remote(0);
    where.rkey ^= 0x5aa55aa5;
    expect_refused(Op::kWrite, where, 100);
}

TEST_P(WithAccessRights, F4_a_read_with_an_unknown_key_is_refused) {
    RemoteAddress where = server_.remote(0);
    where.rkey ^= 0x5aa55aa5;
    expect_refused(Op::kRead, where, 100);
}

TEST_P(WithAccessRights, F4_a_read_of_a_peer_that_may_not_access_memory_is_refused) {
    ASSERT_NO_FATAL_FAILURE(connect());
    if (!server_.connection->let_peer_access_memory(false)) GTEST_SKIP() << "this fabric cannot refuse it";
    expect_refused_now(Op::kRead, server_.remote(0), 100);
}

TEST_P(WithAccessRights, F4_a_write_of_a_peer_that_may_not_access_memory_is_refused_and_changes_nothing) {
    Guarded guarded;
    auto region = region_of(server_, guarded.memory, Access::kRemoteReadWrite);
    ASSERT_NO_FATAL_FAILURE(connect());
    if (!server_.connection->let_peer_access_memory(false)) GTEST_SKIP() << "this fabric cannot refuse it";
    expect_refused_now(Op::kWrite, remote_of(*region), 100);
    EXPECT_TRUE(guarded.untouched());
}

TEST_P(WithAccessRights, F4_a_write_past_the_end_is_refused_and_changes_nothing) {
    Guarded guarded;
    auto region = region_of(server_, std::span(guarded.memory).first(1000), Access::kRemoteReadWrite);
    RemoteAddress where = remote_of(*region);
    where.address += 990;
    expect_refused(Op::kWrite, where, 11);
    EXPECT_TRUE(guarded.untouched()) << "not even the part inside the region";
}

TEST_P(WithAccessRights, F4_a_write_before_the_beginning_is_refused) {
    Guarded guarded;
    auto region = region_of(server_, std::span(guarded.memory).subspan(4096, 1000), Access::kRemoteReadWrite);
    RemoteAddress where = remote_of(*region);
    where.address -= 1;
    expect_refused(Op::kWrite, where, 8);
    EXPECT_TRUE(guarded.untouched());
}

TEST_P(WithAccessRights, F4_an_address_that_wraps_around_is_refused) {
    RemoteAddress where = server_.remote(0);
    where.address = UINT64_MAX - 7;
    expect_refused(Op::kWrite, where, 64);
}

TEST_P(WithAccessRights, F4_a_read_that_wraps_around_is_refused) {
    RemoteAddress where = server_.remote(0);
    where.address = UINT64_MAX - 7;
    expect_refused(Op::kRead, where, 64);
}

TEST_P(WithAccessRights, F4_a_write_to_a_region_that_may_only_be_read_is_refused) {
    Guarded guarded;
    auto region = region_of(server_, guarded.memory, Access::kRemoteRead);
    expect_refused(Op::kWrite, remote_of(*region), 100);
    EXPECT_TRUE(guarded.untouched());
}

TEST_P(WithAccessRights, F4_a_read_of_a_region_that_may_only_be_written_is_refused) {
    Guarded guarded;
    auto region = region_of(server_, guarded.memory, Access::kRemoteWrite);
    expect_refused(Op::kRead, remote_of(*region), 100);
}

TEST_P(WithAccessRights, F4_a_remote_access_to_a_local_region_is_refused) {
    Guarded guarded;
    auto region = region_of(server_, guarded.memory, Access::kLocal);
    expect_refused(Op::kWrite, remote_of(*region), 100);
    EXPECT_TRUE(guarded.untouched());
}

TEST_P(WithAccessRights, F4_permissions_of_allocated_memory_are_enforced) {
    for (Access access : {Access::kLocal, Access::kRemoteRead}) {
        Result<std::unique_ptr<Region>> region = server_.fabric->allocate(8192, access);
        ASSERT_TRUE(region) << region.status().to_string();
        expect_refused(Op::kWrite, remote_of(**region), 100);
        if (HasFatalFailure()) return;
        for (std::byte byte : (*region)->bytes()) ASSERT_EQ(byte, std::byte{0});
        hang_up();
        client_.heard = Recorder();
        server_.heard = Recorder();
    }
}

TEST_P(WithAccessRights, F4_a_read_of_allocated_memory_that_may_only_be_written_is_refused) {
    Result<std::unique_ptr<Region>> region = server_.fabric->allocate(8192, Access::kRemoteWrite);
    ASSERT_TRUE(region) << region.status().to_string();
    expect_refused(Op::kRead, remote_of(**region), 100);
}

TEST_P(WithAccessRights, F4_a_revoked_region_is_refused_even_after_earlier_use) {
    Guarded guarded;
    auto region = region_of(server_, guarded.memory, Access::kRemoteReadWrite);
    RemoteAddress where = remote_of(*region);
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(client_.write(1, 0, 8, where), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1); }));
    std::memset(guarded.memory.data(), 0x77, 8);
    region.reset();
    ASSERT_EQ(client_.write(2, 0, 8, where), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.status(1), CompletionStatus::kOk);
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kRemoteAccess);
    EXPECT_TRUE(guarded.untouched());
}

TEST_P(WithAccessRights, F4_revoked_allocated_memory_is_refused_even_after_earlier_use) {
    Result<std::unique_ptr<Region>> region = server_.fabric->allocate(8192, Access::kRemoteReadWrite);
    ASSERT_TRUE(region) << region.status().to_string();
    RemoteAddress where = remote_of(**region);
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(client_.write(1, 0, 8, where), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1); }));
    region->reset();
    ASSERT_EQ(client_.read(2, 0, 8, where), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kRemoteAccess);
}

// The completions must be successes, then one kRemoteAccess, then flushes.
static void expect_one_refusal(const Recorder& heard, size_t requests) {
    ASSERT_EQ(heard.completions.size(), requests);
    size_t i = 0;
    while (i < requests && heard.completions[i].status == CompletionStatus::kOk) ++i;
    ASSERT_LT(i, requests);
    EXPECT_EQ(heard.completions[i].status, CompletionStatus::kRemoteAccess);
    for (++i; i < requests; ++i) EXPECT_EQ(heard.completions[i].status, CompletionStatus::kFlushed);
}

TEST_P(WithAccessRights, F4_a_region_revoked_during_writes_is_not_written_again) {
    std::vector<std::byte> memory(512u << 10);
    auto region = region_of(server_, memory, Access::kRemoteReadWrite);
    RemoteAddress where = remote_of(*region);
    options_.send_depth = 256;
    ASSERT_NO_FATAL_FAILURE(connect());
    std::memset(client_.at(0), 0x11, memory.size());
    client_.heard.react = [&](Connection&, const Completion& completion) {
        if (completion.cookie != 10) return;
        region.reset();
        std::memset(memory.data(), 0x77, memory.size());
    };
    for (uint64_t i = 0; i < 100; ++i)
        ASSERT_EQ(client_.write(i, 0, static_cast<uint32_t>(memory.size()), where), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    expect_one_refusal(client_.heard, 100);
    for (std::byte byte : memory) ASSERT_EQ(byte, std::byte{0x77});
}

TEST_P(WithAccessRights, F4_revoking_a_region_ends_the_reads_in_flight) {
    std::vector<std::byte> memory(512u << 10);
    auto region = region_of(server_, memory, Access::kRemoteRead);
    RemoteAddress where = remote_of(*region);
    ASSERT_NO_FATAL_FAILURE(connect());
    client_.heard.react = [&](Connection&, const Completion& completion) {
        if (completion.cookie == 10) region.reset();
    };
    for (uint64_t i = 0; i < 100; ++i)
        ASSERT_EQ(client_.read(i, 0, static_cast<uint32_t>(memory.size()), where), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    expect_one_refusal(client_.heard, 100);
}

// One thread destroys a region while the progress thread writes to it. Its memory is unmapped at once, so
// that a single late byte would crash the process.
TEST_P(WithAccessRights, F4_memory_may_be_unmapped_as_soon_as_its_region_is_destroyed) {
    if (!world_->is_real()) GTEST_SKIP() << "one thread only";
    constexpr size_t kBytes = 256u << 10;
    options_.send_depth = 64;
    ASSERT_NO_FATAL_FAILURE(listen());
    for (int round = 0; round < 20; ++round) {
        void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        auto region = region_of(server_, {static_cast<std::byte*>(memory), kBytes}, Access::kRemoteReadWrite);
        RemoteAddress where = remote_of(*region);
        ASSERT_NO_FATAL_FAILURE(connect());
        std::atomic<bool> go{false};
        std::thread revoker([&] {
            while (!go.load()) std::this_thread::yield();
            region.reset();
            munmap(memory, kBytes);
        });
        uint64_t cookie = 0;
        uint64_t revoke_at = 8 + 3 * static_cast<uint64_t>(round);
        wait([&] {
            bool reads = cookie % 2 == 0;
            Code code =
                reads ? client_.read(cookie, 0, kBytes, where) : client_.write(cookie, 0, kBytes, where);
            if (code == Code::kOk && ++cookie == revoke_at) go.store(true);
            return both_closed();
        });
        go.store(true);
        revoker.join();
        ASSERT_TRUE(both_closed());
        hang_up();
        client_.heard = Recorder();
        server_.heard = Recorder();
    }
}

TEST_P(OverAFabric, F4_a_refused_access_on_one_connection_does_not_affect_the_others) {
    ASSERT_NO_FATAL_FAILURE(connect());
    listener_.reset();  // some worlds have one address per end
    End good;
    std::swap(good.connection, server_.connection);
    std::unique_ptr<Connection> good_client = std::move(client_.connection);
    Recorder& first_client = client_.heard;
    ASSERT_TRUE(first_client.established);
    // The first pair keeps its recorders; a second pair gets ends of its own.
    End bad_client;
    bad_client.fabric = client_.fabric;
    Recorder bad_server;
    std::unique_ptr<Connection> bad_server_connection;
    struct Second final : ListenHandler {
        std::function<void(std::unique_ptr<ConnectRequest>)> on;
        void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
            on(std::move(request));
        }
    } second;
    second.on = [&](std::unique_ptr<ConnectRequest> request) {
        auto made = request->create(*server_.poller, options_, bad_server);
        ASSERT_TRUE(made);
        bad_server_connection = std::move(*made);
        ASSERT_TRUE(bad_server_connection->accept({}));
    };
    auto listener = server_.poller->listen(world_->listen_address(), second);
    ASSERT_TRUE(listener) << listener.status().to_string();
    auto made = client_.poller->connect((*listener)->address(), {}, options_, bad_client.heard);
    ASSERT_TRUE(made);
    bad_client.connection = std::move(*made);
    ASSERT_TRUE(wait([&] { return bad_client.heard.established && bad_server.established; }));
    Segment one = client_.segment(0, 8);
    WorkRequest request{.op = Op::kWrite,
                        .cookie = 1,
                        .segments = {&one, 1},
                        .remote = {.address = 4096, .rkey = 0x12345678}};
    ASSERT_EQ(bad_client.connection->post({&request, 1}), Code::kOk);
    ASSERT_TRUE(wait([&] { return bad_client.heard.closed && bad_server.closed; }));
    std::swap(good.connection, server_.connection);
    client_.connection = std::move(good_client);
    ASSERT_EQ(client_.write(5, 0, 8, server_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(5); }));
    EXPECT_EQ(client_.heard.status(5), CompletionStatus::kOk);
}

TEST_P(OverAFabric, a_segment_outside_the_region_of_its_lkey_fails_locally_and_closes) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(9, 0, 64), Code::kOk);
    Segment past = client_.segment(kArenaBytes - 4, 8);
    ASSERT_EQ(client_.write(1, 0, 8, server_.remote(0)), Code::kOk);
    ASSERT_TRUE(wait([&] { return client_.heard.done(1); }));
    ASSERT_EQ(client_.post({.op = Op::kSend, .cookie = 2}, {&past, 1}), Code::kOk);
    ASSERT_EQ(client_.send(3, 0, 8), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.status(1), CompletionStatus::kOk);
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kLocalAccess);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kFlushed);
    EXPECT_EQ(server_.heard.status(9), CompletionStatus::kFlushed);
}

TEST_P(OverAFabric, requests_posted_with_a_segment_outside_the_region_of_its_lkey_complete) {
    ASSERT_NO_FATAL_FAILURE(connect());
    ASSERT_EQ(server_.receive(9, 0, 64), Code::kOk);
    Segment good = client_.segment(0, 8), past = client_.segment(kArenaBytes - 4, 8);
    WorkRequest requests[] = {{.op = Op::kWrite, .cookie = 1, .segments = {&good, 1}},
                              {.op = Op::kSend, .cookie = 2, .segments = {&past, 1}},
                              {.op = Op::kSend, .cookie = 3, .segments = {&good, 1}}};
    requests[0].remote = server_.remote(0);
    ASSERT_EQ(client_.connection->post(requests), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(client_.heard.count(1), 1u);
    EXPECT_EQ(client_.heard.status(2), CompletionStatus::kLocalAccess);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kFlushed);
    EXPECT_EQ(server_.heard.status(9), CompletionStatus::kFlushed);
}

TEST_P(OverAFabric, a_message_longer_than_its_receive_buffer_fails_on_both_sides_without_overrun) {
    ASSERT_NO_FATAL_FAILURE(connect());
    std::memset(client_.at(0), 0x44, 64);
    ASSERT_EQ(server_.receive(1, 0, 16), Code::kOk);
    ASSERT_EQ(server_.receive(2, 1000, 64), Code::kOk);
    ASSERT_EQ(client_.send(3, 0, 17), Code::kOk);
    ASSERT_EQ(client_.send(4, 0, 8), Code::kOk);
    ASSERT_TRUE(wait([&] { return both_closed(); }));
    EXPECT_EQ(server_.heard.status(1), CompletionStatus::kLength);
    EXPECT_EQ(server_.heard.status(2), CompletionStatus::kFlushed);
    EXPECT_EQ(client_.heard.status(3), CompletionStatus::kLength);
    EXPECT_EQ(client_.heard.status(4), CompletionStatus::kFlushed);
    EXPECT_EQ(server_.text(16, 48), std::string(48, '\0'));
}

}  // namespace wss::fabric::conformance
