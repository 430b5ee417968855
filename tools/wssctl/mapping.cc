// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/mapping.h"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "kernel/uapi/wss_srp.h"
#include "lib/base/secrets.h"

namespace wss::wssctl {

Result<std::string> line_of(const Mapping& mapping) {
    WSS_TRY(check_word(mapping.target));
    WSS_TRY(check_word(mapping.volume));
    std::string line = "target=" + mapping.target + " volume=" + mapping.volume;
    for (const std::string& option : mapping.options) {
        WSS_TRY(check_word(option));
        if (option.find('=') == std::string::npos)
            return failure(Code::kInvalid, "'{}' is not of the form key=value", option);
        line += " " + option;
    }
    return line;
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

Status request_map(const Context& context, const Mapping& mapping) {
    auto line = line_of(mapping);
    if (!line) return line.status();
    if (!mapping.secret_file.empty()) WSS_TRY(lend_secret(mapping.secret_file, *line));
    return write_control(context, "map", *line);
}

// An address as the driver shows it: without the scheme, with the port.
static std::string plain_target(std::string target) {
    constexpr std::string_view kScheme = "rdma://";
    if (target.starts_with(kScheme)) target.erase(0, kScheme.size());
    const size_t colon = target.rfind(':');
    const size_t bracket = target.rfind(']');  // of an IPv6 address
    const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
    return has_port ? target : fmt::format("{}:{}", target, WSS_SRP_DEFAULT_PORT);
}

bool is_of(const Disk& disk, const Mapping& mapping) {
    if (plain_target(disk.target) != plain_target(mapping.target)) return false;
    return disk.volume == mapping.volume || disk.wwid == mapping.volume ||
           (!disk.lun.empty() && "lun:" + disk.lun == mapping.volume);
}

bool is_of(const Pending& pending, const Mapping& mapping) {
    return plain_target(pending.target) == plain_target(mapping.target) && pending.volume == mapping.volume;
}

}  // namespace wss::wssctl
