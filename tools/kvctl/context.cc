// SPDX-License-Identifier: Apache-2.0
#include "tools/kvctl/context.h"

#include <charconv>
#include <cstdio>

#include "lib/kv/hlc.h"

namespace wss::kvctl {

kv::Client* Context::client() {
    if (connection != nullptr) return connection.get();
    if (options.partitions.empty()) {
        fail_with(
            kUsage,
            "no target: give --target URI[,URI...] or set KVCTL_TARGET, as in --target tcp://127.0.0.1:5600");
        return nullptr;
    }
    options.timeout = from_s(timeout_seconds);
    if (!secret_file.empty()) {
        auto identity = read_own_secret(secret_file);
        if (!identity) {
            fail(identity.status());
            return nullptr;
        }
        options.identity = std::move(*identity);
    }
    auto connected = kv::Client::connect(options);
    if (!connected) {
        fail_request(connected.status());
        return nullptr;
    }
    connection = std::move(*connected);
    return connection.get();
}

static bool is_outcome_unknown(const kv::Request& request) {
    if (request.kind == kv::Request::Kind::kPutAll)
        return static_cast<const kv::PutAll&>(request).outcome_unknown;
    return request.kind == kv::Request::Kind::kPutIf &&
           static_cast<const kv::PutIf&>(request).outcome_unknown;
}

static bool is_condition_false(const kv::Request& request) {
    if (request.kind == kv::Request::Kind::kPutAll)
        return static_cast<const kv::PutAll&>(request).failed_condition.has_value();
    return request.kind == kv::Request::Kind::kPutIf && request.status.code() == Code::kRefused;
}

bool Context::run(kv::Request& request) {
    kv::Client* client_ = client();
    if (client_ == nullptr) return false;
    client_->run(request);
    if (!request.status) report(request);
    return request.status.is_ok();
}

void Context::report(const kv::Request& request) {
    fail_request(request.status);
    if (is_condition_false(request)) exit = kCondition;
    if (is_outcome_unknown(request)) std::fprintf(stderr, "kvctl: outcome %s\n", kUnknownOutcome);
}

void Context::fail(const Status& status) {
    std::fprintf(stderr, "kvctl: %s\n", status.to_string().c_str());
    switch (status.code()) {
        case Code::kUnavailable:
        case Code::kTimedOut:
        case Code::kClosed:
            exit = kNotReachable;
            break;
        default:
            exit = kFailed;
    }
}

void Context::fail_request(const Status& status) {
    fail(status);
    if (status.code() == Code::kPermission) exit = kNotPermitted;
}

void Context::fail_with(int status, const std::string& text) {
    std::fprintf(stderr, "kvctl: %s\n", text.c_str());
    exit = status;
}

void Context::print(const Json& answer) const {
    std::printf("%s\n", answer.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

std::string shown(const Context& context, std::string_view bytes) {
    if (context.raw) return std::string(bytes);
    std::string out;
    for (char letter : bytes) {
        auto byte = static_cast<uint8_t>(letter);
        if (letter == '\n')
            out += "\\n";
        else if (letter == '\t')
            out += "\\t";
        else if (letter == '\\')
            out += "\\\\";
        else if (byte < 0x20 || byte == 0x7f || byte >= 0x80)
            out += fmt::format("\\x{:02x}", byte);
        else
            out += letter;
    }
    return out;
}

Result<kv::PutAll::Condition> parse_condition(const std::string& text) {
    const size_t equals = text.rfind('=');
    kv::PutAll::Condition condition;
    if (equals != text.npos && equals != 0) {
        condition.key = text.substr(0, equals);
        const char* first = text.data() + equals + 1;
        const char* last = text.data() + text.size();
        if (std::string_view(first, last) == "absent") return condition;
        const auto parsed = std::from_chars(first, last, condition.expected.value);
        if (parsed.ec == std::errc() && parsed.ptr == last && !condition.expected.is_none()) return condition;
    }
    return failure(Code::kInvalid, "'{}': write a condition as KEY=TIMESTAMP or KEY=absent", text);
}

// ---- bytes in JSON

static bool is_utf8(std::string_view bytes) {
    try {
        (void)Json(std::string(bytes)).dump();
        return true;
    } catch (const Json::type_error&) {
        return false;
    }
}

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64(std::string_view bytes) {
    std::string out;
    for (size_t i = 0; i < bytes.size(); i += 3) {
        uint32_t three = 0;
        for (size_t j = 0; j < 3; ++j)
            three = three << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
        for (size_t j = 0; j < 4; ++j)
            out += i + j <= bytes.size() ? kDigits[three >> (18 - 6 * j) & 63] : '=';
    }
    return out;
}

Result<std::string> from_base64(std::string_view text) {
    Status bad(Code::kInvalid, "this is not base64");
    if (text.size() % 4 != 0) return bad;
    std::string out;
    for (size_t i = 0; i < text.size(); i += 4) {
        uint32_t three = 0;
        size_t padding = 0;
        for (size_t j = 0; j < 4; ++j) {
            size_t digit = kDigits.find(text[i + j]);
            bool pad = text[i + j] == '=' && i + 4 == text.size() && j >= 2;
            if ((digit == kDigits.npos && !pad) || (padding > 0 && !pad)) return bad;
            padding += pad ? 1 : 0;
            three = three << 6 | (pad ? 0 : static_cast<uint32_t>(digit));
        }
        for (size_t j = 0; j < 3 - padding; ++j) out += static_cast<char>(three >> (16 - 8 * j));
    }
    return out;
}

void put_bytes(Json& object, const std::string& name, std::string_view bytes) {
    if (is_utf8(bytes))
        object[name] = bytes;
    else
        object[name + "_base64"] = base64(bytes);
}

Result<std::string> get_bytes(const Json& object, const std::string& name) {
    if (auto text = object.find(name); text != object.end() && text->is_string())
        return text->get<std::string>();
    if (auto coded = object.find(name + "_base64"); coded != object.end() && coded->is_string())
        return from_base64(coded->get_ref<const std::string&>());
    return failure(Code::kInvalid, "'{}' (a string) or '{}_base64' is missing", name, name);
}

uint64_t left_ms(kv::Timestamp expires) {
    const uint64_t now = kv::SystemWallClock().ticks();
    return expires.ticks() > now ? (expires.ticks() - now) / 1000 : 0;
}

std::string ttl_column(kv::Timestamp expires) {
    return "\t" + (expires.is_none() ? "-" : std::to_string(left_ms(expires)));
}

Json to_json(const kv::GetAll::Item& item) {
    Json row;
    put_bytes(row, "key", item.key);
    row["found"] = item.found;
    row["timestamp"] = item.timestamp.value;
    if (!item.expires.is_none()) row["ttl_ms"] = left_ms(item.expires);
    if (item.found) put_bytes(row, "value", item.value);
    return row;
}

Result<std::string> read_input(const std::string& path, size_t limit) {
    std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "re");
    if (file == nullptr) return Status::from_errno(errno, path);
    std::string text;
    char buffer[1 << 16];
    for (size_t got; text.size() <= limit && (got = std::fread(buffer, 1, sizeof buffer, file)) > 0;)
        text.append(buffer, got);
    bool failed = std::ferror(file) != 0;
    if (file != stdin) std::fclose(file);
    if (failed) return failure(Code::kIo, "{} cannot be read completely", path);
    if (text.size() > limit) return failure(Code::kInvalid, "{}: more than {} bytes", path, limit);
    return text;
}

}  // namespace wss::kvctl
