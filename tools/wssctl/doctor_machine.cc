// SPDX-License-Identifier: Apache-2.0
// Checks of this machine: kernel, driver, clock, control sockets, state directory, huge pages.
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "kernel/uapi/wss_version.h"
#include "lib/base/file.h"
#include "lib/base/paths.h"
#include "lib/base/size.h"
#include "tools/wssctl/doctor.h"

namespace wss::wssctl {

// --- kernel and driver ---

// BUILD_EXCLUSIVE_KERNEL of wss-dkms and Documentation/install.md contain the same list.
constexpr std::string_view kTriedKernels[] = {"6.1", "6.12", "7.3"};

static std::string release_of(const Host& host) {
    return host.line("/proc/sys/kernel/osrelease").value_or("");
}

static bool is_tried(const std::string& release) {
    return std::any_of(std::begin(kTriedKernels), std::end(kTriedKernels), [&](std::string_view tried) {
        return release.starts_with(tried) && release.size() > tried.size() &&
               std::strchr(".+-", release[tried.size()]) != nullptr;
    });
}

Findings check_kernel(const Host& host, const Question&) {
    const std::string release = release_of(host);
    if (release.empty())
        return {{"kernel", Level::kSkipped, "the kernel's release cannot be read",
                 "Run wssctl where /proc is mounted."}};
    if (is_tried(release)) return {{"kernel", Level::kOk, release, ""}};
    return {{"kernel", Level::kWarning, release + ": the driver was not tested on it",
             "Boot kernel 6.1, 6.12 or 7.3 for the driver, or use libwss or nbdkit, which need no driver."}};
}

// Whether modprobe would find the module for kernel `release`.
static bool is_installed(const Host& host, const std::string& release) {
    std::ifstream modules(host.at("/lib/modules/" + release + "/modules.dep"));
    for (std::string line; std::getline(modules, line);) {
        const std::string path = line.substr(0, line.find(':'));
        const size_t slash = path.rfind('/');
        const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
        if (file.starts_with("wss.ko")) return true;
    }
    return false;
}

Findings check_module(const Host& host, const Question&) {
    const std::string release = release_of(host);
    if (!host.has("/sys/module/wss")) {
        if (is_installed(host, release))
            return {{"module", Level::kWarning, "installed for " + release + ", not loaded",
                     "Load it: modprobe wss, or systemctl start wss-maps."}};
        if (!is_tried(release))
            return {{"module", Level::kWarning, "not available for kernel " + release + ": no /dev/wssN here",
                     "Boot a tested kernel (see the check 'kernel'), for which wss-dkms builds the module; "
                     "libwss and nbdkit need no driver."}};
        return {{"module", Level::kWarning, "not installed for kernel " + release + ": no /dev/wssN here",
                 fmt::format("Install it: apt install wss-dkms linux-headers-{}; storage nodes and users of "
                             "libwss or nbdkit need no driver.",
                             release)}};
    }
    const std::string version = host.line("/sys/module/wss/version").value_or("unknown");
    if (version == WSS_VERSION) return {{"module", Level::kOk, "loaded, version " + version, ""}};
    return {{"module", Level::kFailed,
             fmt::format("version {} is loaded, wssctl is {}", version, WSS_VERSION),
             "Load the matching version: wssctl maps down && rmmod wss && modprobe wss."}};
}

// --- clock ---

Findings check_clock(const Host&, const Question&) {
    timex state{};
    if (adjtimex(&state) < 0)
        return {{"clock", Level::kSkipped, fmt::format("its state cannot be read: {}", std::strerror(errno)),
                 "Run wssctl outside the sandbox."}};
    if (!(state.status & STA_UNSYNC)) return {{"clock", Level::kOk, "synchronised", ""}};
    return {{"clock", Level::kWarning, "not synchronised: log times of different machines cannot be compared",
             "Run a time service: timedatectl set-ntp true, or apt install chrony."}};
}

// --- control sockets ---

static Finding check_socket(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
        return {"control", Level::kSkipped, path + ": the path is too long for a socket",
                "Start the program with a shorter --control."};
    std::memcpy(address.sun_path, path.data(), path.size());
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const bool connected = connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    if (connected) return {"control", Level::kOk, path, ""};
    if (errno == EACCES || errno == EPERM)
        return {"control", Level::kSkipped, path + ": this user may not open it",
                "Run wssctl as root, or as the user that the service runs as."};
    if (errno == EAGAIN)
        return {"control", Level::kWarning, path + ": the program does not accept connections",
                "See its log: journalctl -u 'wss-*' -n 50."};
    return {"control", Level::kFailed, fmt::format("{}: {}", path, std::strerror(errno)),
            "The program behind it has ended: see systemctl status 'wss-*' and start it again, or remove the "
            "file."};
}

Findings check_sockets(const Host& host, const Question&) {
    constexpr std::string_view kSuffix = ".sock";
    Findings findings;
    for (const std::string& name : host.entries(kServiceSockets))
        if (name.ends_with(kSuffix)) findings.push_back(check_socket(host.at(kServiceSockets) + "/" + name));
    const std::string own = default_control_path();
    if (!own.starts_with(kServiceSockets) && host.has(own)) findings.push_back(check_socket(host.at(own)));
    if (!findings.empty()) return findings;
    return {{"control", Level::kSkipped, "no target and no cache engine with a control socket runs here",
             "On a storage node, start one: systemctl start wss-target@NAME."}};
}

// --- state directory ---

constexpr const char* kStateFolder = "/var/lib/wss";
constexpr uint64_t kStateBytesMin = 64 << 20;  // needed for state files and logs

Findings check_state(const Host& host, const Question&) {
    const std::string path = host.at(kStateFolder);
    struct statvfs info {};
    if (statvfs(path.c_str(), &info) != 0) {
        if (errno == ENOENT)
            return {{"state", Level::kSkipped, path + " does not exist",
                     "Storage nodes get it from the package: apt install wss-target."}};
        return {{"state", Level::kSkipped, fmt::format("{}: {}", path, std::strerror(errno)),
                 "Run wssctl as root."}};
    }
    if (info.f_flag & ST_RDONLY)
        return {{"state", Level::kFailed, path + " is on a file system that is mounted read-only",
                 fmt::format(
                     "See dmesg for why, then remount it: mount -o remount,rw $(findmnt -no TARGET -T {}).",
                     path)}};
    const uint64_t bytes = uint64_t{info.f_bavail} * info.f_frsize;
    const std::string text = fmt::format("{}: {} free", path, readable_size(bytes));
    const bool no_files = info.f_files > 0 && info.f_favail == 0;
    if (bytes == 0 || no_files)
        return {{"state", Level::kFailed, text + (no_files ? ", no file can be created" : ""),
                 "Make room on it: du -xh " + path + " shows which directories are large."}};
    if (bytes < kStateBytesMin)
        return {{"state", Level::kWarning, text,
                 "Make room on it: du -xh " + path + " shows which directories are large."}};
    if (access(path.c_str(), W_OK) != 0 && geteuid() == 0)
        return {{"state", Level::kFailed, fmt::format("{}: {}", path, std::strerror(errno)),
                 "Make it writable for the user wss: chown wss: " + path + "."}};
    return {{"state", Level::kOk, text, ""}};
}

// --- huge pages ---

Findings check_huge_pages(const Host& host, const Question&) {
    const auto mode = host.line("/sys/kernel/mm/transparent_hugepage/enabled");
    if (!mode)
        return {{"huge pages", Level::kSkipped, "this kernel has no transparent huge pages",
                 "No action is needed; large caches cause more TLB misses."}};
    if (mode->find("[never]") == std::string::npos)
        return {{"huge pages", Level::kOk, "transparent huge pages: " + *mode, ""}};
    return {{"huge pages", Level::kWarning,
             "transparent huge pages are off: large memory regions cause more TLB misses",
             "Let programs request them: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled."}};
}

}  // namespace wss::wssctl
