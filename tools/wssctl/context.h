// SPDX-License-Identifier: Apache-2.0
// Context: the global options, the exit status and the output of answers, which all sub-commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/status.h"

namespace wss::wssctl {

using Json = nlohmann::ordered_json;

// The exit statuses, which --help documents.
enum Exit : int {
    kDone = 0,
    kFailed = 1,        // the target or the driver refused, or there was another error
    kUsage = 2,         // wrong command line
    kNotReachable = 3,  // no target at the socket or address, or the module is not loaded
};

struct Context {
    std::string control;  // a path, the name of a service, or "": see find_control_socket()
    uint32_t timeout_seconds = 60;
    bool json = false;
    std::string sysfs = "/sys";  // tests use another tree
    std::string dev = "/dev";
    int exit = kDone;

    // Prints `status` and sets the matching exit status.
    void fail(const Status& status);
    // With --json, prints the answer itself to standard output.
    void print(const Json& answer) const;
};

// There is one per sub-command, each in the file of that name. Only add_secret() is in auth.cc.
void add_volume(CLI::App& app, Context& context);
void add_session(CLI::App& app, Context& context);
void add_stats(CLI::App& app, Context& context);
void add_metrics(CLI::App& app, Context& context);
void add_ping(CLI::App& app, Context& context);
void add_map(CLI::App& app, Context& context);
void add_unmap(CLI::App& app, Context& context);
void add_maps(CLI::App& app, Context& context);
void add_list(CLI::App& app, Context& context);
void add_discover(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_secret(CLI::App& app, Context& context);
void add_auth(CLI::App& app, Context& context);
void add_trace(CLI::App& app, Context& context);
void add_cache(CLI::App& app, Context& context);
void add_top(CLI::App& app, Context& context);

}  // namespace wss::wssctl
