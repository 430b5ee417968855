// SPDX-License-Identifier: Apache-2.0
// Session: TLS over one connected socket, which does not block. It is between the socket and the engine of
// the stream fabrics, and fails like a socket: what the peer sends wrong is an error of read().
//
// Invariants
//  TS1  Nothing of the user's leaves before the handshake is complete and the peer is who it must be.
//  TS2  A record that is sealed leaves as it is: write() counts it as written, and until the socket has taken
//       it nothing else is written. Memory is bounded: a buffer for what is read, and one record.
//  TS3  The end of the stream is the peer's close_notify. Without it the connection is lost (ECONNRESET).
//  TS4  After the handshake the peer may send data, close_notify, and now and then a new key; else EPROTO.
//
// Thread-safety: none; may pass from thread to thread.
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
    // The certificate of the other end must be of `host`, a name or a number.
    static Result<std::unique_ptr<Session>> connect(std::shared_ptr<const Context> context, int socket,
                                                    const std::string& host);
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    enum class Step : uint8_t { kWait, kDone, kFailed };
    // Goes on with the handshake. kWait: when the socket reports something new; kFailed: failure() says why.
    Step shake_hands() noexcept;
    // Why the handshake failed, or what the peer sent in place of data.
    const Status& failure() const { return failure_; }
    // The name of the key that the connecting end offers; nothing is proven yet.
    void set_claimed_name(std::string_view name) { claimed_name_ = name; }
    // Of the handshake, from the peer, complete: libssl takes a few and no more.
    uint32_t messages() const { return messages_; }
    // What came instead of a handshake is no TLS.
    bool peer_is_plain() const { return peer_is_plain_; }

    // As stream::Engine's. read() reads until nothing is left or all is full.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    // read() has met the end, although the last one returned data.
    bool ended() const { return read_error_ != 0 || at_end_; }
    // Sends a sealed record that waits; false: the socket has no room.
    bool flush() noexcept;
    // Says goodbye; false: the socket has no room for it, or for what was written before.
    bool say_goodbye() noexcept;

    std::span<const std::byte> binding() const { return binding_; }

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

    const std::shared_ptr<const Context> context_;
    ssl_st* const ssl_;
    const int socket_;
    Status failure_;
    std::string claimed_name_;
    std::array<std::byte, 32> binding_storage_{};
    std::span<const std::byte> binding_;
    uint32_t messages_ = 0;
    bool established_ = false;
    bool peer_is_plain_ = false;
    size_t sealed_ = 0;  // bytes of the user's in record_ that libssl has taken and the socket has not
    uint64_t records_sent_ = 0;  // under the key in use
    uint64_t records_read_ = 0;
    uint64_t read_at_new_key_ = 0;
    bool misbehaved_ = false;
    bool at_end_ = false;
    int read_error_ = 0;
    std::unique_ptr<std::array<std::byte, 16384>>
        record_;  // what write() puts together; as it is while sealed_
};

}  // namespace wss::fabric::tls
