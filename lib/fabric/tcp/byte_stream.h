// SPDX-License-Identifier: Apache-2.0
// ByteStream: a socket, and the TLS session over it if there is one. It moves bytes; TcpConnection knows what
// they mean.
//
// Thread-safety: none; may pass from thread to thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>

#include "lib/base/file.h"
#include "lib/fabric/stream/frame.h"
#include "lib/fabric/tls/session.h"

namespace wss::fabric::tcp {

class ByteStream {
  public:
    ByteStream() = default;
    explicit ByteStream(Descriptor socket, std::unique_ptr<tls::Session> session = nullptr)
        : socket_(std::move(socket)), session_(std::move(session)) {}

    int socket() const { return socket_.get(); }
    explicit operator bool() const { return static_cast<bool>(socket_); }
    tls::Session* session() const { return session_.get(); }
    void set_session(std::unique_ptr<tls::Session> session) { session_ = std::move(session); }

    // As stream::Engine's.
    ssize_t read(std::span<const iovec> into) noexcept;
    ssize_t write(std::span<const iovec> from) noexcept;
    // On a fresh connection, which always has room for it; false when the peer is gone.
    bool say(const stream::Hello& hello) noexcept;
    // At once; what the peer has not read may be lost.
    void hang_up() noexcept;
    // As hang_up(), but without a goodbye.
    void abandon() noexcept;
    Descriptor take_socket() { return std::move(socket_); }
    std::unique_ptr<tls::Session> take_session() { return std::move(session_); }

  private:
    // The session goes first: it uses the socket.
    Descriptor socket_;
    std::unique_ptr<tls::Session> session_;
};

// Bytes; 0 at the end; negative errno.
ssize_t receive(int socket, std::span<const iovec> into) noexcept;
// The first byte of a handshake or of an alert, and of no hello.
bool begins_tls(std::byte first) noexcept;
// To a peer that came with TLS where there is none, or without it: an alert in clear text, which both take
// for what it is.
void send_wrong_protocol(int socket) noexcept;

}  // namespace wss::fabric::tcp
