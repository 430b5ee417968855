// SPDX-License-Identifier: Apache-2.0
// Params: reads the parameters of a control request. Checks types, and detects missing and unknown
// parameters.
//
//   Params params(json);
//   params.text("name", name, Params::kRequired).size("size", size);
//   WSS_TRY(params.finish());
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/size.h"
#include "lib/base/status.h"
#include "lib/base/suggest.h"

namespace wss::control {

class Params {
  public:
    enum Presence { kOptional, kRequired };

    explicit Params(const nlohmann::json& params) : params_(params) {
        if (!params.is_object() && !params.is_null()) fail("the parameters must be an object");
    }

    Params& text(const char* key, std::string& value, Presence presence = kOptional) {
        const nlohmann::json* found = find(key, presence);
        if (found == nullptr) return *this;
        if (!found->is_string()) return fail(fmt::format("{} must be a string", key));
        value = found->get<std::string>();
        return *this;
    }
    Params& flag(const char* key, bool& value, Presence presence = kOptional) {
        const nlohmann::json* found = find(key, presence);
        if (found == nullptr) return *this;
        if (!found->is_boolean()) return fail(fmt::format("{} must be true or false", key));
        value = found->get<bool>();
        return *this;
    }
    // A number of bytes, or a string like "64M".
    Params& size(const char* key, uint64_t& value, Presence presence = kOptional) {
        const nlohmann::json* found = find(key, presence);
        if (found == nullptr) return *this;
        if (found->is_number_unsigned()) {
            value = found->get<uint64_t>();
            return *this;
        }
        if (!found->is_string())
            return fail(fmt::format("{} must be a number of bytes or a string like \"64M\"", key));
        auto parsed = parse_size(found->get<std::string>());
        if (!parsed) return fail(fmt::format("{}: {}", key, parsed.status().to_string()));
        value = *parsed;
        return *this;
    }
    // A non-negative number or a string, returned as a string; empty if it is missing.
    Params& number_or_text(const char* key, std::string& value) {
        const nlohmann::json* found = find(key, kOptional);
        if (found == nullptr) return *this;
        const bool is_text = found->is_string() && !found->get_ref<const std::string&>().empty();
        if (!is_text && !found->is_number_unsigned())
            return fail(fmt::format("{} must be a number from 0 to 2^64 - 1 or a string like \"64M\"", key));
        value = is_text ? found->get<std::string>() : found->dump();
        return *this;
    }
    Params& texts(const char* key, std::vector<std::string>& values, Presence presence = kOptional) {
        const nlohmann::json* found = find(key, presence);
        if (found == nullptr) return *this;
        if (!found->is_array()) return fail(fmt::format("{} must be a list of strings", key));
        for (const nlohmann::json& item : *found) {
            if (!item.is_string()) return fail(fmt::format("{} must be a list of strings", key));
            values.push_back(item.get<std::string>());
        }
        return *this;
    }
    // Returns the first error. Unknown parameters are errors.
    Status finish() {
        if (!params_.is_object()) return status_;
        for (const auto& [key, value] : params_.items()) {
            if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
            fail(fmt::format("unknown parameter '{}'{}", key, suggestion(key, known_)));
        }
        return status_;
    }

  private:
    const nlohmann::json* find(const char* key, Presence presence) {
        known_.push_back(key);
        auto found = params_.is_object() ? params_.find(key) : params_.end();
        if (found != params_.end()) return &*found;
        if (presence == kRequired) fail(fmt::format("{} is missing", key));
        return nullptr;
    }
    Params& fail(std::string text) {
        if (status_) status_ = Status(Code::kInvalid, std::move(text));
        return *this;
    }

    const nlohmann::json& params_;
    std::vector<std::string_view> known_;
    Status status_;
};

}  // namespace wss::control
