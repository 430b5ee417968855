// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/access_rules.h"

#include <algorithm>
#include <charconv>

#include "lib/base/secrets.h"
#include "lib/kv/types.h"

namespace wss::kv {

namespace {

constexpr std::string_view kOthers = "*";

// The bytes of a prefix as a rule states it.
Result<std::string> parse_prefix(std::string_view text) {
    std::string bytes;
    for (size_t i = 0; i < text.size(); ++i) {
        const char letter = text[i];
        if (letter < ' ' || letter > '~')
            return failure(Code::kInvalid, "byte 0x{:02x} in the prefix: write it as %{:02X}",
                           static_cast<uint8_t>(letter), static_cast<uint8_t>(letter));
        if (letter != '%') {
            bytes += letter;
            continue;
        }
        uint8_t byte = 0;
        const std::string_view digits = text.substr(i + 1, 2);
        const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (digits.size() != 2 || parsed.ptr != digits.data() + 2)
            return Status(Code::kInvalid,
                          "'%' in the prefix without two hexadecimal digits: write %25 for itself");
        bytes += static_cast<char>(byte);
        i += 2;
    }
    if (bytes.size() > kKeyMax)
        return failure(Code::kInvalid, "a prefix of {} bytes: keys have at most {}", bytes.size(), kKeyMax);
    return bytes;
}

Status malformed() {
    return Status(Code::kInvalid,
                  "not of the form NAME=r, =w, =rw, =none or =partition, with :PREFIX after r, w and rw");
}

}  // namespace

Status AccessRules::add(const std::string& word) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos) return malformed();
    const std::string name = word.substr(0, equals);
    const size_t colon = word.find(':', equals);
    const std::string rights =
        word.substr(equals + 1, colon == std::string::npos ? colon : colon - equals - 1);
    const bool has_keys = rights == "r" || rights == "w" || rights == "rw";
    if (!has_keys && (colon != std::string::npos || (rights != "none" && rights != "partition")))
        return malformed();
    if (name != kOthers) WSS_TRY(check_initiator_name(name));
    if (name == kOthers && rights == "partition")
        return Status(Code::kInvalid, "the right of a partition is not for '*': name the partition's secret");
    auto prefix = parse_prefix(colon == std::string::npos ? std::string_view()
                                                          : std::string_view(word).substr(colon + 1));
    if (!prefix) return prefix.status();
    if (++counts_[name] > kRulesPerName)
        return failure(Code::kInvalid, "a name has at most {} rules", kRulesPerName);
    ClientRights& its = names_[name];
    const bool has_none = counts_[name] > 1 && !its.is_client() && !its.is_partition();
    if (has_none || (rights == "none" && counts_[name] > 1))
        return failure(Code::kInvalid, "'none' excludes other rules of {}", name);
    if (rights == "partition") its.is_partition_ = true;
    if (has_keys && rights != "w") its.reads_.push_back(*prefix);
    if (has_keys && rights != "r") its.writes_.push_back(*prefix);
    words_.push_back(word);
    return Status::ok();
}

Result<AccessRules> AccessRules::parse(const std::vector<std::string>& words) {
    AccessRules rules;
    if (words.size() > kRulesMax)
        return failure(Code::kInvalid, "{} rules: at most {} are allowed", words.size(), kRulesMax);
    for (const std::string& word : words)
        if (Status added = rules.add(word); !added) return added.within(fmt::format("rule '{}'", word));
    return rules;
}

const ClientRights& AccessRules::of(std::string_view name) const noexcept {
    static const ClientRights kNone;
    auto found = names_.find(name);
    if (found == names_.end()) found = names_.find(kOthers);
    return found == names_.end() ? kNone : found->second;
}

bool AccessRules::has_partition() const noexcept {
    return std::any_of(names_.begin(), names_.end(),
                       [](const auto& one) { return one.second.is_partition(); });
}

}  // namespace wss::kv
