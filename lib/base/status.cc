// SPDX-License-Identifier: Apache-2.0
// Texts of Status, and the end of a failed assertion.
#include "lib/base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace wss {

std::string_view to_string(Code code) {
    switch (code) {
        case Code::kOk:
            return "ok";
        case Code::kInvalid:
            return "invalid";
        case Code::kNotFound:
            return "not found";
        case Code::kExists:
            return "already exists";
        case Code::kBusy:
            return "busy";
        case Code::kExhausted:
            return "exhausted";
        case Code::kUnavailable:
            return "unavailable";
        case Code::kTimedOut:
            return "timed out";
        case Code::kClosed:
            return "closed";
        case Code::kRefused:
            return "refused";
        case Code::kPermission:
            return "not permitted";
        case Code::kUnsupported:
            return "not supported";
        case Code::kIo:
            return "I/O error";
        case Code::kNoSpace:
            return "no space";
        case Code::kInternal:
            return "internal error";
    }
    return "unknown";
}

static Code code_of(int error) {
    switch (error) {
        case 0:
            return Code::kOk;
        case EINVAL:
            return Code::kInvalid;
        case ENOENT:
        case ENODEV:
        case ENXIO:
            return Code::kNotFound;
        case EEXIST:
            return Code::kExists;
        case EBUSY:
        case EADDRINUSE:
        case EAGAIN:
            return Code::kBusy;
        case ENOMEM:
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
            return Code::kExhausted;
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EADDRNOTAVAIL:
        case ECONNRESET:
            return Code::kUnavailable;
        case ETIMEDOUT:
            return Code::kTimedOut;
        case ESHUTDOWN:
        case EPIPE:
        case ENOTCONN:
            return Code::kClosed;
        case ECONNREFUSED:
            return Code::kRefused;
        case EPERM:
        case EACCES:
        case EROFS:
            return Code::kPermission;
        case EOPNOTSUPP:
        case ENOSYS:
            return Code::kUnsupported;
        case ENOSPC:
        case EDQUOT:
            return Code::kNoSpace;
        default:
            return Code::kIo;
    }
}

Status Status::from_errno(int error, std::string text) {
    Status status(code_of(error), std::move(text));
    status.errno_ = error;
    return status;
}

// In English, like all messages, whatever the locale of the program that uses libwss. strerror() would
// translate the words, and take a lock of libc for that.
static std::string describe_errno(int error) {
    const char* words = strerrordesc_np(error);
    return words != nullptr ? words : fmt::format("Unknown error {}", error);
}

std::string Status::to_string() const {
    if (is_ok()) return "ok";
    std::string words = text_.empty() ? std::string(wss::to_string(code_)) : text_;
    if (errno_ != 0) words += ": " + describe_errno(errno_);
    return words;
}

Status Status::within(std::string_view outer) const {
    Status status = *this;
    status.text_ =
        fmt::format("{}: {}", outer, text_.empty() ? wss::to_string(code_) : std::string_view(text_));
    return status;
}

void assert_failed(const char* expression, const char* why, const char* file, int line) noexcept {
    std::fprintf(stderr, "wss: assertion failed: %s (%s) at %s:%d\n", expression, why, file, line);
    std::abort();
}

}  // namespace wss
