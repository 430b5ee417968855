// SPDX-License-Identifier: Apache-2.0
// Shared by the files of the C API: the objects behind the handles, and failures as errno and text.
#pragma once

#include <memory>
#include <string>

#include "lib/base/status.h"
#include "lib/initiator/client.h"
#include "lib/initiator/wss.h"

struct wss_client {
    std::unique_ptr<wss::initiator::Client> client;
};

struct wss_volume {
    wss_client* owner = nullptr;
    std::unique_ptr<wss::initiator::ClientVolume> volume;
};

namespace wss::initiator {

// Stores the text for wss_error() and returns -errno.
int c_fail(const Status& status);
int c_fail(int error, std::string text);
// Returns 0 when the request succeeded. Otherwise stores the text and returns -errno, like c_fail().
int c_result(const Request& request);

}  // namespace wss::initiator
