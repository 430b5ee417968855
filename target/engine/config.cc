// SPDX-License-Identifier: Apache-2.0
#include "target/engine/config.h"

#include "lib/base/config.h"
#include "target/control/config.h"

namespace wss::daemon {

static ConfigSchema schema_of(EngineConfig& config) {
    ConfigSchema schema;
    schema.texts("join", config.join);
    schema.texts("listen", config.listen);
    schema.texts("advertise", config.advertise);
    schema.size("memory", config.memory);
    schema.text("secret_file", config.secret_file);
    schema.text("control", config.control);
    schema.text("metrics", config.metrics);
    schema.number("leave_seconds", config.leave_seconds, 1, kLeaveSecondsMax);
    schema.text("log_level", config.log_level,
                [&config] { return control::check_log_level(config.log_level); });
    return schema;
}

Status read_engine_config(const std::string& path, EngineConfig& config) {
    return schema_of(config).read_file(path);
}

Status parse_engine_config(std::string_view text, const std::string& path, EngineConfig& config) {
    return schema_of(config).read_text(text, path);
}

}  // namespace wss::daemon
