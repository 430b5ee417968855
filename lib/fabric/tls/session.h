// SPDX-License-Identifier: Apache-2.0
// Session: TLS over one connected non-blocking socket. It sits between the socket and the stream engine
// and fails like a socket: a protocol fault of the peer is an error of read().
//
// Invariants
//  TS1  No user data is sent before the handshake is complete and the peer's identity is verified.
//  TS2  A sealed record is sent unchanged: write() counts it as written, and nothing else is written until
//       the socket has accepted it. Memory is bounded: a read buffer and one record. If the kernel encrypts,
//       it holds the sealed records, which take at most the send buffer of the socket plus one record.
//  TS3  The end of the stream is the peer's close_notify. Without it the connection is lost (ECONNRESET).
//  TS4  After the handshake the peer may send data, close_notify and, not too often, a new key. Anything else
//       is EPROTO.
//  TS5  The peer cannot distinguish whether libssl or the kernel encrypts, with two exceptions, because the
//       kernel cannot change the key of a connection: a request for a new key is EPROTO, and write() fails
//       with EKEYEXPIRED when the key has protected Credentials::kernel_sends_max bytes.
//
// Thread-safety: none. An object may pass from thread to thread.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/fabric/tls/context.h"

namespace wss::fabric::tls {

class Session {
  public:
    static Result<std::unique_ptr<Session>> accept(std::shared_ptr<const Context> context, int socket);
    // The certificate of the other end must be for `host`, a name or a numeric address.
    static Result<std::unique_ptr<Session>> connect(std::shared_ptr<const Context> context, int socket,
                                                    const std::string& host);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    enum class Step : uint8_t { kWait, kDone, kFailed };
    // Continues the handshake. kWait: call again at the next event of the socket. kFailed: see failure().
    Step shake_hands() noexcept;
    // Reason why the handshake failed, or the protocol fault that ended reading.
    const Status& failure() const { return failure_; }
    // The name that the connecting end offers with its pre-shared key. It is not yet proven.
    void set_claimed_name(std::string_view name) { claimed_name_ = name; }
    // On the listening end: the claimed name, if the handshake is complete and the peer has proven that it
    // has the key. Otherwise empty, for example if the peer was admitted by its certificate.
    std::string_view proven_name() const { return has_proven_name_ ? claimed_name_ : std::string_view(); }
    // Number of complete handshake messages received from the peer. libssl limits this number.
    uint32_t messages() const { return messages_; }
    // True if the peer does not use TLS.
    bool peer_is_plain() const { return peer_is_plain_; }

    // As read() and write() of stream::Engine. read() reads until the socket is empty or `into` is full.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    // True if read() has reached the end or an error, even if it returned data.
    bool ended() const { return read_error_ != 0 || at_end_; }
    // Sends a waiting sealed record. Returns false if the socket has no room.
    bool flush() noexcept;
    // Sends close_notify. Returns false if the socket has no room for it or for earlier data.
    bool send_close_notify() noexcept;

    std::span<const std::byte> binding() const { return binding_; }
    // The kernel encrypts what is sent. It may still have to send records that write() counted.
    bool kernel_sends() const { return kernel_sends_; }

  private:
    Session(std::shared_ptr<const Context> context, ssl_st* ssl, int socket);
    static void message_seen(int outgoing, int version, int type, const void* bytes, size_t length,
                             ssl_st* ssl, void* self);
    Status set_host(const std::string& host);
    void established() noexcept;
    Status explain(int error) const;
    Status explain_certificate() const;
    Status explain_reason(int reason) const;
    ssize_t read_some(std::byte* to, size_t length) noexcept;
    int seal(const std::byte* from, size_t length) noexcept;
    ssize_t send_by_kernel(std::span<const iovec> from) noexcept;

    const std::shared_ptr<const Context> context_;
    ssl_st* const ssl_;
    const int socket_;
    Status failure_;
    std::string claimed_name_;
    std::array<std::byte, 32> binding_storage_{};
    std::span<const std::byte> binding_;
    uint32_t messages_ = 0;
    bool established_ = false;
    bool has_proven_name_ = false;
    bool peer_is_plain_ = false;
    bool kernel_sends_ = false;
    uint64_t kernel_cost_ = 0;  // bytes that the kernel's key has protected
    size_t sealed_ = 0;  // bytes of user data in record_ that libssl has accepted and the socket has not
    uint64_t records_sent_ = 0;  // under the current key
    uint64_t records_read_ = 0;
    uint64_t read_at_new_key_ = 0;
    bool misbehaved_ = false;
    bool at_end_ = false;
    int read_error_ = 0;
    std::unique_ptr<std::array<std::byte, 16384>>
        record_;  // plaintext that write() collects; unchanged while sealed_
};

}  // namespace wss::fabric::tls
