// SPDX-License-Identifier: Apache-2.0
#include "target/http/site.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "target/http/assets.h"

namespace wss::http {

namespace {

using control::Methods;
using nlohmann::json;

constexpr std::string_view kApi = "/api/v1/";
constexpr int kNestingMax = 32;
constexpr Nanoseconds kThreadAnswers = from_s(5);  // a thread that takes longer counts as not responding

int http_status(Code code) {
    switch (code) {
        case Code::kInvalid:
            return 400;
        case Code::kPermission:
            return 403;
        case Code::kNotFound:
            return 404;
        case Code::kExists:
        case Code::kBusy:
        case Code::kRefused:
            return 409;
        case Code::kUnsupported:
            return 501;
        case Code::kUnavailable:
        case Code::kClosed:
        case Code::kExhausted:
            return 503;
        case Code::kTimedOut:
            return 504;
        case Code::kNoSpace:
            return 507;
        default:
            return 500;
    }
}

std::string dump(const json& value) {
    return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The JSON library copies and destroys nested values recursively, so deep nesting would exhaust the stack.
// Therefore the parser stops beyond kNestingMax levels.
Result<json> parse_parameters(const std::string& body) {
    if (body.empty()) return json::object();
    bool too_deep = false;
    auto parse_limit = [&](int depth, json::parse_event_t event, json&) {
        const bool opens =
            event == json::parse_event_t::object_start || event == json::parse_event_t::array_start;
        if (opens && depth >= kNestingMax) too_deep = true;
        return !too_deep;
    };
    json parameters = json::parse(body, parse_limit, false);
    if (too_deep) return failure(Code::kInvalid, "parameters may nest at most {} levels deep", kNestingMax);
    if (!parameters.is_object()) return failure(Code::kInvalid, "the body is not a JSON object");
    return parameters;
}

Answer answer_of(const Result<json>& result) {
    return result ? Answer{.body = dump(*result)} : error_answer(result.status());
}

Status starting() {
    return Status(Code::kUnavailable, "the program is starting: try again later");
}

Answer not_allowed(const char* allowed, std::string text) {
    Answer answer = error_answer(Status(Code::kInvalid, std::move(text)));
    answer.status = 405;
    answer.allow = allowed;
    return answer;
}

}  // namespace

Answer error_answer(const Status& status) {
    return {.status = http_status(status.code()),
            .body = dump({{"error", {{"code", to_string(status.code())}, {"message", status.to_string()}}}})};
}

void Site::open(const Methods& methods, const metrics::Exporter& exporter, const Health& health) {
    methods_ = &methods;
    exporter_ = &exporter;
    health_ = &health;
    open_.store(true, std::memory_order_release);
}

Answer Site::health(bool ready) const {
    const bool open = open_.load(std::memory_order_acquire);
    if (!open && ready) return {.status = 503, .type = "text/plain", .body = "starting\n"};
    const Status status = !open   ? Status::ok()
                          : ready ? health_->ready(kThreadAnswers)
                                  : health_->alive(kThreadAnswers);
    if (status) return {.type = "text/plain", .body = "ok\n"};
    return {.status = 503, .type = "text/plain", .body = status.to_string() + "\n"};
}

Result<std::string> Site::method_of(const std::string& path) const {
    std::string name = path.substr(kApi.size());
    if (name.find('.') != std::string::npos)
        return failure(Code::kNotFound, "there is nothing at {}: write a path like /api/v1/volume/list",
                       path);
    std::replace(name.begin(), name.end(), '/', '.');
    return name;
}

Answer Site::get(const std::string& path, const Query& query) const {
    if (is_health(path)) return health(path == "/readyz");
    // A browser loads a page over six connections and keeps them open: ten pages would use up all client
    // connections. So the connection ends after a file.
    for (const Asset& asset : assets())
        if (path == asset.path)
            return {.type = std::string(asset.type), .body = std::string(asset.text), .last = true};
    if (!open_.load(std::memory_order_acquire)) return error_answer(starting());
    if (path == "/metrics") return {.type = "text/plain; version=0.0.4", .body = exporter_->text()};
    if (!path.starts_with(kApi))
        return error_answer(
            failure(Code::kNotFound,
                    "there is nothing at this address; the status page is at /, the API at {}", kApi));
    auto name = method_of(path);
    if (!name) return error_answer(name.status());
    auto kind = methods_->kind(*name);
    if (!kind) return error_answer(kind.status());
    if (*kind == Methods::Kind::kChange)
        return not_allowed("POST",
                           fmt::format("{} changes something: use POST, at the control socket", *name));
    json parameters = json::object();
    for (const auto& [key, value] : query) parameters[key] = value;
    return answer_of(methods_->call(*name, parameters));
}

Status Site::check_change(const std::string& path, Answer& refusal) const {
    Status status;
    auto refuse = [&refusal, &status](const Status& why) {
        refusal = error_answer(why);
        return why;
    };
    if (!open_.load(std::memory_order_acquire)) return refuse(starting());
    if (!path.starts_with(kApi)) {
        refusal = not_allowed("GET", "only methods of the API accept POST");
        return Status(Code::kInvalid, "no method");
    }
    auto name = method_of(path);
    if (!name) return refuse(name.status());
    auto kind = methods_->kind(*name);
    if (!kind) return refuse(kind.status());
    if (*kind == Methods::Kind::kChange) return Status::ok();
    refusal = not_allowed("GET", fmt::format("{} only reads: use GET", *name));
    return Status(Code::kInvalid, "only reads");
}

Answer Site::change(const std::string& path, const std::string& body) const {
    Answer refusal;
    if (!check_change(path, refusal)) return refusal;
    auto parameters = parse_parameters(body);
    if (!parameters) return error_answer(parameters.status());
    return answer_of(methods_->call(*method_of(path), *parameters));
}

}  // namespace wss::http
