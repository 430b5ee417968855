// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/source_tree.h"

#include <cstdlib>
#include <filesystem>

#include "kernel/uapi/wss_version.h"
#include "tools/wssbench/measure.h"

namespace wss::wssbench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";
constexpr double kGitSeconds = 20;
constexpr const char* kMeasurers = "tests/bench/measurers";

}  // namespace

Result<std::string> source_tree() {
    std::error_code ignored;
    std::vector<fs::path> places;
    if (const char* given = std::getenv("WSS_SOURCE")) places.emplace_back(given);
    places.push_back(fs::current_path(ignored));
    places.push_back(fs::path(own_folder()) / "../..");
    for (const fs::path& place : places)
        if (fs::exists(place / kMeasurers, ignored)) return fs::canonical(place, ignored).string();
    return failure(Code::kNotFound,
                   "needs the source tree of WSS ({}): run wssbench there, or set WSS_SOURCE to its path",
                   kMeasurers);
}

std::string source_version() {
    auto tree = source_tree();
    if (!tree) return WSS_VERSION;
    auto printed =
        output_of({"git", "-C", *tree, "describe", "--always", "--dirty"}, kGitSeconds, OnInterrupt::kIgnore);
    return printed ? printed->substr(0, printed->find('\n')) : WSS_VERSION;
}

Result<std::unique_ptr<Child>> start_measurer(const std::string& name, const std::vector<std::string>& words,
                                              const ChildOptions& options) {
    auto tree = source_tree();
    if (!tree) return tree.status();
    std::vector<std::string> all = {kPython,   "-B",        "-m", "tests.bench.measurers." + name,
                                    "--build", own_folder()};
    all.insert(all.end(), words.begin(), words.end());
    ChildOptions inside = options;
    inside.on_interrupt = OnInterrupt::kPassOn;
    inside.directory = *tree;
    return Child::start(all, inside);
}

Result<Json> next_object(Child& measurer, double seconds) {
    auto line = measurer.line(seconds);
    if (!line && line.status().code() == Code::kClosed && !interrupted())
        return failure(Code::kClosed, "{} {}", line.status().text(), measurer.complaint());
    if (!line) return line.status();
    Json object = Json::parse(*line, nullptr, false);
    if (!object.is_object()) return failure(Code::kInternal, "no JSON object: {}", line->substr(0, 200));
    if (object.contains("error") && object["error"].is_string())
        return Status(Code::kUnavailable, object["error"].get<std::string>());
    return object;
}

}  // namespace wss::wssbench
