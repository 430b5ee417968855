// SPDX-License-Identifier: Apache-2.0
// Plug-ins: backends whose library the target does not link. Each is a shared object of this project,
// wss-NAME.so. It is loaded when the first volume of its kind is opened, and never unloaded, because its
// library has threads.
//
// A plug-in is searched for next to the running program (a build tree), then in ../lib/wss relative to the
// program's directory (make install). It runs with the rights of the program: its file and directory must
// belong to root or to the owner of the program, and only the owner may have write permission.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include <string>

#include "lib/io/backend.h"

namespace wss::io {

// Must grow with each change of the shared headers: this file, backend.h and the headers that they include.
// The digest covers these headers and the number. make lint prints the next values of both
// (tests/lint/plugin_abi.py).
constexpr uint32_t kPluginAbi = 23;  // shared: 61c4922cee1e

struct Plugin {
    uint32_t abi = kPluginAbi;
    // A difference shows a different compiler or different flags.
    uint32_t request_bytes = sizeof(Request);
    uint32_t limits_bytes = sizeof(Limits);
    // Sets the program's log level. Called before open().
    void (*set_log_level)(const char* level) = nullptr;
    // Called when the program ends: openings and resizes of storage that does not answer then return an error
    // at once.
    void (*end_waits)() = nullptr;
    // `rest` is the specification after "NAME:".
    Result<std::unique_ptr<Backend>> (*open)(const std::string& rest, const OpenOptions& options) = nullptr;
    // As check_backend().
    Status (*check)(const std::string& rest, const OpenOptions& options) = nullptr;
};

// The one symbol that a plug-in exports: extern "C" const wss::io::Plugin* wss_io_plugin().
using PluginEntry = const Plugin* (*)();
constexpr const char* kPluginEntry = "wss_io_plugin";

// `needs` names the package with the library that the plug-in links. The error message shows it.
Result<const Plugin*> load_plugin(const std::string& name, const std::string& needs);

// Calls end_waits() of every loaded plug-in, and of each one that is loaded later. Cannot be undone.
void end_plugin_waits();

// The parts of load_plugin(), for tests.
Result<std::string> find_plugin(const std::string& program, const std::string& name);
Status check_plugin(const std::string& path, const Plugin& plugin);

}  // namespace wss::io
