// SPDX-License-Identifier: Apache-2.0
// The methods of sessions and of authentication (session.list, session.end, block.latency, auth.show,
// auth.reload), and the sections "block" and "sessions" of stats.
#pragma once

#include "target/block/service.h"
#include "target/control/config.h"
#include "target/control/methods.h"

namespace wss::daemon {

// `service` must outlive the control server. Its reactors must run while the server runs.
void add_session_methods(control::Methods& methods, block::Service& service);

// Reads the secrets file into a book for the service, with the target's name from `config`.
Result<std::shared_ptr<const auth::SecretBook>> read_secret_book(const control::TargetConfig& config,
                                                                 const std::string& path);

struct ReloadedSecrets {
    size_t initiators, sessions_ended;
};
// Reloads the secrets file, for logins and for the keys of tls://. Ends the sessions whose secret was removed
// or changed.
Result<ReloadedSecrets> reload_secrets(block::Service& service, const control::TargetConfig& config,
                                       fabric::tls::KnownPeers& known);

// The methods auth.show and auth.reload. `config` and `known` must outlive the control server.
void add_auth_methods(control::Methods& methods, block::Service& service, const control::TargetConfig& config,
                      fabric::tls::KnownPeers& known);

}  // namespace wss::daemon
