// SPDX-License-Identifier: Apache-2.0
// The Status for an error number of librbd or librados.
#pragma once

#include <cerrno>
#include <string>

#include "lib/base/status.h"

namespace wss::io::rbd {

// `error` is positive. ETIMEDOUT (Ceph does not answer) and ESHUTDOWN (Ceph has blocklisted this client) get
// their own texts, because the system's texts do not point to the cluster.
inline Status refusal(int error, std::string_view what) {
    if (error == ETIMEDOUT)
        return failure(Code::kTimedOut,
                       "{}: Ceph did not answer in time (osd_timeout, mon_timeout): see ceph -s", what);
    if (error == ESHUTDOWN)
        return failure(Code::kPermission,
                       "{}: Ceph has blocklisted this client, or all of its host (ceph osd blocklist ls)",
                       what);
    return Status::from_errno(error, std::string(what));
}
// True if refusal() made the status of ESHUTDOWN. EPERM and EACCES keep their errno.
inline bool is_blocklisted(const Status& status) {
    return status.code() == Code::kPermission && status.sys_errno() == 0;
}

}  // namespace wss::io::rbd
