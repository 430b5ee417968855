// SPDX-License-Identifier: Apache-2.0
// Tests for addresses and names that only programs on this machine can reach.
//
// Thread-safety: pure functions.
#pragma once

#include <sys/socket.h>

#include <string>

namespace wss::http {

// True also for IPv4-mapped IPv6 addresses (::ffff:127.0.0.1).
bool is_loopback(const sockaddr_storage& address);
// `host`: as in the Host: header, that is, NAME or NUMBER, optionally with :PORT. IPv6 addresses are in
// brackets.
bool names_this_machine(const std::string& host);

}  // namespace wss::http
