// SPDX-License-Identifier: Apache-2.0
// Kernel TLS: after a handshake, the kernel encrypts what a session sends. libssl passes its key to the
// kernel (SSL_OP_ENABLE_KTLS), on sockets that attach() has prepared.
//
// The kernel does not receive: libssl 3.0 has no such support for TLS 1.3, and kernels before 6.14 cannot
// follow a peer that changes its key. For the same reason a connection has one key for all that the kernel
// sends, and ends before that key is used up.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "lib/base/status.h"

namespace wss::fabric::tls::kernel {

// RFC 8446, 5.5: AES-GCM allows 2^24.5 records of 2^14 bytes under one key, which is 2^38.5 bytes.
constexpr uint64_t kBytesPerKey = uint64_t{1} << 38;

// OK if the kernel encrypts for this process. The first call after a boot may take seconds, because the
// kernel loads modules. A handshake would exceed its time limit meanwhile, so call this before the first one.
Status check();

// Prepares a connected socket. Returns false if the kernel cannot encrypt on it.
bool attach(int socket) noexcept;
// True if `key`, which libssl passes to the kernel, is for the cipher that check() has tried. Another one
// could make the kernel load a module in a handshake.
bool has_checked_cipher(const void* key) noexcept;

// As sendmsg(), without SIGPIPE. Returns the bytes accepted or a negative errno. send_alert() sends one
// record. An alert has 2 bytes; the kernel cannot send other messages of libssl, which announce a new key.
ssize_t send(int socket, std::span<const iovec> from) noexcept;
ssize_t send_alert(int socket, const void* alert, size_t length) noexcept;
// Upper bound of the bytes that AES-GCM has processed for one send() of `segments`.
uint64_t cost(uint64_t sent, size_t segments) noexcept;

}  // namespace wss::fabric::tls::kernel
