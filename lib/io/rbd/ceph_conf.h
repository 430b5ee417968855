// SPDX-License-Identifier: Apache-2.0
// Checks of Ceph's configuration before librados uses it: librados ends the whole process for some values,
// with every volume that the process serves.
//
// Works without librados, so that it can be tested where that is not installed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::io {

// The settings that have values for which librados aborts or takes all memory when it connects. Found by a
// client of librados 16.2 that connected, opened an image and used it, with each setting set to nonsense.
std::span<const std::string_view> lethal_ceph_settings();

// Fails when librados would end the process. `file` is where the value was read, for the error.
Status check_ceph_setting(std::string_view name, std::string_view value, std::string_view file);

// The settings without which librados connects to nothing when no word of them is one that it knows. It waits
// for its timeouts then, or returns that there is no key.
std::span<const std::string_view> settings_to_connect();
// Fails when librados could not connect. `where`: as `file` above, or the monitors, which send settings.
Status check_setting_to_connect(std::string_view name, std::string_view value, std::string_view where);

// Whether the setting of an image makes its requests wait inside librbd, where osd_timeout does not count.
bool is_throttle(std::string_view name, std::string_view value);

// Fails when `path` exists and is a directory, a FIFO or a device, or is too long for a configuration or a
// keyring. librados would wait for ever for the end of a FIFO, and takes a device for an empty file.
Status check_ceph_file(std::string_view what, const std::string& path);

// … of each path of a list, as far as librados reads it: it takes the first one that can be opened.
Status check_ceph_files(std::string_view what, std::string_view list);

}  // namespace wss::io
