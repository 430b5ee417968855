// SPDX-License-Identifier: Apache-2.0
// The log, for the operator: the event, the object, and what to do. One line per event, to standard error.
// The datapath does not log. Lines that a peer can trigger go through a Limiter or SourceLimiter.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "lib/base/status.h"

namespace wss::log {

enum class Level : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// Accepts debug, info, warning, error, off.
Status set_level(std::string_view name);
bool enabled(Level level) noexcept;
void write(Level level, std::string_view text) noexcept;

template <typename... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::kDebug)) write(Level::kDebug, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::kInfo)) write(Level::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::kWarning)) write(Level::kWarning, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(Level::kError)) write(Level::kError, fmt::format(format, std::forward<Args>(args)...));
}

// Allows at most `burst` events per second, so that a peer cannot fill the disk with the log.
class Limiter {
  public:
    explicit constexpr Limiter(uint32_t burst) : burst_(burst) {}
    bool allow() noexcept;

  private:
    const uint32_t burst_;
    std::atomic<uint64_t> second_and_count_{0};  // seconds << 32 | events; races only make the limit inexact
};

}  // namespace wss::log
