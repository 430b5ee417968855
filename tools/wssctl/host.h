// SPDX-License-Identifier: Apache-2.0
// Parses targets on the command line, and holds the credentials for a login.
#pragma once

#include <string>

#include "lib/fabric/address.h"
#include "lib/fabric/tls/credentials.h"
#include "lib/initiator/options.h"

namespace CLI {
class App;
}

namespace wss::wssctl {

// HOST and HOST:PORT mean rdma://.
Result<fabric::Address> parse_host(const std::string& text);

// The credentials of this machine, and the authorities that certify targets.
struct Credentials {
    std::string secret_file;  // "": none
    std::string target_name;  // name that the target must prove; "": any
    fabric::tls::Files tls;
};
// Adds --secret-file, --target-name, --tls-ca, --tls-cert and --tls-key.
void describe(CLI::App& command, Credentials& credentials);
// Options of a client. Each of its steps takes at most `timeout`. Fails if the secret cannot be read.
Result<initiator::Options> options_with(const Credentials& credentials, Nanoseconds timeout);

// Whether a target was reached but refused the login.
bool is_login_failure(const Status& status);

}  // namespace wss::wssctl
