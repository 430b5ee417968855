// SPDX-License-Identifier: Apache-2.0
// Checks Ceph's configuration before librados uses it. With some values librados ends the whole process, with
// every volume that the process serves.
//
// Works without librados, so that it can be tested where librados is not installed.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::io {

// The settings with values for which librados aborts or allocates all memory when it connects. Found with
// librados 16.2, by setting each setting to an invalid value, connecting, and opening and using an image.
std::span<const std::string_view> lethal_ceph_settings();

// Fails when librados would end the process. `file` is the origin of the value, for the error message.
Status check_ceph_setting(std::string_view name, std::string_view value, std::string_view file);

// Settings that list words, at least one of which librados must support to connect. Otherwise it waits for
// its timeouts, or reports a missing key.
std::span<const std::string_view> settings_to_connect();
// Fails when librados could not connect. `where` is as `file` above, or names the monitors, which send
// settings.
Status check_setting_to_connect(std::string_view name, std::string_view value, std::string_view where);

// True if the setting of an image delays its requests inside librbd, where osd_timeout does not apply.
bool is_throttle(std::string_view name, std::string_view value);

// Fails when `path` exists and is not a regular file, or is too large for a configuration or a keyring.
// librados would wait forever for the end of a FIFO, and reads a device as an empty file.
Status check_ceph_file(std::string_view what, const std::string& path);

// The same for a list of paths, up to the first file that can be opened: librados reads only that one.
Status check_ceph_files(std::string_view what, std::string_view list);

}  // namespace wss::io
