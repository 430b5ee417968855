// SPDX-License-Identifier: Apache-2.0
// Where programs meet on this machine when nobody says otherwise.
#pragma once

#include <string>

#include "lib/base/status.h"

namespace wss {

// Sockets of the services: kServiceSockets/NAME.sock.
inline constexpr const char* kServiceSockets = "/run/wss";

// Where wss-target makes its control socket: /run/wss/target.sock for root, in the user's own run-time folder
// for others.
std::string default_control_path();

// The control socket that a tool means by `given`:
//   a path        that path
//   a name        the socket of the service of that name, FOLDER/NAME.sock
//   nothing       FOLDER/target.sock, else the only socket of the folder, else the user's own. Sockets that
//                 refuse connections do not count. With several sockets the error lists their names.
Result<std::string> find_control_socket(const std::string& given,
                                        const std::string& folder = kServiceSockets);

}  // namespace wss
