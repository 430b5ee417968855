// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/options.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "lib/base/suggest.h"

namespace wss::io {

namespace {

constexpr size_t kNameMax = 95;  // RBD_MAX_IMAGE_NAME_SIZE less its terminator
constexpr size_t kExcerpt = 120;
constexpr size_t kPathMax = 4095;  // PATH_MAX less its terminator
constexpr size_t kUserMax = 255;
constexpr uint32_t kSecondsMax = 3600;
// The client's keeper checks the image every one to two seconds, and Ceph needs time to answer. A shorter
// limit could expire between two checks.
constexpr uint32_t kAwaySecondsMin = 5;
constexpr std::string_view kForm = "POOL/IMAGE[@SNAP][?KEY=VALUE&...]";

struct Key {
    std::string_view name;
    std::string RbdOptions::*text = nullptr;
    bool RbdOptions::*flag = nullptr;
    uint32_t RbdOptions::*seconds = nullptr;
    uint32_t seconds_min = 1;
};
constexpr Key kKeys[] = {
    {.name = "conf", .text = &RbdOptions::conf},
    {.name = "id", .text = &RbdOptions::user},
    {.name = "keyring", .text = &RbdOptions::keyring},
    {.name = "cache", .flag = &RbdOptions::cache},
    {.name = "steal", .flag = &RbdOptions::steal},
    {.name = "mount_timeout", .seconds = &RbdOptions::mount_timeout},
    {.name = "osd_timeout", .seconds = &RbdOptions::osd_timeout},
    {.name = "mon_timeout", .seconds = &RbdOptions::mon_timeout},
    {.name = "open_timeout", .seconds = &RbdOptions::open_timeout},
    {.name = "resize_timeout", .seconds = &RbdOptions::resize_timeout},
    {.name = "close_timeout", .seconds = &RbdOptions::close_timeout},
    {.name = "away_timeout", .seconds = &RbdOptions::away_timeout, .seconds_min = kAwaySecondsMin}};

bool has_control_character(std::string_view text) {
    return std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 127; });
}

Status check_name(std::string_view what, std::string_view name) {
    if (name.empty()) return failure(Code::kInvalid, "rbd: the {} has no name; write {}", what, kForm);
    if (name.size() > kNameMax)
        return failure(Code::kInvalid, "rbd: the name of the {} has {} characters, at most {} are possible",
                       what, name.size(), kNameMax);
    if (has_control_character(name))
        return failure(Code::kInvalid, "rbd: the name of the {} has a control character", what);
    return Status::ok();
}

Status set_flag(const Key& key, std::string_view value, RbdOptions& options) {
    const bool yes = value == "true" || value == "1";
    if (!yes && value != "false" && value != "0")
        return failure(Code::kInvalid, "rbd: {}={}: the value must be true or false", key.name,
                       excerpt(value));
    options.*key.flag = yes;
    return Status::ok();
}

Status set_seconds(const Key& key, std::string_view value, RbdOptions& options) {
    uint32_t seconds = 0;
    auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (wrong != std::errc() || end != value.data() + value.size() || seconds < key.seconds_min ||
        seconds > kSecondsMax)
        return failure(Code::kInvalid, "rbd: {}={}: the value must be a number of seconds from {} to {}",
                       key.name, excerpt(value), key.seconds_min, kSecondsMax);
    options.*key.seconds = seconds;
    return Status::ok();
}

Status set_text(const Key& key, std::string_view value, RbdOptions& options) {
    if (value.empty() || has_control_character(value))
        return failure(Code::kInvalid, "rbd: {}= needs a value", key.name);
    const bool path = key.text != &RbdOptions::user;
    const size_t most = path ? kPathMax : kUserMax;
    if (value.size() > most)
        return failure(Code::kInvalid, "rbd: {}={}: at most {} are possible", key.name, excerpt(value), most);
    if (path && !value.starts_with('/'))
        return failure(Code::kInvalid, "rbd: {}={}: the path must start with /", key.name, excerpt(value));
    if (!path && value.starts_with("client."))
        return failure(Code::kInvalid, "rbd: id={}: write the user without 'client.'", excerpt(value));
    options.*key.text = value;
    return Status::ok();
}

Status set_option(std::string_view word, RbdOptions& options, std::vector<std::string_view>& seen) {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const auto* key = std::find_if(std::begin(kKeys), std::end(kKeys),
                                   [&](const Key& known) { return known.name == name; });
    if (key == std::end(kKeys)) {
        std::vector<std::string_view> known;
        for (const Key& each : kKeys) known.push_back(each.name);
        return failure(Code::kInvalid, "rbd: there is no option '{}'{}", excerpt(name),
                       suggestion(name, known));
    }
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
        return failure(Code::kInvalid, "rbd: the option {} is given twice", name);
    seen.push_back(key->name);
    const std::string_view value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
    if (key->text != nullptr) return set_text(*key, value, options);
    if (key->flag != nullptr) return set_flag(*key, value, options);
    return set_seconds(*key, value, options);
}

Status set_image(std::string_view text, RbdOptions& options) {
    const size_t slash = text.find('/');
    if (slash == std::string_view::npos)
        return failure(Code::kInvalid, "rbd:{}: write {}, for example rbd:rbd/disk0", excerpt(text), kForm);
    std::string_view image = text.substr(slash + 1);
    if (image.find('/') != std::string_view::npos)
        return failure(Code::kInvalid,
                       "rbd:{}: there is more than one /; images in a namespace of a pool are not supported",
                       excerpt(text));
    const size_t at = image.find('@');
    if (at != std::string_view::npos) {
        options.snapshot = image.substr(at + 1);
        WSS_TRY(check_name("snapshot", options.snapshot));
        if (options.snapshot.find('@') != std::string::npos)
            return failure(Code::kInvalid, "rbd:{}: there is more than one @", excerpt(text));
        image = image.substr(0, at);
    }
    options.pool = text.substr(0, slash);
    options.image = image;
    WSS_TRY(check_name("pool", options.pool));
    return check_name("image", options.image);
}

}  // namespace

std::string excerpt(std::string_view text) {
    if (text.size() <= kExcerpt) return std::string(text);
    return fmt::format("{}... ({} characters)", text.substr(0, kExcerpt), text.size());
}

std::string RbdOptions::name() const {
    return pool + "/" + image + (snapshot.empty() ? "" : "@" + snapshot);
}

Result<RbdOptions> parse_rbd_options(std::string_view text) {
    RbdOptions options;
    const size_t question = text.find('?');
    WSS_TRY(set_image(text.substr(0, question), options));
    std::vector<std::string_view> seen;
    for (size_t next = question; next != std::string_view::npos;) {
        text.remove_prefix(next + 1);
        next = text.find('&');
        WSS_TRY(set_option(text.substr(0, next), options, seen));
    }
    if (options.steal && !options.is_head())
        return failure(Code::kInvalid,
                       "rbd:{}: steal= needs the exclusive lock, which a snapshot does not have",
                       options.name());
    return options;
}

}  // namespace wss::io
