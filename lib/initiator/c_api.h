// SPDX-License-Identifier: Apache-2.0
// What the files of the C API share: the objects behind the handles, and failures as errno and text.
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

// Remembers the text for wss_error() and returns -errno.
int c_fail(const Status& status);
int c_fail(int error, std::string text);
// 0 when the request went well.
int c_result(const Request& request);

}  // namespace wss::initiator
