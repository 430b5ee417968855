// SPDX-License-Identifier: Apache-2.0
#include "lib/base/errno.h"

#include <cerrno>

namespace wss {

int errno_of(const Status& status) {
    if (status.sys_errno() != 0) return status.sys_errno();
    switch (status.code()) {
        case Code::kOk:
            return 0;
        case Code::kInvalid:
            return EINVAL;
        case Code::kNotFound:
            return ENOENT;
        case Code::kExists:
            return EEXIST;
        case Code::kBusy:
            return EBUSY;
        case Code::kExhausted:
            return ENOMEM;
        case Code::kUnavailable:
            return EHOSTUNREACH;
        case Code::kTimedOut:
            return ETIMEDOUT;
        case Code::kClosed:
            return ESHUTDOWN;
        case Code::kRefused:
            return ECONNREFUSED;
        case Code::kPermission:
            return EACCES;
        case Code::kUnsupported:
            return EOPNOTSUPP;
        case Code::kNoSpace:
            return ENOSPC;
        case Code::kIo:
        case Code::kInternal:
            return EIO;
    }
    return EIO;
}

std::string_view advice_on_write(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
            return "; make room there (df -h, df -i)";
        case EROFS:
            return "; make its file system writable (mount -o remount,rw), or name the directory in "
                   "ReadWritePaths= of the service";
        default:
            return "";
    }
}

}  // namespace wss
