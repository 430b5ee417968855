// SPDX-License-Identifier: Apache-2.0
// start_thread() returns a std::thread, or an error if the system cannot create one. The constructor of
// std::thread would throw.
#pragma once

#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/status.h"

namespace wss {

// `purpose` completes the message "cannot create a thread for …".
template <typename Body>
Result<std::thread> start_thread(std::string_view purpose, Body&& body) {
    try {
        return std::thread(std::forward<Body>(body));
    } catch (const std::system_error& error) {
        return Status::from_errno(
            error.code().value(),
            fmt::format("cannot create a thread for {} (TasksMax, ulimit -u)", purpose));
    }
}

}  // namespace wss
