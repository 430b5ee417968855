// SPDX-License-Identifier: Apache-2.0
// Targets as operators name them, how to log in to one, and why that fails.
#pragma once

#include <string>

#include "lib/fabric/address.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/initiator/options.h"

namespace CLI {
class App;
}

namespace wss::wssctl {

// HOST and HOST:PORT are of rdma://.
Result<fabric::Address> parse_host(const std::string& text);

// What this machine shows to targets, and knows them by.
struct Credentials {
    std::string secret_file;  // "": none
    fabric::tls::Files tls;
};
// --secret-file, --tls-ca, --tls-cert, --tls-key.
void describe(CLI::App& command, Credentials& credentials);
// Of a client whose steps take `timeout` at most, each. Fails if the secret cannot be read.
Result<initiator::Options> options_with(const Credentials& credentials, Nanoseconds timeout);

// Whether a target is there, but did not let this machine in.
bool is_login_failure(const Status& status);

}  // namespace wss::wssctl
