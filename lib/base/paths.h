// SPDX-License-Identifier: Apache-2.0
// Default places of sockets on this machine.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss {

// Sockets of services: kServiceSockets/NAME.sock.
inline constexpr const char* kServiceSockets = "/run/wss";

// Default control socket of wss-target. For root it is /run/wss/target.sock. For other users it is
// wss-target.sock in XDG_RUNTIME_DIR if that directory belongs to the user, or else /tmp/wss-target-UID.sock.
std::string default_control_path();

// Finds the control socket for the argument `given` of a tool:
//   a path        that path (it has a '/', or ends in .sock)
//   a name        the socket of the service of that name, `folder`/NAME.sock
//   nothing       `folder`/target.sock, else the only socket in `folder`, else default_control_path().
//                 Sockets that refuse connections are ignored. With several sockets the error lists their
//                 names.
Result<std::string> find_control_socket(const std::string& given,
                                        const std::string& folder = kServiceSockets);

}  // namespace wss
