// SPDX-License-Identifier: Apache-2.0
#include "target/control/methods.h"

#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "lib/base/assert.h"
#include "lib/base/clock.h"
#include "lib/base/suggest.h"

namespace wss::control {

using nlohmann::json;

void Methods::add(std::string name, Kind kind, std::string help, Handler handler) {
    bool added = methods_.emplace(std::move(name), Method{kind, std::move(help), std::move(handler)}).second;
    WSS_ASSERT(added, "a method is registered once");
}

void Methods::add_statistics(std::string section, Statistics statistics) {
    bool added = statistics_.emplace(std::move(section), std::move(statistics)).second;
    WSS_ASSERT(added, "a section of statistics is registered once");
}

json Methods::list() const {
    json all = {{"methods", "this list"}, {"stats", "all counters of the program"}};
    for (const auto& [name, method] : methods_) all[name] = method.help;
    return all;
}

json Methods::statistics() const {
    json all = json::object();
    for (const auto& [section, statistics] : statistics_) all[section] = statistics();
    return all;
}

Result<Methods::Kind> Methods::kind(const std::string& name) const {
    if (name == "methods" || name == "stats") return Kind::kRead;
    auto found = methods_.find(name);
    if (found != methods_.end()) return found->second.kind;
    std::vector<std::string_view> known{"methods", "stats"};
    for (const auto& [known_name, method] : methods_) known.push_back(known_name);
    return failure(Code::kNotFound, "unknown method '{}'{}", name, suggestion(name, known));
}

Result<json> Methods::call(const std::string& name, const json& params) const {
    if (name == "methods") return list();
    if (name == "stats") return statistics();
    auto found = methods_.find(name);
    if (found == methods_.end()) return kind(name).status();
    return found->second.handler(params);
}

void add_basic_methods(Methods& methods, const Program& program) {
    json about = {{"program", program.name}, {"version", program.version}, {"pid", getpid()}};
    // This value differs after a restart even if the pid is the same, as in a container.
    const auto started = std::chrono::system_clock::now().time_since_epoch();
    about["started_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(started).count();
    if (!program.role.empty()) about["role"] = program.role;
    methods.add("ping", "program, role, version, pid, time of its start and uptime",
                [about, begin = SystemClock().now()](const json&) -> Result<json> {
                    json answer = about;
                    answer["uptime_ms"] = (SystemClock().now() - begin).count / 1'000'000;
                    return answer;
                });
}

}  // namespace wss::control
