// SPDX-License-Identifier: Apache-2.0
// The HTTP connection of one client: handles requests until the client or the server ends it. cpp-httplib
// parses requests that pass check_head(), and formats answers. Methods, sizes and times are limited here,
// because the library limits only single reads.
//
// Thread-safety: converse() runs in a thread of its own for each connection.
#pragma once

#include <string>

#include "lib/base/clock.h"
#include "target/http/head.h"
#include "target/http/site.h"

namespace wss::http {

constexpr size_t kBodyMax = 1 << 20;  // body of a change

struct Terms {
    bool may_change = false;
    bool only_health = false;              // true if the normal client limit is reached
    bool only_local = false;               // if true, the Host: header (HTTP/1.1: required) must name this
                                           // machine
    Nanoseconds idle_max{};                // maximum time between requests, after which the connection is
                                           // closed
    Nanoseconds request_max = from_s(10);  // from the first byte of a request to its last
    Nanoseconds answer_max = from_s(30);   // a client that receives its answer more slowly is dropped
};

// Serves `fd`, which the caller closes. Returns soon after `stop` has become readable.
void converse(int fd, int stop, const Site& site, const Terms& terms);

// Sends one answer with "Connection: close". The caller closes the connection.
void refuse(int fd, const Status& status);

}  // namespace wss::http
