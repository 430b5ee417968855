// SPDX-License-Identifier: Apache-2.0
// TLS on the tcp fabric: which peers are accepted, which are refused with a reason, and peers that violate
// the protocol.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/fabric/tcp/tcp.h"
#include "lib/fabric/tls/session.h"
#include "tests/support/certificates.h"
#include "tests/support/kernel_tls.h"

namespace wss::fabric::tcp {
namespace {

struct Heard final : ConnectionHandler {
    void on_established(Connection& connection, std::span<const std::byte>) noexcept override {
        established = true;
        binding.assign(connection.channel_binding().begin(), connection.channel_binding().end());
    }
    void on_refused(Connection&, const Status& status, std::span<const std::byte>) noexcept override {
        over = true;
        why = status;
    }
    void on_completions(Connection&, std::span<const Completion>) noexcept override {}
    void on_closed(Connection&, const Status& status) noexcept override {
        over = true;
        why = status;
    }
    bool established = false, over = false;
    std::vector<std::byte> binding;
    Status why;
};

NamedSecret named(const std::string& name, const std::string& secret) {
    return {.name = name, .secret = Secret(secret)};
}

// One end of a connection: a fabric with a poller.
struct End {
    explicit End(tls::Credentials credentials) : End(context_of(std::move(credentials))) {}
    explicit End(std::shared_ptr<const tls::Context> context) : fabric(*tcp::open(std::move(context))) {}
    std::unique_ptr<Fabric> fabric;
    static std::shared_ptr<const tls::Context> context_of(tls::Credentials credentials) {
        credentials.kernel_sends_max = test::kernel_sends_max();
        return *tls::Context::create(std::move(credentials));
    }
    std::unique_ptr<Poller> poller = std::move(*fabric->create_poller());
};

class Tls : public testing::Test, public ListenHandler {
  public:
    void TearDown() override {
        for (auto* side : {&client, &server})
            if (*side != nullptr) (*side)->close();
        wait([&] { return (client == nullptr || heard.over) && (server == nullptr || server_heard.over); });
        client.reset();
        server.reset();
    }
    void on_connect_request(std::unique_ptr<ConnectRequest> request) noexcept override {
        ++requests;
        server = std::move(*request->create(*listening->poller, {}, server_heard));
        ASSERT_TRUE(server->accept({}));
    }
    template <typename Done>
    bool wait(Done&& done, Nanoseconds patience = from_s(120)) {
        SystemClock clock;
        const Nanoseconds deadline = clock.now() + patience;
        while (!done()) {
            for (End* end : {listening.get(), connecting.get()})
                if (end != nullptr) end->poller->poll();
            if (clock.now() > deadline) return false;
        }
        return true;
    }
    void listen(std::unique_ptr<End> end, Scheme scheme = Scheme::kTls) {
        listening = std::move(end);
        listener =
            std::move(*listening->poller->listen({.scheme = scheme, .host = "127.0.0.1", .port = 0}, *this));
        address = listener->address();
    }
    void begin_connect(std::unique_ptr<End> end, Scheme scheme = Scheme::kTls) {
        connecting = std::move(end);
        address.scheme = scheme;
        auto made = connecting->poller->connect(address, {}, {.connect_timeout = from_s(60)}, heard);
        ASSERT_TRUE(made) << made.status().to_string();
        client = std::move(*made);
    }
    void connect(std::unique_ptr<End> end, Scheme scheme = Scheme::kTls) {
        ASSERT_NO_FATAL_FAILURE(begin_connect(std::move(end), scheme));
        ASSERT_TRUE(wait([&] { return heard.over || (heard.established && server_heard.established); }));
    }
    void expect_refused(std::string_view text) {
        EXPECT_TRUE(heard.over && !heard.established);
        EXPECT_NE(heard.why.to_string().find(text), std::string::npos) << heard.why.to_string();
        EXPECT_EQ(requests, 0);
    }
    static std::unique_ptr<End> knows(std::vector<NamedSecret> secrets) {
        return std::make_unique<End>(tls::Credentials{
            .files = {}, .identity = {}, .known = std::make_shared<tls::KnownPeers>(secrets)});
    }
    static std::unique_ptr<End> is(const std::string& name, const std::string& secret) {
        return std::make_unique<End>(
            tls::Credentials{.files = {}, .identity = named(name, secret), .known = {}});
    }
    static std::unique_ptr<End> with(const tls::Files& files) {
        return std::make_unique<End>(tls::Credentials{.files = files, .identity = {}, .known = {}});
    }
    static std::unique_ptr<End> plain() {
        return std::make_unique<End>(std::shared_ptr<const tls::Context>());
    }
    Descriptor dial() const {
        Descriptor made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in to{.sin_family = AF_INET,
                       .sin_port = htons(listener->address().port),
                       .sin_addr = {htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
        EXPECT_EQ(::connect(made.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        return made;
    }
    bool hung_up(const Descriptor& socket) {
        return wait([&] {
            char byte;
            const ssize_t got = recv(socket.get(), &byte, 1, MSG_DONTWAIT);
            return got == 0 || (got < 0 && errno == ECONNRESET);
        });
    }

    test::Authority authority;
    std::unique_ptr<End> listening, connecting;
    std::unique_ptr<Listener> listener;
    Address address;
    Heard heard, server_heard;
    std::unique_ptr<Connection> client, server;
    int requests = 0;
};

constexpr const char* kSecret = "0123456789abcdef-of-host1";

TEST_F(Tls, connects_with_a_known_key_and_gives_both_ends_the_same_binding) {
    listen(knows({named("host0", "another secret 0123"), named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    ASSERT_TRUE(heard.established) << heard.why.to_string();
    EXPECT_EQ(heard.binding.size(), 32u);
    EXPECT_EQ(heard.binding, server_heard.binding);
}

TEST_F(Tls, gives_each_connection_a_binding_of_its_own) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    const auto first = heard.binding;
    TearDown();
    heard = {}, server_heard = {};
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    EXPECT_NE(first, heard.binding);
}

TEST_F(Tls, fails_alike_for_a_wrong_secret_and_an_unknown_name) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", "not the secret of host1")));
    expect_refused("TLS handshake failed: the peer rejected 'host1': unknown name or wrong secret");
    heard = {};
    client.reset();
    ASSERT_NO_FATAL_FAILURE(connect(is("host2", kSecret)));
    expect_refused("TLS handshake failed: the peer rejected 'host2': unknown name or wrong secret");
}

TEST_F(Tls, refuses_a_replaced_key_and_connects_with_the_new_one) {
    auto known = std::make_shared<tls::KnownPeers>(std::vector{named("host1", kSecret)});
    listen(std::make_unique<End>(tls::Credentials{.files = {}, .identity = {}, .known = known}));
    known->replace({named("host1", "the next secret of host1")});
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    expect_refused("TLS handshake failed");
    heard = {};
    client.reset();
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", "the next secret of host1")));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

TEST_F(Tls, connects_with_both_secrets_of_a_name) {
    const std::vector both{named("host1", "the former secret"), named("host2", kSecret),
                           named("host1", kSecret)};
    for (const char* secret : {"the former secret", kSecret}) {
        listen(knows(both));
        ASSERT_NO_FATAL_FAILURE(connect(is("host1", secret)));
        EXPECT_TRUE(heard.established) << heard.why.to_string();
        TearDown();
        heard = {}, server_heard = {};
    }
}

TEST_F(Tls, uses_a_key_that_is_not_the_secret_and_differs_by_name) {
    const Secret secret(kSecret);
    const Secret key = tls::derive_psk("host1", secret);
    EXPECT_EQ(key.bytes().size(), sizeof(Digest));
    EXPECT_NE(key.bytes(), tls::derive_psk("host2", secret).bytes());
    const Digest plain = hmac_sha256(kSecret, {});
    EXPECT_NE(std::memcmp(key.bytes().data(), plain.data(), plain.size()), 0);
}

TEST_F(Tls, connects_with_a_certificate_of_the_requested_host) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    listen(with({ours.certificate, ours.key, "", ""}));
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

struct Unfit {
    std::string test, name, names;
    long seconds;
    std::string dialled, refusal;
};
class TlsUnfitCertificate : public Tls, public testing::WithParamInterface<Unfit> {};

TEST_P(TlsUnfitCertificate, is_refused_with_the_reason) {
    const auto ours = authority.issue(GetParam().name, GetParam().names, GetParam().seconds);
    listen(with({ours.certificate, ours.key, "", ""}));
    address.host = GetParam().dialled;
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused(GetParam().refusal);
}

INSTANTIATE_TEST_SUITE_P(
    All, TlsUnfitCertificate,
    testing::Values(
        Unfit{"of_another_host", "target", "IP:127.0.0.2,DNS:localhost", 3600, "127.0.0.1",
              "IP address mismatch"},
        Unfit{"whose_common_name_alone_is_the_host", "localhost", "email:root@localhost", 3600, "localhost",
              "hostname mismatch; its alternative names must include the address"},
        Unfit{"expired", "target", "IP:127.0.0.1", -60, "127.0.0.1",
              "certificate has expired; it must be replaced, or the clock of this machine is wrong"}),
    [](const auto& one) { return one.param.test; });

TEST_F(Tls, refuses_a_certificate_of_an_unknown_authority) {
    test::Authority other;
    const auto ours = other.issue("target", "IP:127.0.0.1");
    listen(with({ours.certificate, ours.key, "", ""}));
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused("certificate");
}

TEST_F(Tls, lets_a_client_that_has_only_a_key_refuse_a_target_with_a_certificate) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    listen(with({ours.certificate, ours.key, "", ""}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    expect_refused("certificate");
}

TEST_F(Tls, refuses_a_client_without_the_required_certificate_with_the_reason) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    listen(with({ours.certificate, ours.key, "", authority.file()}));
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused("certificate required");
}

TEST_F(Tls, refuses_a_client_with_an_expired_certificate_with_the_reason) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    const auto theirs = authority.issue("client", "DNS:client", -60);
    listen(with({ours.certificate, ours.key, "", authority.file()}));
    ASSERT_NO_FATAL_FAILURE(connect(with({theirs.certificate, theirs.key, authority.file(), ""})));
    expect_refused("certificate expired");
}

TEST_F(Tls, connects_a_client_with_the_required_certificate) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    const auto theirs = authority.issue("client", "DNS:client");
    listen(with({ours.certificate, ours.key, "", authority.file()}));
    ASSERT_NO_FATAL_FAILURE(connect(with({theirs.certificate, theirs.key, authority.file(), ""})));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

TEST_F(Tls, lets_a_listener_with_known_keys_refuse_clients_without_a_key_whatever_they_verify) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    listen(std::make_unique<End>(
        tls::Credentials{.files = {ours.certificate, ours.key, "", ""},
                         .identity = {},
                         .known = std::make_shared<tls::KnownPeers>(std::vector{named("host1", kSecret)})}));
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused("TLS handshake failed");
}

TEST_F(Tls, accepts_both_keys_and_client_certificates_and_nothing_else) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    const auto theirs = authority.issue("client", "DNS:client");
    listen(std::make_unique<End>(
        tls::Credentials{.files = {ours.certificate, ours.key, "", authority.file()},
                         .identity = {},
                         .known = std::make_shared<tls::KnownPeers>(std::vector{named("host1", kSecret)})}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
    EXPECT_EQ(server->peer_name(), "host1");
    EXPECT_EQ(client->peer_name(), "") << "only the listening end finds the name of a key";
    TearDown();
    heard = {}, server_heard = {};
    ASSERT_NO_FATAL_FAILURE(connect(with({theirs.certificate, theirs.key, authority.file(), ""})));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
    EXPECT_EQ(server->peer_name(), "") << "a certificate proves no name";
    TearDown();
    heard = {}, server_heard = {}, requests = 0;
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused("certificate required");
}

TEST_F(Tls, without_credentials_neither_listens_nor_connects) {
    End bare(tls::Credentials{});
    const Address any{.scheme = Scheme::kTls, .host = "127.0.0.1", .port = 0};
    EXPECT_FALSE(bare.poller->listen(any, *this));
    EXPECT_FALSE(bare.poller->connect(any, {}, {}, heard));
}

TEST_F(Tls, names_the_files_that_cannot_be_used_in_errors) {
    auto made = tls::Context::create({.files = {"/nowhere/cert.pem", "/nowhere/key.pem", "", ""}});
    ASSERT_FALSE(made);
    EXPECT_NE(made.status().text().find("/nowhere/cert.pem"), std::string::npos) << made.status().to_string();
    EXPECT_FALSE(tls::Context::create({.files = {"cert.pem", "", "", ""}}));
}

TEST_F(Tls, refuses_a_key_with_a_passphrase_without_a_prompt) {
    const auto ours = authority.issue("target", "IP:127.0.0.1");
    authority.protect(ours.key);
    auto made = tls::Context::create({.files = {ours.certificate, ours.key, "", ""}});
    ASSERT_FALSE(made);
    EXPECT_NE(made.status().text().find("--tls-key " + ours.key), std::string::npos)
        << made.status().to_string();
}

TEST_F(Tls, applies_reloaded_files_to_new_connections_and_ignores_broken_ones) {
    const auto ours = authority.issue("target", "IP:127.0.0.1", -60);
    listen(with({ours.certificate, ours.key, "", ""}));
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    expect_refused("expired");
    heard = {};
    client.reset();
    authority.issue("target", "IP:127.0.0.1");
    ASSERT_TRUE(tls::Context::reload_all());
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
    ASSERT_EQ(truncate(ours.certificate.c_str(), 0), 0);
    const auto broken = tls::Context::reload_all();
    ASSERT_FALSE(broken);
    EXPECT_NE(broken.status().text().find(ours.certificate), std::string::npos);
    EXPECT_FALSE(heard.over) << "the connection is not affected";
    TearDown();
    heard = {}, server_heard = {};
    ASSERT_NO_FATAL_FAILURE(connect(with({"", "", authority.file(), ""})));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

TEST_F(Tls, does_not_connect_to_tcp_addresses_nor_tcp_to_tls_addresses) {
    const Address tcp{.scheme = Scheme::kTcp, .host = "127.0.0.1", .port = 1};
    const Address tls{.scheme = Scheme::kTls, .host = "127.0.0.1", .port = 1};
    EXPECT_FALSE(is("host1", kSecret)->poller->connect(tcp, {}, {}, heard));
    EXPECT_FALSE(plain()->poller->connect(tls, {}, {}, heard));
}

TEST_F(Tls, refuses_a_plain_client_at_a_tls_address_with_the_right_scheme) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(connect(plain(), Scheme::kTcp));
    expect_refused("tls://");
}

TEST_F(Tls, is_refused_at_a_plain_address) {
    listen(plain(), Scheme::kTcp);
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    expect_refused("tcp://");
}

// --- time

// Polls one end for a short time, while the other end is not polled.
static void turn(End& end) {
    for (int i = 0; i < 20; ++i) {
        end.poller->poll();
        usleep(1000);
    }
}

TEST_F(Tls, drops_no_client_that_has_sent_data_while_the_listener_is_not_polled) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(begin_connect(is("host1", kSecret)));
    turn(*listening);  // accepts
    turn(*connecting);
    usleep(5'300'000);
    ASSERT_TRUE(wait([&] { return heard.over || (heard.established && server_heard.established); }));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

TEST_F(Tls, connects_a_slow_client_that_keeps_sending) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(begin_connect(is("host1", kSecret)));
    turn(*listening);
    for (int step = 0; step < 2; ++step) {
        usleep(3'000'000);
        turn(*connecting);  // sends its hello, then the last message of the handshake
        turn(*listening);
    }
    ASSERT_TRUE(wait([&] { return heard.over || (heard.established && server_heard.established); }));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
}

// --- hostile peers

TEST_F(Tls, ends_the_connection_at_garbage_instead_of_a_handshake) {
    listen(knows({named("host1", kSecret)}));
    const Descriptor hostile = dial();
    const std::string garbage(4096, '\xa5');
    ASSERT_EQ(send(hostile.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 4096);
    EXPECT_TRUE(hung_up(hostile));
    EXPECT_EQ(requests, 0);
}

TEST_F(Tls, times_out_half_a_handshake_followed_by_silence_and_connects_others) {
    listen(knows({named("host1", kSecret)}));
    const Descriptor hostile = dial();
    const std::array<uint8_t, 9> begun{22, 3, 1, 2, 0, 1, 0, 1, 252};  // start of a ClientHello of 508 bytes
    ASSERT_EQ(send(hostile.get(), begun.data(), begun.size(), MSG_NOSIGNAL), 9);
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
    EXPECT_TRUE(hung_up(hostile));
}

TEST_F(Tls, times_out_a_handshake_that_stops_halfway_and_one_that_drips) {
    listen(knows({named("host1", kSecret)}));
    const Descriptor halfway = dial(), dripping = dial();
    ASSERT_EQ(fcntl(halfway.get(), F_SETFL, O_NONBLOCK), 0);
    auto context = *tls::Context::create({.files = {}, .identity = named("host1", kSecret), .known = {}});
    auto session = std::move(*tls::Session::connect(context, halfway.get(), "127.0.0.1"));
    ASSERT_EQ(session->shake_hands(), tls::Session::Step::kWait);  // the first message has been sent
    const std::array<uint8_t, 9> begun{22, 3, 1, 2, 0, 1, 0, 1, 252};
    ASSERT_EQ(send(dripping.get(), begun.data(), begun.size(), MSG_NOSIGNAL), 9);
    SystemClock clock;
    const Nanoseconds start = clock.now();
    Nanoseconds dripped = start;
    EXPECT_TRUE(wait([&] {
        if (clock.now() - dripped > from_ms(100)) {
            dripped = clock.now();
            if (send(dripping.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return true;
        }
        return false;
    }));
    EXPECT_TRUE(hung_up(halfway));
    EXPECT_GT(clock.now() - start, from_s(4));
    EXPECT_EQ(requests, 0);
}

TEST_F(Tls, lets_stalled_handshakes_lock_out_no_other_client) {
    listen(knows({named("host1", kSecret)}));
    const std::array<uint8_t, 9> begun{22, 3, 1, 2, 0, 1, 0, 1, 252};
    std::vector<Descriptor> hostile;
    for (int i = 0; i < 300; ++i) {  // more than the limit of one source
        hostile.push_back(dial());
        ASSERT_EQ(send(hostile.back().get(), begun.data(), begun.size(), MSG_NOSIGNAL), 9);
        listening->poller->poll();
    }
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    EXPECT_TRUE(heard.established) << heard.why.to_string();
    EXPECT_TRUE(hung_up(hostile.front()));
}

// A relay between client and listener. It forwards bytes, holds them back or changes them, as a test
// requires.
class Relay {
  public:
    explicit Relay(uint16_t target) : target_(target) {
        listening_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_in any{
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
        socklen_t length = sizeof any;
        auto* generic = reinterpret_cast<sockaddr*>(&any);
        EXPECT_EQ(bind(listening_.get(), generic, length), 0);
        EXPECT_EQ(::listen(listening_.get(), 1), 0);
        EXPECT_EQ(getsockname(listening_.get(), generic, &length), 0);
        port_ = ntohs(any.sin_port);
    }
    uint16_t port() const { return port_; }
    void turn() {
        if (!ends_[0]) {
            ends_[0] = Descriptor(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
            if (!ends_[0]) return;
            ends_[1] = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            sockaddr_in to{.sin_family = AF_INET,
                           .sin_port = htons(target_),
                           .sin_addr = {htonl(INADDR_LOOPBACK)},
                           .sin_zero = {}};
            EXPECT_EQ(::connect(ends_[1].get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
        }
        for (int from : {0, 1}) {
            std::array<char, 4096> bytes;
            const ssize_t got = recv(ends_[from].get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
            if (got <= 0) continue;
            if (flip && from == 0) bytes[static_cast<size_t>(got) - 1] ^= 1;
            (void)send(ends_[1 - from].get(), bytes.data(), static_cast<size_t>(got), MSG_NOSIGNAL);
            seen.append(bytes.data(), static_cast<size_t>(got));
        }
    }
    void cut() {
        for (Descriptor& end : ends_) shutdown(end.get(), SHUT_WR);
    }
    bool flip = false;
    std::string seen;

  private:
    const uint16_t target_;
    uint16_t port_ = 0;
    Descriptor listening_;
    std::array<Descriptor, 2> ends_;
};

class TlsRelay : public Tls {
  public:
    void connect_through() {
        listen(knows({named("host1", kSecret)}));
        relay = std::make_unique<Relay>(address.port);
        address.port = relay->port();
        connecting = is("host1", kSecret);
        client = std::move(*connecting->poller->connect(address, {}, {.connect_timeout = from_s(60)}, heard));
        ASSERT_TRUE(wait([&] {
            relay->turn();
            return heard.over || (heard.established && server_heard.established);
        }));
        ASSERT_TRUE(heard.established) << heard.why.to_string();
    }
    std::unique_ptr<Relay> relay;
};

TEST_F(TlsRelay, cannot_read_data_in_transit) {
    ASSERT_NO_FATAL_FAILURE(connect_through());
    auto memory = std::move(*connecting->fabric->allocate(4096, Access::kLocal));
    auto sink = std::move(*listening->fabric->allocate(4096, Access::kRemoteWrite));
    const std::string text = "what nobody else may read";
    std::memcpy(memory->bytes().data(), text.data(), text.size());
    const Segment segment{memory->bytes().data(), 4096, memory->lkey()};
    const WorkRequest write{
        .op = Op::kWrite, .segments = {&segment, 1}, .remote = {sink->remote_address(), sink->rkey(0)}};
    ASSERT_EQ(client->post({&write, 1}), Code::kOk);
    ASSERT_TRUE(wait([&] {
        relay->turn();
        return std::memcmp(sink->bytes().data(), text.data(), text.size()) == 0;
    }));
    EXPECT_GT(relay->seen.size(), 4096u);
    EXPECT_EQ(relay->seen.find(text), std::string::npos);
}

TEST_F(TlsRelay, that_changes_a_bit_ends_the_connection) {
    ASSERT_NO_FATAL_FAILURE(connect_through());
    relay->flip = true;
    auto memory = std::move(*connecting->fabric->allocate(4096, Access::kLocal));
    const Segment segment{memory->bytes().data(), 4096, memory->lkey()};
    const WorkRequest write{.op = Op::kWrite, .segments = {&segment, 1}, .remote = {1, 1}};
    ASSERT_EQ(client->post({&write, 1}), Code::kOk);
    ASSERT_TRUE(wait([&] {
        relay->turn();
        return server_heard.over;
    }));
    EXPECT_NE(server_heard.why.code(), Code::kClosed) << server_heard.why.to_string();
}

TEST_F(TlsRelay, that_truncates_a_stream_makes_both_ends_report_a_lost_connection) {
    ASSERT_NO_FATAL_FAILURE(connect_through());
    relay->cut();
    ASSERT_TRUE(wait([&] { return heard.over && server_heard.over; }));
    EXPECT_EQ(heard.why.sys_errno(), ECONNRESET) << heard.why.to_string();
    EXPECT_EQ(server_heard.why.sys_errno(), ECONNRESET) << server_heard.why.to_string();
}

TEST_F(Tls, distinguishes_a_close_from_a_truncation) {
    listen(knows({named("host1", kSecret)}));
    ASSERT_NO_FATAL_FAILURE(connect(is("host1", kSecret)));
    client->close();
    ASSERT_TRUE(wait([&] { return server_heard.over; }));
    EXPECT_EQ(server_heard.why.code(), Code::kClosed) << server_heard.why.to_string();
}

}  // namespace
}  // namespace wss::fabric::tcp
