// SPDX-License-Identifier: Apache-2.0
// What the control socket tells of sessions: session.list, and the section "block" of stats.
#pragma once

#include "target/block/service.h"
#include "target/control/config.h"
#include "target/control/methods.h"

namespace wss::daemon {

// `service` outlives the control server; its reactors turn while that runs.
void add_session_methods(control::Methods& methods, block::Service& service);

// A file of secrets as a book that the service takes, with the name by which `config` calls the target.
Result<std::shared_ptr<const auth::SecretBook>> read_secret_book(const control::TargetConfig& config,
                                                                 const std::string& path);

struct ReloadedSecrets {
    size_t initiators, sessions_ended;
};
// Reads the file of secrets again, for logins and for the keys of tls://, and ends the sessions whose secret
// is gone or changed.
Result<ReloadedSecrets> reload_secrets(block::Service& service, const control::TargetConfig& config,
                                       fabric::tls::KnownPeers& known);

// auth.show and auth.reload. `config` and `known` outlive the control server.
void add_auth_methods(control::Methods& methods, block::Service& service, const control::TargetConfig& config,
                      fabric::tls::KnownPeers& known);

}  // namespace wss::daemon
