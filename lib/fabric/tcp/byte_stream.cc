// SPDX-License-Identifier: Apache-2.0
#include "lib/fabric/tcp/byte_stream.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace wss::fabric::tcp {

ssize_t receive(int socket, std::span<const iovec> into) noexcept {
    ssize_t got = into.size() == 1 ? recv(socket, into[0].iov_base, into[0].iov_len, 0)
                                   : readv(socket, into.data(), static_cast<int>(into.size()));
    return got < 0 ? -errno : got;
}

bool begins_tls(std::byte first) noexcept {
    constexpr std::byte kAlert{21}, kHandshake{22};
    return first == kAlert || first == kHandshake;
}

void send_wrong_protocol(int socket) noexcept {
    constexpr std::array<uint8_t, 7> kProtocolVersion{21, 3, 3, 0, 2, 2, 70};  // fatal
    std::array<std::byte, 4096> rest;  // closing a socket with unread data would discard the alert
    (void)recv(socket, rest.data(), rest.size(), MSG_DONTWAIT);
    (void)send(socket, kProtocolVersion.data(), kProtocolVersion.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t ByteStream::read(std::span<const iovec> into) noexcept {
    return session_ ? session_->read(into) : receive(socket_.get(), into);
}

ssize_t ByteStream::write(std::span<const iovec> from) noexcept {
    if (session_) return session_->write(from);
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(from.data());  // sendmsg does not change it
    message.msg_iovlen = from.size();
    ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

bool ByteStream::send_hello(const stream::Hello& hello) noexcept {
    std::array<std::byte, stream::kHelloBytes> bytes;
    stream::encode(hello, bytes);
    const iovec all{bytes.data(), bytes.size()};
    return write({&all, 1}) == static_cast<ssize_t>(bytes.size());
}

void ByteStream::hang_up() noexcept {
    if (session_) session_->send_close_notify();
    abandon();
}

void ByteStream::abandon() noexcept {
    session_.reset();
    socket_.reset();
}

}  // namespace wss::fabric::tcp
