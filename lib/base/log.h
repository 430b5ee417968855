// SPDX-License-Identifier: Apache-2.0
// The log, for the administrator: what happened, to which object, what to do. One line per event, to standard
// error. Nothing on the datapath logs; what a peer can trigger goes through a LogLimiter.
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

// Lets through at most `burst` events per second: a peer must not be able to fill the disk with our log.
class Limiter {
  public:
    explicit constexpr Limiter(uint32_t burst) : burst_(burst) {}
    bool allow() noexcept;

  private:
    const uint32_t burst_;
    std::atomic<uint64_t> second_and_count_{0};  // seconds << 32 | events; races only blur the limit
};

}  // namespace wss::log
