// SPDX-License-Identifier: Apache-2.0
// Plug-ins: backends whose library the target does not link. Each is a shared object of ours, wss-NAME.so,
// loaded when the first volume of its kind is opened, and never unloaded (its library has threads).
//
// A plug-in is found beside the running program (a build tree), else in ../lib/wss as seen from the program's
// folder (make install). It is code that runs as us: file and folder must belong to root or to the owner of
// the program, and nobody else may write them.
//
// Thread-safety: functions; any thread.
#pragma once

#include <string>

#include "lib/io/backend.h"

namespace wss::io {

// Grows with each change of what both sides see: this file, backend.h and what they include. The digest is of
// that and the number; make lint prints the next two (tests/lint/plugin_abi.py).
constexpr uint32_t kPluginAbi = 13;  // shared: d3d6b5c89922

struct Plugin {
    uint32_t abi = kPluginAbi;
    // Another compiler or other flags show here.
    uint32_t request_bytes = sizeof(Request);
    uint32_t limits_bytes = sizeof(Limits);
    // The program's log level, before open().
    void (*set_log_level)(const char* level) = nullptr;
    // The program ends: openings and resizes of storage that does not answer return at once, with an error.
    void (*end_waits)() = nullptr;
    // `rest` is the specification after "NAME:".
    Result<std::unique_ptr<Backend>> (*open)(const std::string& rest, const OpenOptions& options) = nullptr;
    // As check_backend().
    Status (*check)(const std::string& rest, const OpenOptions& options) = nullptr;
};

// What a plug-in exports: extern "C" const wss::io::Plugin* wss_io_plugin().
using PluginEntry = const Plugin* (*)();
constexpr const char* kPluginEntry = "wss_io_plugin";

// `needs` is the package with the library that the plug-in links, for the error.
Result<const Plugin*> load_plugin(const std::string& name, const std::string& needs);

// Of every plug-in, also of one that is loaded later. For good.
void end_plugin_waits();

// The parts of it, for tests.
Result<std::string> find_plugin(const std::string& program, const std::string& name);
Status check_plugin(const std::string& path, const Plugin& plugin);

}  // namespace wss::io
