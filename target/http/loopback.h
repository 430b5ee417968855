// SPDX-License-Identifier: Apache-2.0
// Which addresses and names only programs of this machine reach.
//
// Thread-safety: functions.
#pragma once

#include <sys/socket.h>

#include <string>

namespace wss::http {

// Also an IPv4 address that is written as an IPv6 one (::ffff:127.0.0.1).
bool is_loopback(const sockaddr_storage& address);
// `host`: as in the header of a request: NAME or NUMBER, perhaps with :PORT. IPv6 in brackets.
bool names_this_machine(const std::string& host);

}  // namespace wss::http
