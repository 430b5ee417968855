// SPDX-License-Identifier: Apache-2.0
// Context: the settings and the output of results, which all sub-commands of wssbench share. The core of this
// directory consists of measure (time, medians, interruption), figure (points in turns, rows), text (tables),
// report (the HTML page, which page/*.js draws), load (threads that keep requests in flight) and program
// (measured processes). The other files are sub-commands and their parts. paper_d and lab contain several
// sub-commands.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"

namespace wss::wssbench {

using Json = nlohmann::ordered_json;

// Exit status.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

// How to measure. Every command that measures has these options.
struct Settings {
    double seconds = 1;    // of one measurement
    double warm_up = 0.3;  // before it
    // Number of turns, whose median is reported. With fewer turns no ratio is conclusive (text.cc).
    uint32_t repeats = 5;
    bool quick = false;  // shorter measurements, each only once
    bool pin = true;     // pin threads to processors, if there are two or more
    bool no_progress = false;
    std::string directory;  // directory for files; default: a temporary one under /var/tmp
    std::string address;    // address of this machine for --fabric rdma: rdma://ADDRESS
};

struct Context {
    bool json = false;
    int exit = kDone;
    Settings settings;
    std::string command;  // the command line as the user wrote it

    void fail(const Status& status);
    void print(const Json& answer) const;
    // Prints a finished figure as a table or as JSON.
    void deliver(const Json& figure);
};

void add_cache_sim(CLI::App& app, Context& context);
void add_local(CLI::App& app, Context& context);
void add_echo(CLI::App& app, Context& context);
void add_echo_server(CLI::App& app, Context& context);
void add_remote(CLI::App& app, Context& context);
void add_replay(CLI::App& app, Context& context);
void add_affinity(CLI::App& app, Context& context);
void add_pollers(CLI::App& app, Context& context);
void add_paper_d(CLI::App& app, Context& context);
void add_ramp(CLI::App& app, Context& context);
void add_scaling(CLI::App& app, Context& context);
void add_driver_figures(CLI::App& app, Context& context);
void add_ceph(CLI::App& app, Context& context);
void add_all(CLI::App& app, Context& context);

}  // namespace wss::wssbench
