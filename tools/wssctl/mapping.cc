// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/mapping.h"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

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

// The driver finds it in a keyring that ends with this process: nobody can read it there, and no command line
// or file of the kernel shows it.
static Status lend_secret(const std::string& path, std::string& line) {
    auto secret = read_own_secret(path);
    if (!secret) return secret.status();
    const std::string name = "wss:" + secret->name;
    std::string_view bytes = secret->secret.bytes();
    if (syscall(SYS_add_key, "logon", name.c_str(), bytes.data(), bytes.size(), KEY_SPEC_PROCESS_KEYRING) < 0)
        return Status::from_errno(errno, "cannot hand the secret to the kernel (add_key)");
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

// With retry=on the driver accepts any address, and tries this one only: each is tried once without.
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

// What the driver shows is what it was given, for example without a port.
static bool is_at(const std::string& target, const Mapping& mapping) {
    auto address = parse_target(target);
    if (!address) return false;
    const auto shown = fabric::parse_numeric(*address);
    return !shown.empty() && std::find(mapping.addresses.begin(), mapping.addresses.end(),
                                       shown.front().to_string()) != mapping.addresses.end();
}

bool is_of(const Disk& disk, const Mapping& mapping) {
    if (!is_at(disk.target, mapping)) return false;
    return disk.volume == mapping.volume || disk.wwid == mapping.volume ||
           (!disk.lun.empty() && "lun:" + disk.lun == mapping.volume);
}

bool is_of(const Pending& pending, const Mapping& mapping) {
    return is_at(pending.target, mapping) && pending.volume == mapping.volume;
}

}  // namespace wss::wssctl
