// SPDX-License-Identifier: Apache-2.0
// How many log lines strangers may cause.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "lib/base/log.h"

namespace wss::log {

// As Limiter, for each source (a host, a process) by itself, so that one that floods the log does not silence
// the others; all together write no more than kSourcesLimit lines a second. What was left out of a source is
// counted in a line when it may write again.
//
// Thread-safety: a lock; for the control plane.
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
    Window others_;                                       // guarded by m_; of sources beyond kSourcesMax
};

}  // namespace wss::log
