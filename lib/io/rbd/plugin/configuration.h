// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a client of Ceph.
#pragma once

#include <rados/librados.h>

#include <string>

#include "lib/io/rbd/options.h"

namespace wss::io::rbd {

// The file that librados reads its settings from, for error messages.
std::string configuration_of(const RbdOptions& options);

// Returns 0 or a negative errno of librados. -ENOENT: this version has no such setting.
int read_setting(rados_t reader, const char* name, std::string& value);

}  // namespace wss::io::rbd
