// SPDX-License-Identifier: Apache-2.0
#include "target/engine/config.h"

#include "lib/base/config.h"
#include "lib/fabric/address.h"
#include "target/control/config.h"

namespace wss::engine {

static ConfigSchema schema_of(EngineConfig& config) {
    ConfigSchema schema;
    schema.texts("join", config.join);
    schema.texts("listen", config.listen);
    schema.texts("advertise", config.advertise);
    schema.size("memory", config.memory);
    schema.text("secret_file", config.secret_file);
    control::describe_tls(schema, config.tls);
    schema.text("control", config.control);
    schema.text("http", config.http);
    schema.number("leave_seconds", config.leave_seconds, 1, kLeaveSecondsMax);
    schema.text("log_level", config.log_level,
                [&config] { return control::check_log_level(config.log_level); });
    return schema;
}

Status read_engine_config(const std::string& path, EngineConfig& config) {
    return schema_of(config).read_file(path);
}

Status check_engine_config(const EngineConfig& config) {
    WSS_TRY(control::check_tls(config.tls, {config.join, config.listen}));
    if (config.join.empty())
        return failure(Code::kInvalid,
                       "no storage engine: give --join URI, for instance --join tcp://storage1:{}",
                       control::kCachePort);
    if (config.advertise.size() > config.listen.size())
        return failure(Code::kInvalid, "there are more --advertise than --listen addresses");
    for (const std::string& uri : config.join)
        WSS_TRY(fabric::Address::parse(uri, control::kCachePort).status().within("--join"));
    for (size_t i = 0; i < config.listen.size(); ++i) {
        auto address = fabric::Address::parse(config.listen[i], kEnginePort);
        if (!address) return address.status().within("--listen");
        const bool anywhere = address->host == "0.0.0.0" || address->host == "::";
        if (anywhere && (i >= config.advertise.size() || config.advertise[i].empty()))
            return failure(Code::kInvalid,
                           "--listen {}: clients cannot connect to that address; give the one to use with "
                           "--advertise URI",
                           address->to_string());
    }
    return Status::ok();
}

Status parse_engine_config(std::string_view text, const std::string& path, EngineConfig& config) {
    return schema_of(config).read_text(text, path);
}

}  // namespace wss::engine
