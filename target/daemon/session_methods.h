// SPDX-License-Identifier: Apache-2.0
// What the control socket tells of sessions: session.list, and the section "block" of stats.
#pragma once

#include "target/block/service.h"
#include "target/control/config.h"
#include "target/control/methods.h"

namespace wss::daemon {

// `service` outlives the control server; its reactors turn while that runs.
void add_session_methods(control::Methods& methods, block::Service& service);

// The file of secrets as a book that the service takes.
Result<std::shared_ptr<const block::SecretBook>> read_secret_book(const control::TargetConfig& config);

// auth.show and auth.reload. `config` outlives the control server.
void add_auth_methods(control::Methods& methods, block::Service& service,
                      const control::TargetConfig& config);

}  // namespace wss::daemon
