// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/ceph_conf.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

#include "lib/io/rbd/options.h"

namespace wss::io {

namespace {

constexpr const char* kListEnds = ";,= \t";  // characters that end a word of a list for librados

// librados asserts on an unknown type. It also asserts when one of the two types that need a device fails: no
// RDMA device or port, too little lockable memory, missing huge pages.
constexpr std::string_view kMessengers[] = {"async+posix", "async", "random"};
constexpr std::string_view kMessengersAllowed =
    "async+posix or async (RDMA and DPDK end the process when their device fails)";

bool is_messenger(std::string_view value) {
    return std::find(std::begin(kMessengers), std::end(kMessengers), value) != std::end(kMessengers);
}
// With an empty value ms_type applies.
bool is_messenger_or_empty(std::string_view value) {
    return value.empty() || is_messenger(value);
}

// Returns the first word of a list for which `is_wanted` returns true. It is empty if there is none.
template <typename IsWanted>
std::string_view find_word(std::string_view list, IsWanted is_wanted) {
    for (size_t at = 0, end = 0; at < list.size(); at = end + 1) {
        end = std::min(list.find_first_of(kListEnds, at), list.size());
        const std::string_view word = list.substr(at, end - at);
        if (!word.empty() && is_wanted(word)) return word;
    }
    return {};
}

// librados is built without Kerberos, and asserts when it connects with it. It selects Kerberos from a list
// when it finds no keyring, or when a monitor prefers it.
bool has_no_gss(std::string_view methods) {
    return find_word(methods, [](std::string_view word) { return word == "gss"; }).empty();
}

template <int64_t kLeast, int64_t kMost>
bool is_between(std::string_view value) {
    int64_t number = 0;
    auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
    return wrong == std::errc() && end == value.data() + value.size() && number >= kLeast && number <= kMost;
}

bool has_mode(std::string_view modes) {
    return !find_word(modes, [](std::string_view word) { return word == "crc" || word == "secure"; }).empty();
}
bool has_method(std::string_view methods) {
    return !find_word(methods, [](std::string_view word) {
                return word == "cephx" || word == "none";
            }).empty();
}
bool has_method_or_empty(std::string_view methods) {
    return methods.empty() || has_method(methods);
}

struct Rule {
    std::string_view name;
    bool (*is_allowed)(std::string_view value);
    std::string_view allowed;
};
constexpr Rule kLethal[] = {
    {"ms_type", is_messenger, kMessengersAllowed},
    {"ms_public_type", is_messenger_or_empty, kMessengersAllowed},
    // A negative value causes a segmentation fault.
    {"heartbeat_interval", is_between<0, std::numeric_limits<int32_t>::max()>, "0 or more"},
    // librados and librbd start all of these threads.
    {"librados_thread_count", is_between<0, 256>, "at most 256"},
    {"rbd_op_threads", is_between<0, 256>, "at most 256"},
    // librados divides by it, and allocates an array of this length.
    {"objecter_completion_locks_per_session", is_between<1, 1024>, "1 to 1024"},
    {"auth_client_required", has_no_gss, "cephx or none"},
    {"auth_supported", has_no_gss, "cephx or none"},
};

// librados ignores unknown words of a list, even when no known word is left.
constexpr Rule kNeeded[] = {
    {"ms_mon_client_mode", has_mode, "crc or secure"},
    {"ms_client_mode", has_mode, "crc or secure"},
    {"auth_client_required", has_method, "cephx or none"},
    {"auth_supported", has_method_or_empty, "cephx or none"},
};

template <size_t kCount>
constexpr auto names_of(const Rule (&rules)[kCount]) {
    std::array<std::string_view, kCount> names{};
    for (size_t i = 0; i < kCount; ++i) names[i] = rules[i].name;
    return names;
}
constexpr auto kLethalNames = names_of(kLethal);
constexpr auto kNeededNames = names_of(kNeeded);

Status check_rules(std::span<const Rule> rules, std::string_view name, std::string_view value,
                   std::string_view where, std::string_view consequence) {
    for (const Rule& rule : rules)
        if (rule.name == name && !rule.is_allowed(value))
            return failure(Code::kInvalid, "{} = {} in {}: {}; set {}, or remove the line", name,
                           excerpt(value), where, consequence, rule.allowed);
    return Status::ok();
}

constexpr off_t kFileMax = 1 << 20;

std::string_view kind_of(mode_t mode) {
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a FIFO";
    if (S_ISSOCK(mode)) return "a socket";
    return "a device";
}

}  // namespace

std::span<const std::string_view> lethal_ceph_settings() {
    return kLethalNames;
}

Status check_ceph_setting(std::string_view name, std::string_view value, std::string_view file) {
    return check_rules(kLethal, name, value, file, "librados would end the whole process");
}

std::span<const std::string_view> settings_to_connect() {
    return kNeededNames;
}

Status check_setting_to_connect(std::string_view name, std::string_view value, std::string_view where) {
    return check_rules(kNeeded, name, value, where, "librados cannot connect with it");
}

bool is_throttle(std::string_view name, std::string_view value) {
    return name.starts_with("rbd_qos_") && name.ends_with("_limit") && value != "0";
}

Status check_ceph_files(std::string_view what, std::string_view list) {
    Status status;
    (void)find_word(list, [&](std::string_view word) {
        const std::string path(word);
        status = check_ceph_file(what, path);
        return !status || access(path.c_str(), R_OK) == 0;
    });
    return status;
}

Status check_ceph_file(std::string_view what, const std::string& path) {
    struct stat file {};
    if (stat(path.c_str(), &file) != 0) return Status::ok();  // librados returns the reason
    if (!S_ISREG(file.st_mode))
        return failure(Code::kInvalid, "the {} {} is {}: name a regular file", what, excerpt(path),
                       kind_of(file.st_mode));
    if (file.st_size > kFileMax)
        return failure(Code::kInvalid, "the {} {} has {} bytes, but at most {} are read: name the right file",
                       what, excerpt(path), file.st_size, kFileMax);
    return Status::ok();
}

}  // namespace wss::io
