// SPDX-License-Identifier: Apache-2.0
// Errors as NBD clients receive them.
#pragma once

#include <cerrno>

namespace wss::initiator {

// The errno for nbdkit_set_error(). NBD has few errors. nbdkit sends all others as EINVAL, which means that
// the client's request was wrong. Here they are failures of the target or of the connection to it.
inline int nbd_error_of(int error) {
    switch (error) {
        case EPERM:
        case EROFS:
        case ENOMEM:
        case EINVAL:
        case ENOSPC:
        case EOVERFLOW:
        case EOPNOTSUPP:
            return error;
        default:
            return EIO;
    }
}

}  // namespace wss::initiator
