// SPDX-License-Identifier: Apache-2.0
// The only file that includes spdlog.
#include "lib/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "lib/base/clock.h"
#include "lib/base/journal.h"

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

// %P in a pattern: the priority of a line, in the form that the journal strips.
class JournalPriority final : public spdlog::custom_flag_formatter {
  public:
    void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
        const std::string_view prefix = prefix_of(message.level);
        out.append(prefix.data(), prefix.data() + prefix.size());
    }
    std::unique_ptr<custom_flag_formatter> clone() const override {
        return std::make_unique<JournalPriority>();
    }

  private:
    static std::string_view prefix_of(spdlog::level::level_enum level) {
        switch (level) {
            case spdlog::level::debug:
                return journal::kDebug;
            case spdlog::level::info:
                return journal::kInfo;
            case spdlog::level::warn:
                return journal::kWarning;
            default:
                return journal::kError;
        }
    }
};

// The journal stores the time and priority of each line separately. Elsewhere the line contains them.
static std::unique_ptr<spdlog::formatter> make_formatter() {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    if (journal::is_standard_error())
        formatter->add_flag<JournalPriority>('P').set_pattern("%P%v");
    else
        formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    return formatter;
}

static spdlog::logger& logger() {
    // Deliberately leaked: threads may log while statics are destroyed.
    static spdlog::logger* instance = [] {
        auto* made = new spdlog::logger("wss", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_formatter(make_formatter());
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
    return failure(Code::kInvalid, "log level '{}' is not one of debug, info, warning, error, off", name);
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
