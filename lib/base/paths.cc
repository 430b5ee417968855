// SPDX-License-Identifier: Apache-2.0
#include "lib/base/paths.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/unix_socket.h"

namespace wss {

constexpr std::string_view kSuffix = ".sock";

std::string default_control_path() {
    if (geteuid() == 0) return fmt::format("{}/target.sock", kServiceSockets);
    const char* runtime = std::getenv("XDG_RUNTIME_DIR");
    // After su or sudo, XDG_RUNTIME_DIR may name the directory of another user.
    struct stat info {};
    if (runtime != nullptr && *runtime == '/' && stat(runtime, &info) == 0 && info.st_uid == geteuid())
        return fmt::format("{}/wss-target.sock", runtime);
    return fmt::format("/tmp/wss-target-{}.sock", geteuid());
}

// True if a service listens on the socket. A killed service leaves its socket file, which refuses
// connections. A service to which this user may not connect counts as running.
static bool is_alive(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
    auto address = unix_address(path);
    if (!address) return false;
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return connect(socket.get(), reinterpret_cast<sockaddr*>(&*address), sizeof *address) == 0 ||
           errno != ECONNREFUSED;
}

// Sorted names of the running services with sockets in `folder`.
static std::vector<std::string> services_in(const std::string& folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error))
        if (entry->path().extension() == kSuffix && is_alive(entry->path()))
            names.push_back(entry->path().stem());
    std::sort(names.begin(), names.end());
    return names;
}

Result<std::string> find_control_socket(const std::string& given, const std::string& folder) {
    const auto socket_of = [&folder](const std::string& name) {
        return fmt::format("{}/{}{}", folder, name, kSuffix);
    };
    if (given.find('/') != std::string::npos || given.ends_with(kSuffix)) return given;
    if (!given.empty()) return socket_of(given);
    if (is_alive(socket_of("target"))) return socket_of("target");
    const std::vector<std::string> names = services_in(folder);
    if (names.size() == 1) return socket_of(names.front());
    if (names.empty()) return default_control_path();
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return failure(Code::kInvalid, "{} services run on this machine: give --control NAME, one of {}",
                   names.size(), list);
}

}  // namespace wss
