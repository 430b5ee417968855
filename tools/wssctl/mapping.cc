// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/mapping.h"

#include <linux/keyctl.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/secrets.h"
#include "lib/fabric/resolve.h"

namespace wss::wssctl {

constexpr std::string_view kScheme = "rdma://";

static Result<fabric::Address> parse_target(const std::string& target) {
    const bool has_scheme = target.find("://") != std::string::npos;
    auto address =
        fabric::Address::parse(has_scheme ? target : std::string(kScheme) + target, WSS_SRP_DEFAULT_PORT);
    if (address && address->scheme != fabric::Scheme::kRdma)
        return failure(Code::kInvalid, "{}: the driver connects by RDMA; write HOST:PORT or rdma://HOST:PORT",
                       target);
    return address;
}

Status check(const Mapping& mapping) {
    WSS_TRY(check_word(mapping.target));
    WSS_TRY(check_word(mapping.volume));
    for (const std::string& option : mapping.options) {
        WSS_TRY(check_word(option));
        if (option.find('=') == std::string::npos)
            return failure(Code::kInvalid, "'{}' is not of the form key=value", option);
    }
    return parse_target(mapping.target).status();
}

Status resolve(Mapping& mapping, Nanoseconds timeout) {
    auto address = parse_target(mapping.target);
    if (!address) return address.status();
    auto found = fabric::resolve(*address, timeout);
    if (!found) return found.status();
    mapping.addresses.clear();
    for (const fabric::SocketAddress& one : *found) mapping.addresses.push_back(one.to_string());
    return Status::ok();
}

// Passes the secret to the driver in the thread keyring. Logon keys cannot be read from user space, and no
// command line or kernel file shows them. Adding a key with an existing name would change that key, even for
// an earlier map that uses it. So the keyring is cleared first, and the earlier map keeps its own key.
static Status lend_secret(const std::string& path, std::string& line) {
    auto secret = read_own_secret(path);
    if (!secret) return secret.status();
    const std::string name = "wss:" + secret->name;
    std::string_view bytes = secret->secret.bytes();
    // This fails if there is no keyring yet.
    syscall(SYS_keyctl, KEYCTL_CLEAR, KEY_SPEC_THREAD_KEYRING);
    if (syscall(SYS_add_key, "logon", name.c_str(), bytes.data(), bytes.size(), KEY_SPEC_THREAD_KEYRING) < 0)
        return Status::from_errno(errno, "cannot pass the secret to the kernel (add_key)");
    line += " initiator=" + secret->name;
    return Status::ok();
}

static bool is_retry(const std::string& option) {
    return option.starts_with("retry=");
}

static std::string line_of(const Mapping& mapping, const std::string& address) {
    std::string line = "target=" + address + " volume=" + mapping.volume;
    for (const std::string& option : mapping.options) line += " " + option;
    return line;
}

// With retry=on, the driver accepts any address, and then retries only that one. So each address is first
// tried once without retry.
static Status map_any(const Context& context, const Mapping& mapping, const std::string& identity) {
    Mapping once = mapping;
    std::erase_if(once.options, is_retry);
    Status why;
    for (const std::string& address : mapping.addresses)
        if (why = write_control(context, "map", line_of(once, address) + identity); why) return why;
    if (once.options.size() == mapping.options.size()) return why;
    return write_control(context, "map", line_of(mapping, mapping.addresses.front()) + identity);
}

Status request_map(const Context& context, const Mapping& mapping) {
    WSS_TRY(check(mapping));
    std::string identity;
    if (!mapping.secret_file.empty()) WSS_TRY(lend_secret(mapping.secret_file, identity));
    if (mapping.addresses.size() > 1) return map_any(context, mapping, identity);
    return write_control(context, "map", line_of(mapping, mapping.addresses.front()) + identity);
}

// Whether `target` is one of the addresses. `target` has the form in which the driver received it, perhaps
// without a port.
static bool is_at(const std::string& target, const Mapping& mapping) {
    auto address = parse_target(target);
    if (!address) return false;
    const auto shown = fabric::parse_numeric(*address);
    return !shown.empty() && std::find(mapping.addresses.begin(), mapping.addresses.end(),
                                       shown.front().to_string()) != mapping.addresses.end();
}

// N of `lun:N`, in C syntax as in the driver, where 0x10, 020 and 16 are equal.
static std::optional<uint64_t> lun_of(const std::string& volume) {
    constexpr std::string_view kLun = "lun:";
    if (!volume.starts_with(kLun)) return std::nullopt;
    char* end = nullptr;
    const uint64_t number = std::strtoull(volume.c_str() + kLun.size(), &end, 0);
    if (*end != '\0' || end == volume.c_str() + kLun.size()) return std::nullopt;
    return number;
}

// The LUN from the 16 hex digits of a SAM LUN, in peripheral or flat addressing.
static std::optional<uint64_t> lun_of(const Disk& disk) {
    constexpr size_t kDigits = 16;
    uint64_t lun = 0;
    const char* end = disk.lun.data() + disk.lun.size();
    if (disk.lun.size() != kDigits || std::from_chars(disk.lun.data(), end, lun, 16).ptr != end)
        return std::nullopt;
    return (lun >> 48) & 0x3fff;
}

// Volume names are case-sensitive, identifiers are not.
static std::string canonical_volume(const std::string& volume) {
    if (const auto lun = lun_of(volume)) return fmt::format("lun:{}", *lun);
    std::string lower = volume;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    return lower.starts_with("naa.") || lower.starts_with("eui.") ? lower : volume;
}

std::string canonical_target(const std::string& target) {
    const auto address = parse_target(target);
    if (!address) return target;
    const auto numeric = fabric::parse_numeric(*address);
    return numeric.empty() ? address->to_string() : numeric.front().to_string();
}

bool is_same(const Mapping& one, const Mapping& other) {
    return canonical_target(one.target) == canonical_target(other.target) &&
           canonical_volume(one.volume) == canonical_volume(other.volume);
}

bool is_of(const Disk& disk, const Mapping& mapping) {
    if (!is_at(disk.target, mapping)) return false;
    if (disk.volume == mapping.volume || strcasecmp(disk.wwid.c_str(), mapping.volume.c_str()) == 0)
        return true;
    const auto lun = lun_of(mapping.volume);
    return lun && lun == lun_of(disk);
}

bool is_of(const Pending& pending, const Mapping& mapping) {
    return is_at(pending.target, mapping) &&
           canonical_volume(pending.volume) == canonical_volume(mapping.volume);
}

}  // namespace wss::wssctl
