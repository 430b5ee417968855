// SPDX-License-Identifier: Apache-2.0
#include "lib/io/plugin.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <mutex>

#include "lib/base/log.h"

namespace wss::io {

namespace {

// Read at the start: if the program's file is replaced later, the plug-in next to the new file is loaded.
const std::string kProgram = [] {
    std::error_code unknown;
    return std::filesystem::read_symlink("/proc/self/exe", unknown).string();
}();

Status check_owner(const std::string& path, uid_t owner) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0)
        return Status::from_errno(errno, fmt::format("cannot examine {}", path));
    if (info.st_uid != 0 && info.st_uid != owner)
        return failure(Code::kPermission,
                       "{} belongs to user {}, not to root or to the program's owner ({}): chown root {}",
                       path, info.st_uid, owner, path);
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return failure(Code::kPermission, "{} is writable by group or others: chmod go-w {}", path, path);
    return Status::ok();
}

const char* log_level() {
    if (log::enabled(log::Level::kDebug)) return "debug";
    if (log::enabled(log::Level::kInfo)) return "info";
    if (log::enabled(log::Level::kWarning)) return "warning";
    return log::enabled(log::Level::kError) ? "error" : "off";
}

Result<const Plugin*> load(const std::string& name, const std::string& needs) {
    auto path = find_plugin(kProgram, name);
    if (!path) return path.status();
    // Keep the symbols of the plug-in and of the program apart.
    void* library = dlopen(path->c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        const char* why = dlerror();
        return failure(Code::kUnavailable, "cannot load {}: {} (apt-get install {})", *path,
                       why == nullptr ? "unknown" : why, needs);
    }
    auto entry = reinterpret_cast<PluginEntry>(dlsym(library, kPluginEntry));
    if (entry == nullptr)
        return failure(Code::kUnsupported, "{} is not a plug-in: symbol {} is missing", *path, kPluginEntry);
    const Plugin* plugin = entry();
    WSS_TRY(check_plugin(*path, *plugin));
    log::info("loaded {}", *path);
    return plugin;
}

}  // namespace

Status check_plugin(const std::string& path, const Plugin& plugin) {
    if (plugin.abi == kPluginAbi && plugin.request_bytes == sizeof(Request) &&
        plugin.limits_bytes == sizeof(Limits))
        return Status::ok();
    return failure(
        Code::kUnsupported,
        "{} is of a different version (interface {}, this program has {}): install both from one build", path,
        plugin.abi, kPluginAbi);
}

Result<std::string> find_plugin(const std::string& program, const std::string& name) {
    std::error_code error;
    const std::filesystem::path self = std::filesystem::canonical(program, error);
    struct stat info {};
    if (error || stat(self.c_str(), &info) != 0)
        return failure(Code::kUnavailable, "cannot find the plug-in {}: {} cannot be examined", name,
                       program);
    const std::string file = "wss-" + name + ".so";
    const std::filesystem::path beside = self.parent_path() / file;
    const std::filesystem::path installed = self.parent_path().parent_path() / "lib/wss" / file;
    for (const std::filesystem::path& place : {beside, installed}) {
        const std::filesystem::path path = std::filesystem::canonical(place, error);
        if (error) continue;
        WSS_TRY(check_owner(path, info.st_uid).within("cannot load plug-in " + name));
        WSS_TRY(check_owner(path.parent_path(), info.st_uid).within("cannot load plug-in " + name));
        return path.string();
    }
    return failure(
        Code::kNotFound,
        "the plug-in for {}: volumes is not installed: neither {} nor {} exists; `make deps && make "
        "&& make install` builds and installs it",
        name, beside.string(), installed.string());
}

namespace {

struct Loaded {
    std::mutex lock;
    // Guarded by lock.
    std::map<std::string, const Plugin*> plugins;  // by name
    bool waits_ended = false;
};
Loaded& loaded() {
    static Loaded all;
    return all;
}

}  // namespace

Result<const Plugin*> load_plugin(const std::string& name, const std::string& needs) {
    Loaded& all = loaded();
    std::lock_guard guard(all.lock);
    const Plugin*& plugin = all.plugins[name];
    if (plugin == nullptr) {
        auto made = load(name, needs);
        if (!made) return made.status();
        plugin = *made;
        if (all.waits_ended) plugin->end_waits();
    }
    plugin->set_log_level(log_level());
    return plugin;
}

void end_plugin_waits() {
    Loaded& all = loaded();
    std::lock_guard guard(all.lock);
    all.waits_ended = true;
    for (const auto& [name, plugin] : all.plugins)
        if (plugin != nullptr) plugin->end_waits();
}

}  // namespace wss::io
