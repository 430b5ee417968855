// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tls/session.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/fabric/tls/kernel.h"

namespace wss::fabric::tls {

constexpr std::string_view kBindingLabel = "EXPORTER-Channel-Binding";  // RFC 9266
// RFC 8446, 5.5: AES-GCM allows 2^24.5 full-size records under one key.
constexpr uint64_t kRecordsPerKey = 1 << 23;
// A peer that changes its key more often violates TS4: it would keep this process busy.
constexpr uint64_t kRecordsPerKeyMin = 1 << 16;
// libssl's internal command that passes the key of one direction to the kernel. The number is 0 for the key
// of received data.
constexpr int kSetKernelKey = 72;

// --- the socket: as libssl's, but without SIGPIPE when the peer is gone ---

static int write_quietly(BIO* bio, const char* bytes, int length) {
    int socket = -1;
    BIO_get_fd(bio, &socket);
    ssize_t sent;
    if (BIO_get_ktls_send(bio)) {
        sent = kernel::send_alert(socket, bytes, static_cast<size_t>(length));
        if (sent < 0) errno = static_cast<int>(-std::exchange(sent, -1));
    } else {
        sent = send(socket, bytes, static_cast<size_t>(length), MSG_NOSIGNAL);
    }
    BIO_clear_retry_flags(bio);
    if (sent <= 0 && BIO_sock_should_retry(static_cast<int>(sent))) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
}

static long control(BIO* bio, int command, long number, void* argument) {
    if (command == kSetKernelKey && (number == 0 || !kernel::has_checked_cipher(argument))) return 0;
    return BIO_meth_get_ctrl(BIO_s_socket())(bio, command, number, argument);
}

static BIO_METHOD* quiet_socket() {
    static BIO_METHOD* const method = [] {
        const BIO_METHOD* socket = BIO_s_socket();
        BIO_METHOD* made = BIO_meth_new(BIO_TYPE_SOCKET, "socket without signals");
        WSS_ASSERT(made != nullptr, "there is memory at the start");
        BIO_meth_set_write(made, write_quietly);
        BIO_meth_set_read(made, BIO_meth_get_read(socket));
        BIO_meth_set_ctrl(made, control);
        BIO_meth_set_create(made, BIO_meth_get_create(socket));
        BIO_meth_set_destroy(made, BIO_meth_get_destroy(socket));
        return made;
    }();
    return method;
}

// --- beginning ---

Session::Session(std::shared_ptr<const Context> context, SSL* ssl, int socket)
    : context_(std::move(context)), ssl_(ssl), socket_(socket) {
    SSL_set_app_data(ssl_, this);
    SSL_set_msg_callback(ssl_, &Session::message_seen);
    SSL_set_msg_callback_arg(ssl_, this);
}

Session::~Session() {
    SSL_free(ssl_);
}

static Result<SSL*> ssl_on(const Context& context, Context::End end, int socket) {
    ERR_clear_error();
    SSL* ssl = context.begin(end);
    BIO* bio = ssl == nullptr ? nullptr : BIO_new(quiet_socket());
    if (bio == nullptr) {
        SSL_free(ssl);
        return failure(Code::kExhausted, "cannot begin TLS: {}", last_error());
    }
    BIO_set_fd(bio, socket, BIO_NOCLOSE);
    SSL_set_bio(ssl, bio, bio);
    if (context.kernel_sends_max() > 0 && kernel::attach(socket)) SSL_set_options(ssl, SSL_OP_ENABLE_KTLS);
    return ssl;
}

Result<std::unique_ptr<Session>> Session::accept(std::shared_ptr<const Context> context, int socket) {
    auto ssl = ssl_on(*context, Context::End::kListening, socket);
    if (!ssl) return ssl.status();
    SSL_set_accept_state(*ssl);
    return std::unique_ptr<Session>(new Session(std::move(context), *ssl, socket));
}

Result<std::unique_ptr<Session>> Session::connect(std::shared_ptr<const Context> context, int socket,
                                                  const std::string& host) {
    auto ssl = ssl_on(*context, Context::End::kConnecting, socket);
    if (!ssl) return ssl.status();
    SSL_set_connect_state(*ssl);
    std::unique_ptr<Session> session(new Session(std::move(context), *ssl, socket));
    if (Status set = session->set_host(host); !set) return set;
    return session;
}

Status Session::set_host(const std::string& host) {
    in6_addr number;
    const bool numeric =
        inet_pton(AF_INET, host.c_str(), &number) == 1 || inet_pton(AF_INET6, host.c_str(), &number) == 1;
    X509_VERIFY_PARAM* rules = SSL_get0_param(ssl_);
    // Only the alternative names are checked. The common name is for people (RFC 9525).
    X509_VERIFY_PARAM_set_hostflags(
        rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    const bool set =
        numeric ? X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1
                : SSL_set1_host(ssl_, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl_, host.c_str()) == 1;
    return set ? Status::ok() : wss::failure(Code::kInvalid, "{}: a certificate cannot name this host", host);
}

// --- the handshake ---

static std::string_view advice(long verified) {
    switch (verified) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            return "; it must be replaced, or the clock of this machine is wrong";
        case X509_V_ERR_CERT_NOT_YET_VALID:
            return "; the clock of this machine is wrong, or that of its authority";
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "; its alternative names must include the address exactly as it is written here";
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
            return "; give the authority that signed it: with --tls-ca to clients, with --tls-client-ca to "
                   "listeners";
        default:
            return "";
    }
}

Status Session::explain_certificate() const {
    const long verified = SSL_get_verify_result(ssl_);
    return wss::failure(Code::kPermission, "its certificate is refused: {}{}",
                        X509_verify_cert_error_string(verified), advice(verified));
}

Status Session::explain_reason(int reason) const {
    const bool connecting = SSL_is_server(ssl_) == 0;
    const std::string& own = context_->credentials().identity ? context_->credentials().identity->name : "";
    if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
        return wss::failure(Code::kPermission, "the TLS handshake failed: unknown name '{}' or wrong secret",
                            claimed_name_);
    if (connecting && !own.empty() &&
        (reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER || reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE))
        return wss::failure(Code::kPermission,
                            "the TLS handshake failed: the peer rejected '{}': unknown name or wrong secret",
                            own);
    return wss::failure(Code::kPermission, "the TLS handshake failed: {}", last_error());
}

Status Session::explain(int error) const {
    const int saved = errno;
    const unsigned long last = ERR_peek_last_error();
    const int reason = ERR_GET_REASON(last);
    if (last == 0 && error == SSL_ERROR_SYSCALL && saved != 0)
        return Status::from_errno(saved, "the TLS handshake failed");
    if (last == 0 || error == SSL_ERROR_ZERO_RETURN || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
        return wss::failure(Code::kUnavailable, "closed the connection during the TLS handshake");
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED) return explain_certificate();
    if (reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
        return wss::failure(Code::kRefused, "does not use TLS 1.3; without TLS, connect with tcp://");
    if (peer_is_plain_)
        return wss::failure(Code::kInvalid,
                            "does not use TLS, but this address requires it: connect with tls://");
    return explain_reason(reason);
}

Session::Step Session::shake_hands() noexcept {
    if (established_) return Step::kDone;
    ERR_clear_error();
    errno = 0;
    const int result = SSL_do_handshake(ssl_);
    if (result == 1) {
        established();
        return failure_ ? Step::kDone : Step::kFailed;
    }
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return Step::kWait;
    const int reason = ERR_GET_REASON(ERR_peek_last_error());
    peer_is_plain_ = reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
    failure_ = explain(error);
    ERR_clear_error();
    counters().handshakes_failed.fetch_add(1, std::memory_order_relaxed);
    return Step::kFailed;
}

void Session::established() noexcept {
    auto* out = reinterpret_cast<unsigned char*>(binding_storage_.data());
    if (SSL_version(ssl_) != TLS1_3_VERSION ||
        SSL_export_keying_material(ssl_, out, binding_storage_.size(), kBindingLabel.data(),
                                   kBindingLabel.size(), nullptr, 0, 1) != 1) {
        failure_ = wss::failure(Code::kUnsupported, "libssl exports no keying material: {}", last_error());
        return;
    }
    binding_ = binding_storage_;
    // There are no tickets and no cache of sessions: the only session to resume is that of a pre-shared key.
    // Without this test, a peer with a certificate could offer a name that libssl then ignored.
    has_proven_name_ = SSL_is_server(ssl_) == 1 && SSL_session_reused(ssl_) == 1;
    established_ = true;
    records_read_ = 0;
    kernel_sends_ = BIO_get_ktls_send(SSL_get_wbio(ssl_));
    counters().handshakes.fetch_add(1, std::memory_order_relaxed);
    if (kernel_sends_) counters().kernel_sends.fetch_add(1, std::memory_order_relaxed);
}

void Session::message_seen(int outgoing, int, int type, const void* bytes, size_t length, SSL*,
                           void* argument) {
    auto& self = *static_cast<Session*>(argument);
    if (type == SSL3_RT_HEADER) ++(outgoing != 0 ? self.records_sent_ : self.records_read_);
    if (outgoing != 0) return;
    if (type != SSL3_RT_HANDSHAKE) return;
    if (!self.established_) {
        ++self.messages_;
        return;
    }
    const auto* message = static_cast<const uint8_t*>(bytes);
    const bool new_key = length > 0 && message[0] == SSL3_MT_KEY_UPDATE;
    if (length > 0 && message[0] == SSL3_MT_NEWSESSION_TICKET)
        self.failure_ = wss::failure(
            Code::kUnsupported, "sent a TLS session ticket, which WSS does not use: disable tickets there");
    if (!new_key || self.records_read_ - self.read_at_new_key_ < kRecordsPerKeyMin) self.misbehaved_ = true;
    // libssl would respond with a new key of its own, which the kernel cannot take.
    if (new_key && self.kernel_sends_ && message[length - 1] == SSL_KEY_UPDATE_REQUESTED)
        self.misbehaved_ = true;
    self.read_at_new_key_ = self.records_read_;
}

// --- reading ---

// Returns the number of bytes, 0 at the end or a negative errno.
ssize_t Session::read_some(std::byte* to, size_t length) noexcept {
    for (;;) {
        const uint64_t before = records_read_;
        ERR_clear_error();
        errno = 0;
        const int got = SSL_read(ssl_, to, static_cast<int>(std::min<size_t>(length, INT32_MAX)));
        if (misbehaved_) return -EPROTO;
        if (got > 0) return got;
        const int saved = errno;
        switch (SSL_get_error(ssl_, got)) {
            case SSL_ERROR_WANT_READ:
            case SSL_ERROR_WANT_WRITE:
                if (records_read_ != before) continue;  // not user data; there may be some after it
                return -EAGAIN;
            case SSL_ERROR_ZERO_RETURN:
                return 0;
            case SSL_ERROR_SYSCALL:
                ERR_clear_error();
                return saved == 0 ? -ECONNRESET : -saved;
            default:
                break;
        }
        const bool cut = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
        if (!cut) {
            failure_ = wss::failure(Code::kPermission, "TLS failed: {}", last_error());
            return -EPROTO;
        }
        ERR_clear_error();
        counters().truncated.fetch_add(1, std::memory_order_relaxed);
        return -ECONNRESET;
    }
}

ssize_t Session::read(std::span<const iovec> into) noexcept {
    size_t total = 0;
    for (const iovec& segment : into) {
        auto* to = static_cast<std::byte*>(segment.iov_base);
        for (size_t done = 0; done < segment.iov_len;) {
            if (!ended()) {
                const ssize_t got = read_some(to + done, segment.iov_len - done);
                if (got > 0) {
                    done += static_cast<size_t>(got);
                    total += static_cast<size_t>(got);
                    continue;
                }
                if (got == -EAGAIN) return total > 0 ? static_cast<ssize_t>(total) : -EAGAIN;
                at_end_ = got == 0;
                read_error_ = static_cast<int>(-got);
            }
            return total > 0 ? static_cast<ssize_t>(total) : -read_error_;
        }
    }
    return static_cast<ssize_t>(total);
}

// --- writing ---

// Returns the bytes accepted, 0 when a sealed record waits for room, or a negative errno.
int Session::seal(const std::byte* from, size_t length) noexcept {
    ERR_clear_error();
    errno = 0;
    const int written = SSL_write(ssl_, from, static_cast<int>(length));
    const int saved = errno;
    if (written > 0) return written;
    const int error = SSL_get_error(ssl_, written);
    ERR_clear_error();
    if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return 0;
    return error == SSL_ERROR_SYSCALL && saved != 0 ? -saved : -EPROTO;
}

bool Session::flush() noexcept {
    if (sealed_ == 0) return true;
    // If libssl has not sealed all of the buffer (a peer may limit record sizes), this call seals the rest.
    const int written = seal(record_->data(), sealed_);
    if (written == 0) return false;
    sealed_ = 0;
    if (written < 0 && read_error_ == 0) read_error_ = -written;
    return true;
}

ssize_t Session::send_by_kernel(std::span<const iovec> from) noexcept {
    if (kernel_cost_ >= context_->kernel_sends_max()) return -EKEYEXPIRED;
    const ssize_t sent = kernel::send(socket_, from);
    if (sent > 0) kernel_cost_ += kernel::cost(static_cast<uint64_t>(sent), from.size());
    return sent;
}

ssize_t Session::write(std::span<const iovec> from) noexcept {
    if (kernel_sends_) return send_by_kernel(from);
    if (!record_) record_ = std::make_unique<std::array<std::byte, 16384>>();
    if (!flush()) return -EAGAIN;
    size_t total = 0;
    for (size_t i = 0, offset = 0; i < from.size();) {
        size_t filled = 0;
        while (i < from.size() && filled < record_->size()) {
            const size_t take = std::min(from[i].iov_len - offset, record_->size() - filled);
            std::memcpy(record_->data() + filled, static_cast<const std::byte*>(from[i].iov_base) + offset,
                        take);
            filled += take;
            offset += take;
            if (offset == from[i].iov_len) ++i, offset = 0;
        }
        if (filled == 0) break;
        if (records_sent_ >= kRecordsPerKey) {
            records_sent_ = 0;
            SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
        }
        const int written = seal(record_->data(), filled);
        if (written < 0) return total > 0 ? static_cast<ssize_t>(total) : written;
        total += filled;
        if (written > 0) continue;
        sealed_ = filled;
        break;
    }
    return static_cast<ssize_t>(total);
}

bool Session::send_close_notify() noexcept {
    if (!established_) return true;
    if (!flush()) return false;
    ERR_clear_error();
    const int result = SSL_shutdown(ssl_);
    const bool full = result < 0 && SSL_get_error(ssl_, result) == SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
    return !full;
}

}  // namespace wss::fabric::tls
