// SPDX-License-Identifier: Apache-2.0
// A peer that violates the protocol of tcp: whatever the peer sends, only its own connection ends.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/base/clock.h"
#include "lib/fabric/stream/frame.h"
#include "lib/fabric/stream/poller.h"
#include "lib/fabric/tcp/tcp.h"
#include "lib/fabric/tcp/tcp_poller.h"

namespace wss::fabric::tcp {
namespace {

using stream::encode;
using stream::Frame;
using stream::FrameType;
using stream::Hello;
using stream::HelloKind;

struct Heard final : ConnectionHandler {
    void on_established(Connection&, std::span<const std::byte>) noexcept override { established = true; }
    void on_refused(Connection&, const Status&, std::span<const std::byte>) noexcept override {
        closed = true;
    }
    void on_completions(Connection&, std::span<const Completion> batch) noexcept override {
        for (const Completion& completion : batch) good += completion.status == CompletionStatus::kOk;
    }
    void on_closed(Connection&, const Status& status) noexcept override {
        closed = true;
        why = status;
    }
    bool established = false, closed = false;
    int good = 0;
    Status why;
};

class OnHostileTcpConnections : public testing::Test, public ListenHandler {
  public:
    void SetUp() override {
        listener =
            std::move(*poller->listen({.scheme = Scheme::kTcp, .host = "127.0.0.1", .port = 0}, *this));
        arena = std::move(*fabric->allocate(4096, Access::kRemoteReadWrite));
    }
    void TearDown() override {
        hostile.reset();
        if (connection != nullptr && !heard.closed) connection->close();
        if (connection != nullptr) wait([&] { return heard.closed; });
        connection.reset();
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        ++requests;
        ConnectionOptions options{.read_depth = 2};
        connection = std::move(*request->create(*poller, options, heard));
        ASSERT_TRUE(connection->accept({}));
    }
    template <typename Done>
    bool wait(Done&& done) {
        SystemClock clock;
        Nanoseconds deadline = clock.now() + from_s(10);
        while (!done()) {
            poller->poll();
            if (clock.now() > deadline) return false;
        }
        return true;
    }
    void dial() { hostile = dial_from(INADDR_LOOPBACK); }
    Descriptor dial_from(uint32_t source) {
        Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in from{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(source)}, .sin_zero = {}};
        EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&from), sizeof from), 0);
        sockaddr_in to{.sin_family = AF_INET,
                       .sin_port = htons(listener->address().port),
                       .sin_addr = {htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
        EXPECT_EQ(connect(made.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        return made;
    }
    void say(std::span<const std::byte> bytes) {
        ASSERT_EQ(::send(hostile.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(bytes.size()));
    }
    void greet() {
        ASSERT_NO_FATAL_FAILURE(dial());
        std::array<std::byte, stream::kHelloBytes> bytes;
        encode(Hello{.kind = HelloKind::kConnect, .read_depth = 2}, bytes);
        ASSERT_NO_FATAL_FAILURE(say(bytes));
        ASSERT_TRUE(wait([&] { return heard.established; }));
    }
    void expect_thrown_out(const Frame& frame, Code code = Code::kInvalid) {
        ASSERT_NO_FATAL_FAILURE(greet());
        std::array<std::byte, stream::kFrameBytes> bytes;
        encode(frame, bytes.data());
        ASSERT_NO_FATAL_FAILURE(say(bytes));
        ASSERT_TRUE(wait([&] { return heard.closed; }));
        EXPECT_EQ(heard.why.code(), code) << heard.why.to_string();
    }
    // Returns whether the server has closed the raw socket.
    bool hung_up() {
        return wait([&] {
            char byte;
            ssize_t got = recv(hostile.get(), &byte, 1, MSG_DONTWAIT);
            return got == 0 || (got < 0 && errno == ECONNRESET);
        });
    }

    std::unique_ptr<Fabric> fabric = std::move(*open());
    std::unique_ptr<Poller> poller = std::move(*fabric->create_poller());
    std::unique_ptr<Region> arena;
    std::unique_ptr<Listener> listener;
    Descriptor hostile;
    Heard heard;
    std::unique_ptr<Connection> connection;
    int requests = 0;
};

TEST_F(OnHostileTcpConnections, a_peer_of_another_protocol_is_disconnected_and_not_reported) {
    ASSERT_NO_FATAL_FAILURE(dial());
    std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(300, 'x');
    ASSERT_NO_FATAL_FAILURE(say(std::as_bytes(std::span(http))));
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(requests, 0);
}

static bool is_open(const Descriptor& socket) {
    char byte;
    return recv(socket.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

TEST_F(OnHostileTcpConnections,
       idle_sockets_displace_those_of_their_own_source_and_a_hello_is_processed_at_once) {
    constexpr uint32_t kElsewhere = INADDR_LOOPBACK + 1;
    Descriptor before = dial_from(INADDR_LOOPBACK);
    std::vector<Descriptor> idle;
    for (int i = 0; i < 500; ++i) {
        idle.push_back(dial_from(kElsewhere));
        poller->poll();
    }
    ASSERT_TRUE(wait([&] { return !is_open(idle.front()); })) << "the oldest one is closed";
    EXPECT_TRUE(is_open(before)) << "another source keeps its place";
    EXPECT_TRUE(is_open(idle.back()));
    SystemClock clock;
    const Nanoseconds begin = clock.now();
    ASSERT_NO_FATAL_FAILURE(greet());
    EXPECT_LT(clock.now() - begin, from_s(1));
    std::erase_if(idle, [](const Descriptor& each) { return !is_open(each); });
    EXPECT_LE(idle.size(), 256u) << "places of one source";
}

// A closed connection whose peer has sent data and continues to send.
struct Closed {
    static int unread(const Descriptor& socket) {
        int bytes = 0;
        EXPECT_EQ(ioctl(socket.get(), FIONREAD, &bytes), 0);
        return bytes;
    }
    Descriptor peer, meter;
    int left = 0;
};

// The poller must leave time for the other sources of its reactor.
TEST_F(OnHostileTcpConnections,
       closed_connections_take_turns_and_a_poll_discards_at_most_a_mebibyte_of_their_data) {
    constexpr int kTurnMax = 1 << 20, kBuffer = 1 << 20, kSockets = 20;
    const std::vector<std::byte> rubbish(64 << 10);
    std::vector<Closed> closed;
    std::vector<Descriptor> sockets;
    int queued = 0;
    for (int i = 0; i < kSockets; ++i) {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        sockets.emplace_back(ends[1]);
        closed.push_back({.peer = Descriptor(ends[0]), .meter = Descriptor(dup(ends[1]))});
        if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer) != 0)
            GTEST_SKIP() << "only root can queue so much at once";
        while (::send(ends[0], rubbish.data(), rubbish.size(), MSG_NOSIGNAL) > 0) {
        }
        queued += closed.back().left = Closed::unread(closed.back().meter);
    }
    ASSERT_GT(queued, 10 * kTurnMax);
    const int each = closed.front().left;
    for (Descriptor& socket : sockets) dynamic_cast<TcpPoller&>(*poller).linger(std::move(socket));
    int most = 0, left = queued;
    bool all_begun_before_one_ended = false;
    poller->poll();
    EXPECT_TRUE(wait([&] {  // one poll in each turn
        int turn = 0, least = each, longest = 0;
        for (Closed& one : closed) {
            const int before = std::exchange(one.left, Closed::unread(one.meter));
            turn += before - one.left;
            least = std::min(least, one.left);
            longest = std::max(longest, one.left);
        }
        left -= turn;
        most = std::max(most, turn);
        all_begun_before_one_ended |= least > 0 && longest < each;
        EXPECT_TRUE(left == 0 || !poller->arm()) << "no event is pending for the remaining bytes";
        return left == 0;
    })) << "each turn continues where the last one stopped";
    EXPECT_LE(most, kTurnMax) << "of " << queued << " bytes in one turn";
    EXPECT_TRUE(all_begun_before_one_ended);
}

TEST_F(OnHostileTcpConnections, closed_connections_of_live_peers_are_limited_and_the_oldest_is_dropped) {
    constexpr size_t kMany = 300, kKept = 256;
    auto& tcp_poller = dynamic_cast<TcpPoller&>(*poller);
    std::vector<Descriptor> peers;
    for (size_t i = 0; i < kMany; ++i) {
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        peers.emplace_back(ends[0]);
        tcp_poller.linger(Descriptor(ends[1]));
    }
    size_t kept = 0;
    for (const Descriptor& each : peers) kept += ::send(each.get(), "x", 1, MSG_NOSIGNAL) == 1;
    EXPECT_EQ(kept, kKept);
    EXPECT_LT(::send(peers.front().get(), "x", 1, MSG_NOSIGNAL), 0) << "the oldest";
}

TEST_F(OnHostileTcpConnections, the_oldest_socket_is_closed_if_all_sources_hold_the_same_number) {
    std::vector<Descriptor> idle;  // 16 of each of 32 sources take all places
    for (uint32_t last = 40; last > 8; --last)
        for (int i = 0; i < 16; ++i) {
            idle.push_back(dial_from(INADDR_LOOPBACK - 1 + last));
            poller->poll();
        }
    for (int i = 0; i < 10; ++i) poller->poll();
    ASSERT_TRUE(is_open(idle.front())) << "there was room for all";
    Descriptor newcomer = dial_from(INADDR_LOOPBACK);
    ASSERT_TRUE(wait([&] {
        return std::any_of(idle.begin(), idle.end(), [](const auto& each) { return !is_open(each); });
    }));
    EXPECT_FALSE(is_open(idle.front()));
    EXPECT_TRUE(is_open(newcomer));
}

TEST_F(OnHostileTcpConnections, an_unknown_frame_ends_the_connection) {
    expect_thrown_out({.type = static_cast<FrameType>(77)});
}

TEST_F(OnHostileTcpConnections, acknowledging_more_than_was_sent_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kAcknowledge, .acknowledged = 1});
}

TEST_F(OnHostileTcpConnections, credits_beyond_every_limit_end_the_connection) {
    expect_thrown_out({.type = FrameType::kAcknowledge, .credits = 0x7fffffff});
}

TEST_F(OnHostileTcpConnections, a_message_without_a_receive_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kSend, .length = 1 << 20});
}

TEST_F(OnHostileTcpConnections, an_immediate_without_a_receive_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kPlacedImmediate, .address = 100});
}

TEST_F(OnHostileTcpConnections, unrequested_read_data_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kReadData, .length = 100});
}

TEST_F(OnHostileTcpConnections, the_end_of_an_unrequested_read_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kReadEnd});
}

TEST_F(OnHostileTcpConnections, a_refusal_without_a_request_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kRefuse, .status = 2, .immediate = 0});
}

TEST_F(OnHostileTcpConnections, a_frame_that_only_shm_uses_ends_the_connection) {
    expect_thrown_out({.type = FrameType::kGrantAsk, .rkey = 1});
}

TEST_F(OnHostileTcpConnections, an_access_out_of_bounds_is_refused) {
    expect_thrown_out({.type = FrameType::kWrite,
                       .length = 100,
                       .address = arena->remote_address() + 4000,
                       .rkey = arena->rkey(0)},
                      Code::kPermission);
}

TEST_F(OnHostileTcpConnections, more_reads_than_negotiated_end_the_connection) {
    ASSERT_NO_FATAL_FAILURE(greet());
    std::array<std::byte, stream::kFrameBytes> bytes;
    std::vector<std::byte> all;
    encode({.type = FrameType::kRead,
            .length = 4096,
            .address = arena->remote_address(),
            .rkey = arena->rkey(0)},
           bytes.data());
    for (int i = 0; i < 100; ++i) all.insert(all.end(), bytes.begin(), bytes.end());
    ASSERT_NO_FATAL_FAILURE(say(all));
    ASSERT_TRUE(wait([&] { return heard.closed; }));
    EXPECT_EQ(heard.why.code(), Code::kInvalid) << heard.why.to_string();
}

TEST_F(OnHostileTcpConnections, an_incomplete_frame_does_not_end_the_connection) {
    ASSERT_NO_FATAL_FAILURE(greet());
    std::array<std::byte, stream::kFrameBytes> bytes;
    encode({.type = FrameType::kWrite,
            .length = 4096,
            .address = arena->remote_address(),
            .rkey = arena->rkey(0)},
           bytes.data());
    ASSERT_NO_FATAL_FAILURE(say(bytes));
    for (int i = 0; i < 1000; ++i) poller->poll();
    EXPECT_FALSE(heard.closed);
    hostile.reset();
    EXPECT_TRUE(wait([&] { return heard.closed; }));
}

TEST_F(OnHostileTcpConnections, random_frames_cause_no_crash_and_do_not_affect_others) {
    uint64_t seed = Random::entropy();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    for (int round = 0; round < 300; ++round) {
        heard = Heard();
        ASSERT_NO_FATAL_FAILURE(greet());
        std::vector<std::byte> all;
        for (int i = 0; i < 20; ++i) {
            std::array<std::byte, stream::kFrameBytes> bytes;
            Frame frame{.type = static_cast<FrameType>(1 + random.below(11)),
                        .flags = static_cast<uint8_t>(random.below(2)),
                        .length = static_cast<uint32_t>(random.below(5000)),
                        .address = arena->remote_address() + random.below(5000) - 500,
                        .rkey = random.chance(4) ? static_cast<uint32_t>(random.next()) : arena->rkey(0),
                        .immediate = static_cast<uint32_t>(random.below(4)),
                        .acknowledged = static_cast<uint32_t>(random.below(2)),
                        .credits = static_cast<uint32_t>(random.below(3))};
            encode(frame, bytes.data());
            all.insert(all.end(), bytes.begin(), bytes.end());
            size_t payload = random.chance(3) ? frame.length : random.below(200);
            all.insert(all.end(), payload, static_cast<std::byte>(random.next()));
        }
        [[maybe_unused]] ssize_t sent =
            ::send(hostile.get(), all.data(), all.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        for (int i = 0; i < 20; ++i) poller->poll();
        hostile.reset();
        ASSERT_TRUE(wait([&] { return heard.closed; }));
        connection.reset();
    }
}

}  // namespace
}  // namespace wss::fabric::tcp
