// SPDX-License-Identifier: Apache-2.0
// The only file that knows spdlog.
#include "lib/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "lib/base/clock.h"

namespace wss::log {

static spdlog::level::level_enum spdlog_level(Level level) {
    switch (level) {
        case Level::kDebug:
            return spdlog::level::debug;
        case Level::kInfo:
            return spdlog::level::info;
        case Level::kWarning:
            return spdlog::level::warn;
        case Level::kError:
            return spdlog::level::err;
        case Level::kOff:
            return spdlog::level::off;
    }
    return spdlog::level::off;
}

static spdlog::logger& logger() {
    // Leaked on purpose: threads may log while statics are destroyed.
    static spdlog::logger* instance = [] {
        auto* made = new spdlog::logger("wss", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
        made->set_level(spdlog::level::info);
        made->flush_on(spdlog::level::debug);
        return made;
    }();
    return *instance;
}

Status set_level(std::string_view name) {
    constexpr std::pair<std::string_view, Level> kNames[] = {{"debug", Level::kDebug},
                                                             {"info", Level::kInfo},
                                                             {"warning", Level::kWarning},
                                                             {"error", Level::kError},
                                                             {"off", Level::kOff}};
    for (const auto& [known, level] : kNames) {
        if (name != known) continue;
        logger().set_level(spdlog_level(level));
        return Status::ok();
    }
    return failure(Code::kInvalid, "log level '{}' is none of debug, info, warning, error, off", name);
}

bool enabled(Level level) noexcept {
    return logger().should_log(spdlog_level(level));
}

void write(Level level, std::string_view text) noexcept {
    logger().log(spdlog_level(level), spdlog::string_view_t(text.data(), text.size()));
}

bool Limiter::allow() noexcept {
    uint64_t second = static_cast<uint64_t>(SystemClock().now().count / 1'000'000'000);
    uint64_t seen = second_and_count_.load(std::memory_order_relaxed);
    uint64_t count = (seen >> 32) == second ? (seen & 0xffffffffu) : 0;
    if (count >= burst_) return false;
    second_and_count_.store(second << 32 | (count + 1), std::memory_order_relaxed);
    return true;
}

}  // namespace wss::log
