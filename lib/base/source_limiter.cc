// SPDX-License-Identifier: Apache-2.0
#include "lib/base/source_limiter.h"

#include "lib/base/clock.h"

namespace wss::log {

SourceLimiter::Window& SourceLimiter::window_of(std::string_view source, int64_t second) {
    auto found = windows_.find(source);
    if (found != windows_.end()) return found->second;
    if (windows_.size() >= kSourcesMax)
        std::erase_if(windows_, [&](const auto& each) { return each.second.second != second; });
    if (windows_.size() >= kSourcesMax) return others_;
    return windows_.emplace(source, Window{}).first->second;
}

bool SourceLimiter::allow(std::string_view source) {
    const int64_t second = SystemClock().now().count / 1'000'000'000;
    std::lock_guard lock(m_);
    Window& window = window_of(source, second);
    if (window.second != second) {
        window.second = second;
        window.lines = 0;
    }
    if (window.lines >= burst_ || !all_.allow()) {
        ++window.left_out;
        return false;
    }
    ++window.lines;
    if (uint64_t left_out = std::exchange(window.left_out, 0); left_out > 0)
        warning("{}: {} similar lines were suppressed", source, left_out);
    return true;
}

size_t SourceLimiter::sources() const {
    std::lock_guard lock(m_);
    return windows_.size();
}

}  // namespace wss::log
