// SPDX-License-Identifier: Apache-2.0
// Limits the log lines that unauthenticated peers can cause.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "lib/base/log.h"

namespace wss::log {

// Limits each source (a host, a process) separately, so that a source that floods the log does not silence
// others. All sources together write at most kSourcesLimit lines per second. When a source may write again,
// one more line reports the number of its suppressed lines.
//
// Thread-safety: all functions may be called from any thread. They lock and allocate, so they are for the
// control plane only.
class SourceLimiter {
  public:
    static constexpr uint32_t kSourcesLimit = 100;
    explicit SourceLimiter(uint32_t burst) : burst_(burst), all_(kSourcesLimit) {}
    bool allow(std::string_view source);
    size_t sources() const;

  private:
    struct Window {
        int64_t second = 0;
        uint32_t lines = 0;
        uint64_t left_out = 0;
    };
    static constexpr size_t kSourcesMax = 256;
    Window& window_of(std::string_view source, int64_t second);  // REQUIRES m_

    const uint32_t burst_;
    Limiter all_;
    mutable std::mutex m_;
    std::map<std::string, Window, std::less<>> windows_;  // guarded by m_
    Window others_;                                       // guarded by m_; for sources beyond kSourcesMax
};

}  // namespace wss::log
