// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/host.h"

#include <CLI/CLI.hpp>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/secrets.h"

namespace wss::wssctl {

Result<fabric::Address> parse_host(const std::string& text) {
    const bool has_scheme = text.find("://") != std::string::npos;
    return fabric::Address::parse(has_scheme ? text : "rdma://" + text, WSS_SRP_DEFAULT_PORT);
}

void describe(CLI::App& command, Credentials& credentials) {
    command
        .add_option("--secret-file", credentials.secret_file,
                    "File with this machine's NAME:SECRET line (mode 600; see wssctl secret), as in the "
                    "target's --secrets")
        ->type_name("FILE");
    command
        .add_option("--target-name", credentials.target_name,
                    "The name that the target must prove (its --name); needs --secret-file (default: any)")
        ->type_name("NAME");
    command
        .add_option("--tls-ca", credentials.tls.authorities,
                    "CA certificates (PEM) for the certificates of tls:// targets")
        ->type_name("FILE");
    command
        .add_option("--tls-cert", credentials.tls.certificate,
                    "Client certificate (PEM), for targets that require one")
        ->type_name("FILE");
    command.add_option("--tls-key", credentials.tls.key, "Private key of --tls-cert (PEM)")
        ->type_name("FILE");
}

Result<initiator::Options> options_with(const Credentials& credentials, Nanoseconds timeout) {
    initiator::Options options;
    options.connect_timeout = options.request_timeout = timeout;
    options.tls = credentials.tls;
    options.target_name = credentials.target_name;
    if (credentials.secret_file.empty()) return options;
    auto secret = read_own_secret(credentials.secret_file);
    if (!secret) return secret.status();
    options.identity = std::move(*secret);
    return options;
}

bool is_login_failure(const Status& status) {
    return status.code() == Code::kPermission || status.code() == Code::kUnsupported ||
           status.text().find("refused the login") != std::string::npos;
}

}  // namespace wss::wssctl
