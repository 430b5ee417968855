// SPDX-License-Identifier: Apache-2.0
// Status and Result: how functions of WSS report failure.
//
// A Status is ok, or a code with an optional errno and a text for people (what failed, on which object, what
// to do). Functions of lib/ do not throw, except io::Worker() if no thread can be started. A datapath that
// cannot afford text returns Code or its own enum.
//
// Thread-safety: a Status and a Result are values.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "lib/base/assert.h"

namespace wss {

enum class Code : uint8_t {
    kOk = 0,
    kInvalid,      // data from the caller or the peer is invalid
    kNotFound,     // no object has that name
    kExists,       // the object already exists
    kBusy,         // in use; try later or stop the user
    kExhausted,    // a limit was reached: credits, memory, queue slots
    kUnavailable,  // peer, device or network is not available at present
    kTimedOut,     // a time limit was reached
    kClosed,       // the object is closing or closed
    kRefused,      // the peer refused
    kPermission,   // not allowed
    kUnsupported,  // not supported by this fabric, device or build
    kIo,           // the medium failed
    kNoSpace,      // the medium is full
    kInternal,     // a bug of this project
};

std::string_view to_string(Code code);

class [[nodiscard]] Status {
  public:
    Status() = default;
    explicit Status(Code code, std::string text = {}) : code_(code), text_(std::move(text)) {}

    static Status ok() { return {}; }
    // `text` describes what failed. to_string() appends the text of the errno.
    static Status from_errno(int error, std::string text);

    bool is_ok() const { return code_ == Code::kOk; }
    explicit operator bool() const { return is_ok(); }
    Code code() const { return code_; }
    int sys_errno() const { return errno_; }
    const std::string& text() const { return text_; }
    std::string to_string() const;

    // The same failure in a wider context: "outer: inner".
    Status within(std::string_view outer) const;

  private:
    Code code_ = Code::kOk;
    int errno_ = 0;
    std::string text_;
};

template <typename... Args>
Status failure(Code code, fmt::format_string<Args...> format, Args&&... args) {
    return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

// A value, or the Status with the reason for its absence. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
        WSS_ASSERT(!std::get<1>(state_).is_ok(), "a Result without a value needs a reason");
    }

    bool is_ok() const { return state_.index() == 0; }
    explicit operator bool() const { return is_ok(); }
    T& value() & { return std::get<0>(state_); }
    const T& value() const& { return std::get<0>(state_); }
    T&& value() && { return std::get<0>(std::move(state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    Status status() const { return is_ok() ? Status() : std::get<1>(state_); }

  private:
    std::variant<T, Status> state_;
};

// If `expression` fails, returns its failure from the enclosing function.
#define WSS_TRY(expression)                                                             \
    do {                                                                                \
        if (::wss::Status try_status_ = (expression); !try_status_) return try_status_; \
    } while (0)

}  // namespace wss
