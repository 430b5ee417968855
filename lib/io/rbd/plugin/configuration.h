// SPDX-License-Identifier: Apache-2.0
// Reads the settings of a client of Ceph.
#pragma once

#include <rados/librados.h>

#include <string>

#include "lib/io/rbd/options.h"

namespace wss::io::rbd {

// Where librados has read its settings, for errors.
std::string configuration_of(const RbdOptions& options);

// 0, or the negative error of librados; ENOENT: this version has no such setting.
int read_setting(rados_t reader, const char* name, std::string& value);

}  // namespace wss::io::rbd
