// SPDX-License-Identifier: Apache-2.0
// Where programs meet on this machine when nobody says otherwise.
#pragma once

#include <string>

namespace wss {

// The control socket of wss-target: /run/wss/target.sock for root, in the user's own run-time folder for
// others.
std::string default_control_path();

}  // namespace wss
