// SPDX-License-Identifier: Apache-2.0
// The rules of filters: parsing, common to all of them.
#include "lib/io/filter/filter.h"

#include <charconv>

#include "lib/base/size.h"

namespace wss::io {

namespace {

struct NamedErrno {
    std::string_view name;
    int value;
};
constexpr NamedErrno kErrnos[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EROFS", EROFS},
                                  {"ENOMEM", ENOMEM}, {"ENXIO", ENXIO},   {"ETIMEDOUT", ETIMEDOUT}};

struct NamedOp {
    std::string_view name;
    Op op;
};
constexpr NamedOp kOps[] = {{"read", Op::kRead},
                            {"write", Op::kWrite},
                            {"flush", Op::kFlush},
                            {"discard", Op::kDiscard},
                            {"zeroes", Op::kWriteZeroes}};

Status set_errno(FilterRule& rule, std::string_view value) {
    for (const NamedErrno& known : kErrnos)
        if (value == known.name) return rule.error = known.value, Status::ok();
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rule.error);
    if (error == std::errc() && end == value.data() + value.size() && rule.error > 0 && rule.error < 4096)
        return Status::ok();
    return failure(Code::kInvalid, "filter: unknown errno '{}' (for example EIO, ENOSPC or 5)", value);
}

Status set_op(FilterRule& rule, std::string_view value) {
    rule.any_op = value == "all";
    if (rule.any_op) return Status::ok();
    for (const NamedOp& known : kOps)
        if (value == known.name) return rule.op = known.op, Status::ok();
    return failure(Code::kInvalid, "filter: '{}' is not one of read, write, flush, discard, zeroes, all",
                   value);
}

Status set_key(FilterRule& rule, std::string_view key, std::string_view value) {
    if (key == "errno") return set_errno(rule, value);
    if (key == "op") return set_op(rule, value);
    uint64_t* number = key == "every"   ? &rule.every
                       : key == "after" ? &rule.after
                       : key == "first" ? &rule.first
                       : key == "from"  ? &rule.from
                       : key == "to"    ? &rule.to
                       : key == "us"    ? &rule.delay_us
                                        : nullptr;
    if (number == nullptr)
        return failure(Code::kInvalid,
                       "filter: '{}' is not one of every, after, first, from, to, errno, op, us", key);
    auto parsed = parse_size(value);
    if (!parsed) return parsed.status().within(fmt::format("filter: {}", key));
    *number = *parsed;
    return Status::ok();
}

}  // namespace

Result<FilterRule> parse_filter_rule(std::string_view text) {
    FilterRule rule;
    while (!text.empty()) {
        std::string_view pair = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), pair.size() + 1));
        size_t equals = pair.find('=');
        if (equals == std::string_view::npos)
            return failure(Code::kInvalid, "filter: '{}' is not of the form key=value", pair);
        WSS_TRY(set_key(rule, pair.substr(0, equals), pair.substr(equals + 1)));
    }
    if (rule.to != 0 && rule.to <= rule.from)
        return failure(Code::kInvalid, "filter: 'to' must be beyond 'from'");
    return rule;
}

}  // namespace wss::io
