// SPDX-License-Identifier: Apache-2.0
// A TLS session of the library with a peer that uses libssl directly: small records, frequent key changes,
// early data, older versions, damaged handshakes.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <functional>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/fabric/tls/session.h"
#include "tests/support/certificates.h"
#include "tests/support/kernel_tls.h"

namespace wss::fabric::tls {
namespace {

struct Free {
    void operator()(SSL* ssl) const { SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class TlsSession : public testing::Test {
  public:
    TlsSession() {
        connect_sockets();
        SSL_CTX_set_verify(foreign_context_.get(), SSL_VERIFY_NONE, nullptr);
    }
    // The session under test accepts, with a certificate. `prepare` configures the peer.
    void begin(const std::function<void(SSL*)>& prepare = {}) {
        const auto own = authority_.issue("target", "IP:127.0.0.1");
        begin(*Context::create({.files = {own.certificate, own.key, "", ""},
                                .identity = {},
                                .known = {},
                                .kernel_sends_max = kernel_sends_max_}),
              prepare);
    }
    void begin(std::shared_ptr<const Context> context, const std::function<void(SSL*)>& prepare) {
        session = *Session::accept(std::move(context), ours_.get());
        peer.reset(SSL_new(foreign_context_.get()));
        SSL_set_fd(peer.get(), theirs_.get());
        SSL_set_connect_state(peer.get());
        if (prepare) prepare(peer.get());
    }
    // Runs the handshake of both ends. Returns the last step of the session under test.
    Session::Step shake_hands() {
        Session::Step step = Session::Step::kWait;
        for (int i = 0; i < 100 && (step == Session::Step::kWait || !SSL_is_init_finished(peer.get())); ++i) {
            SSL_do_handshake(peer.get());
            step = session->shake_hands();
            if (step == Session::Step::kFailed) break;
        }
        return step;
    }
    ssize_t read(std::span<std::byte> into) {
        const iovec all{into.data(), into.size()};
        return session->read({&all, 1});
    }
    ssize_t write(std::string_view from) {
        const iovec all{const_cast<char*>(from.data()), from.size()};
        return session->write({&all, 1});
    }
    // Returns the bytes that the peer can read at once.
    std::string heard(int length) {
        std::string bytes(static_cast<size_t>(length), '\0');
        const int got = SSL_read(peer.get(), bytes.data(), length);
        bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
        return bytes;
    }

    std::unique_ptr<Session> session;
    std::unique_ptr<SSL, Free> peer;

  protected:
    // Kernel TLS needs TCP. Without it, a pair of Unix sockets has smaller buffers.
    void connect_sockets() {
        if (kernel_sends_max_ > 0) return connect_over_tcp();
        int ends[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
        ours_ = Descriptor(ends[0]);
        theirs_ = Descriptor(ends[1]);
    }

    uint64_t kernel_sends_max_ = test::kernel_sends_max();
    test::Authority authority_;
    Descriptor ours_, theirs_;
    std::unique_ptr<SSL_CTX, Free> foreign_context_{SSL_CTX_new(TLS_client_method())};

  private:
    void connect_over_tcp() {
        const auto socket = [] { return Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); };
        const Descriptor listening = socket();
        sockaddr_in address{
            .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
        socklen_t length = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        ASSERT_EQ(bind(listening.get(), generic, length), 0);
        ASSERT_EQ(listen(listening.get(), 1), 0);
        ASSERT_EQ(getsockname(listening.get(), generic, &length), 0);
        theirs_ = socket();
        ASSERT_EQ(connect(theirs_.get(), generic, length), 0);
        ours_ = Descriptor(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        for (const Descriptor* end : {&ours_, &theirs_}) {
            const int on = 1;
            ASSERT_EQ(setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
            ASSERT_EQ(fcntl(end->get(), F_SETFL, O_NONBLOCK), 0);
        }
    }
};

std::string pattern(size_t length) {
    std::string made(length, '\0');
    for (size_t i = 0; i < length; ++i) made[i] = static_cast<char>(i * 7 + i / 251);
    return made;
}

TEST_F(TlsSession, sends_data_completely_to_a_slow_peer_that_requires_small_records) {
    begin([](SSL* ssl) { SSL_set_tlsext_max_fragment_length(ssl, TLSEXT_max_fragment_length_512); });
    ASSERT_EQ(shake_hands(), Session::Step::kDone);
    const std::string sent = pattern(1'000'000);
    std::string got;
    for (size_t done = 0; got.size() < sent.size();) {
        const ssize_t taken = write(std::string_view(sent).substr(done));
        ASSERT_TRUE(taken >= 0 || taken == -EAGAIN) << taken;
        if (taken > 0) done += static_cast<size_t>(taken);
        const std::string next = heard(3000);
        ASSERT_TRUE(!next.empty() || done == sent.size() || taken != 0);
        got += next;
        session->flush();
    }
    EXPECT_TRUE(got == sent);
}

TEST_F(TlsSession, sends_a_close_notify_that_does_not_fit_when_there_is_room) {
    begin();
    ASSERT_EQ(shake_hands(), Session::Step::kDone);
    size_t sent = 0;
    for (ssize_t taken; (taken = write(pattern(1))) == 1;) ++sent;
    ASSERT_FALSE(session->send_close_notify());
    size_t got = 0;
    for (bool gone = false; !gone || got < sent;) {
        gone = gone || session->send_close_notify();
        const std::string next = heard(1);
        ASSERT_FALSE(next.empty()) << got << " of " << sent;
        got += next.size();
    }
    EXPECT_EQ(heard(1), "");
    EXPECT_EQ(SSL_get_shutdown(peer.get()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST_F(TlsSession, reports_a_violation_of_the_protocol_by_a_peer_that_changes_its_key_all_the_time) {
    begin();
    ASSERT_EQ(shake_hands(), Session::Step::kDone);
    ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_write(peer.get(), "x", 1), 1);
    std::array<std::byte, 16> into;
    EXPECT_EQ(read(into), -EPROTO);
}

TEST_F(TlsSession, refuses_an_older_version) {
    begin([](SSL* ssl) { SSL_set_max_proto_version(ssl, TLS1_2_VERSION); });
    EXPECT_EQ(shake_hands(), Session::Step::kFailed);
    EXPECT_EQ(session->failure().code(), Code::kPermission) << session->failure().to_string();
}

TEST_F(TlsSession, sends_no_ticket_for_resumption_to_a_peer) {
    begin();
    ASSERT_EQ(shake_hands(), Session::Step::kDone);
    ASSERT_EQ(write("x"), 1);
    ASSERT_EQ(heard(1), "x");
    EXPECT_EQ(SSL_SESSION_is_resumable(SSL_get0_session(peer.get())), 0);
}

TEST_F(TlsSession, refuses_a_listener_that_sends_tickets_with_advice) {
    const auto own = authority_.issue("listener", "IP:127.0.0.1");
    const std::unique_ptr<SSL_CTX, Free> listener(SSL_CTX_new(TLS_server_method()));
    ASSERT_EQ(SSL_CTX_use_certificate_chain_file(listener.get(), own.certificate.c_str()), 1);
    ASSERT_EQ(SSL_CTX_use_PrivateKey_file(listener.get(), own.key.c_str(), SSL_FILETYPE_PEM), 1);
    auto context = *Context::create({.files = {"", "", authority_.file(), ""}, .identity = {}, .known = {}});
    session = *Session::connect(std::move(context), ours_.get(), "127.0.0.1");
    peer.reset(SSL_new(listener.get()));
    SSL_set_fd(peer.get(), theirs_.get());
    SSL_set_accept_state(peer.get());
    ASSERT_EQ(shake_hands(), Session::Step::kDone) << session->failure().to_string();
    std::array<std::byte, 1> into;
    EXPECT_EQ(read(into), -EPROTO);
    EXPECT_NE(session->failure().to_string().find("disable tickets there"), std::string::npos);
}

// --- kernel TLS

class TlsSessionOfKernel : public TlsSession {
  public:
    void begin_with_kernel(uint64_t bytes_max = kernel::kBytesPerKey,
                           const std::function<void(SSL*)>& prepare = {}) {
        if (const Status able = kernel::check(); !able) GTEST_SKIP() << able.to_string();
        kernel_sends_max_ = bytes_max;
        connect_sockets();
        begin(prepare);
        ASSERT_EQ(shake_hands(), Session::Step::kDone) << session->failure().to_string();
    }
    // After fewer records, a change of the key violates the protocol.
    bool receives_as_many_records_as_a_key_needs(std::span<std::byte> into) {
        for (int record = 0; record < 1 << 16; ++record)
            if (SSL_write(peer.get(), "x", 1) != 1 || read(into) != 1) return false;
        return true;
    }
};

#define BEGIN_WITH_KERNEL(...)                        \
    do {                                              \
        begin_with_kernel(__VA_ARGS__);               \
        if (IsSkipped() || HasFatalFailure()) return; \
    } while (false)

TEST_F(TlsSessionOfKernel, lets_the_kernel_encrypt_large_writes_of_many_segments) {
    const uint64_t before = counters().kernel_sends;
    BEGIN_WITH_KERNEL();
    EXPECT_TRUE(session->kernel_sends());
    EXPECT_EQ(counters().kernel_sends, before + 1);
    std::string sent = pattern(1'000'000);
    std::string got;
    for (size_t done = 0; got.size() < sent.size();) {
        std::vector<iovec> segments;
        for (size_t at = done; at < sent.size() && segments.size() < 64; at += 5000)
            segments.push_back({&sent[at], std::min<size_t>(5000, sent.size() - at)});
        const ssize_t taken = session->write(segments);
        ASSERT_TRUE(taken >= 0 || taken == -EAGAIN) << taken;
        if (taken > 0) done += static_cast<size_t>(taken);
        for (std::string next; !(next = heard(16384)).empty();) got += next;
    }
    EXPECT_TRUE(got == sent);
}

TEST_F(TlsSessionOfKernel, ends_the_stream_with_a_close_notify) {
    BEGIN_WITH_KERNEL();
    ASSERT_EQ(write("last"), 4);
    ASSERT_TRUE(session->send_close_notify());
    EXPECT_EQ(heard(16), "last");
    EXPECT_EQ(heard(16), "");
    EXPECT_EQ(SSL_get_shutdown(peer.get()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
}

TEST_F(TlsSessionOfKernel, lets_a_peer_change_its_key) {
    BEGIN_WITH_KERNEL();
    std::array<std::byte, 1> into;
    ASSERT_TRUE(receives_as_many_records_as_a_key_needs(into));
    ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    ASSERT_EQ(SSL_write(peer.get(), "y", 1), 1);
    EXPECT_EQ(read(into), 1);
    EXPECT_EQ(into[0], std::byte{'y'});
}

TEST_F(TlsSessionOfKernel, reports_a_violation_of_the_protocol_by_a_peer_that_requests_a_new_key) {
    BEGIN_WITH_KERNEL();
    std::array<std::byte, 1> into;
    ASSERT_TRUE(receives_as_many_records_as_a_key_needs(into));
    ASSERT_EQ(SSL_key_update(peer.get(), SSL_KEY_UPDATE_REQUESTED), 1);
    ASSERT_EQ(SSL_write(peer.get(), "y", 1), 1);
    EXPECT_EQ(read(into), -EPROTO);
    EXPECT_EQ(heard(1), "") << "the kernel sent a message of the handshake as data or as an alert";
    EXPECT_EQ(SSL_get_shutdown(peer.get()), 0);
}

TEST_F(TlsSessionOfKernel, does_not_reuse_a_key_that_has_protected_all_that_it_may) {
    constexpr uint64_t kMax = 100'000;
    BEGIN_WITH_KERNEL(kMax);
    uint64_t sent = 0;
    ssize_t taken;
    while ((taken = write(pattern(1000))) == 1000) {
        sent += 1000;
        ASSERT_EQ(heard(1000).size(), 1000u);
    }
    EXPECT_EQ(taken, -EKEYEXPIRED);
    EXPECT_LE(sent, kMax);
    EXPECT_GT(sent, kMax / 2);
}

TEST_F(TlsSessionOfKernel, lets_libssl_encrypt_with_a_cipher_that_was_not_checked) {
    BEGIN_WITH_KERNEL(kernel::kBytesPerKey,
                      [](SSL* ssl) { SSL_set_ciphersuites(ssl, "TLS_CHACHA20_POLY1305_SHA256"); });
    EXPECT_FALSE(session->kernel_sends());
    ASSERT_EQ(write("x"), 1);
    EXPECT_EQ(heard(1), "x");
}

TEST_F(TlsSessionOfKernel, lets_libssl_encrypt_for_a_peer_that_requires_small_records) {
    BEGIN_WITH_KERNEL(kernel::kBytesPerKey, [](SSL* ssl) {
        SSL_set_tlsext_max_fragment_length(ssl, TLSEXT_max_fragment_length_512);
    });
    EXPECT_FALSE(session->kernel_sends());
    ASSERT_EQ(write("x"), 1);
    EXPECT_EQ(heard(1), "x");
}

// --- pre-shared keys

constexpr const char* kName = "host1";
const Secret kSecret("0123456789abcdef-of-host1");

// Offers the right key and early data.
int offer(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* length, SSL_SESSION** out) {
    const uint8_t suite[] = {0x13, 0x01};
    const Secret key = derive_psk(kName, kSecret);
    *out = SSL_SESSION_new();
    SSL_SESSION_set1_master_key(*out, reinterpret_cast<const unsigned char*>(key.bytes().data()),
                                key.bytes().size());
    SSL_SESSION_set_cipher(*out, SSL_CIPHER_find(ssl, suite));
    SSL_SESSION_set_protocol_version(*out, TLS1_3_VERSION);
    SSL_SESSION_set_max_early_data(*out, 16384);
    static const std::string identity = psk_identity(kName, kSecret);
    *id = reinterpret_cast<const unsigned char*>(identity.data());
    *length = identity.size();
    return 1;
}

class TlsSessionOfKey : public TlsSession {
  public:
    void begin_with_key() {
        begin(context_, [](SSL* ssl) { SSL_set_psk_use_session_callback(ssl, offer); });
    }

  private:
    const std::vector<NamedSecret> secrets_{{.name = kName, .secret = kSecret}};
    const std::shared_ptr<const Context> context_ =
        *Context::create({.files = {},
                          .identity = {},
                          .known = std::make_shared<KnownPeers>(secrets_),
                          .kernel_sends_max = kernel_sends_max_});
};

TEST_F(TlsSessionOfKey, accepts_no_early_data) {
    begin_with_key();
    size_t written = 0;
    ASSERT_EQ(SSL_write_early_data(peer.get(), "early", 5, &written), 1);
    ASSERT_EQ(shake_hands(), Session::Step::kDone) << session->failure().to_string();
    EXPECT_EQ(SSL_get_early_data_status(peer.get()), SSL_EARLY_DATA_REJECTED);
    ASSERT_EQ(SSL_write(peer.get(), "late", 4), 4);
    std::array<std::byte, 16> into;
    ASSERT_EQ(read(into), 4);
    EXPECT_EQ(std::memcmp(into.data(), "late", 4), 0);
}

TEST_F(TlsSessionOfKey, proves_the_name_of_a_peer_only_by_the_whole_handshake) {
    begin_with_key();
    SSL_do_handshake(peer.get());
    ASSERT_EQ(session->shake_hands(), Session::Step::kWait);
    EXPECT_EQ(session->proven_name(), "") << "the name is claimed, and anybody can claim it";
    ASSERT_EQ(shake_hands(), Session::Step::kDone) << session->failure().to_string();
    EXPECT_EQ(session->proven_name(), kName);
}

TEST_F(TlsSessionOfKey, does_not_report_a_peer_that_leaves_during_the_handshake_as_a_bad_certificate) {
    begin_with_key();
    SSL_do_handshake(peer.get());
    ASSERT_EQ(session->shake_hands(), Session::Step::kWait);
    theirs_.reset();
    ASSERT_EQ(session->shake_hands(), Session::Step::kFailed);
    EXPECT_EQ(session->failure().text().find("certificate"), std::string::npos)
        << session->failure().to_string();
}

TEST_F(TlsSessionOfKey, with_a_damaged_handshake_fails_or_waits) {
    Random random(1);
    for (int round = 0; round < 1000; ++round) {
        connect_sockets();
        begin_with_key();
        BIO* flight = BIO_new(BIO_s_mem());
        SSL_set0_wbio(peer.get(), flight);
        SSL_do_handshake(peer.get());
        char* bytes = nullptr;
        const long length = BIO_get_mem_data(flight, &bytes);
        ASSERT_GT(length, 100);
        for (uint64_t hits = 1 + random.below(4); hits > 0; --hits)
            bytes[random.below(static_cast<uint64_t>(length))] ^= static_cast<char>(1 + random.below(255));
        const auto sent = static_cast<size_t>(length) - (random.chance(4) ? random.below(100) : 0);
        ASSERT_EQ(send(theirs_.get(), bytes, sent, MSG_NOSIGNAL), static_cast<ssize_t>(sent));
        const Session::Step step = session->shake_hands();
        ASSERT_NE(step, Session::Step::kDone);
        ASSERT_EQ(step == Session::Step::kFailed, !session->failure());
    }
}

}  // namespace
}  // namespace wss::fabric::tls
