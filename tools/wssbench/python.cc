// SPDX-License-Identifier: Apache-2.0
// Commands that use many programs: the figures of the key-value store, those that need the driver and
// therefore the lab, the scaling table, and the report. They are Python programs in tests/bench of the source
// tree; this file finds and runs them.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tools/wssbench/context.h"
#include "tools/wssbench/measure.h"

namespace wss::wssbench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPython = "/usr/bin/python3";
constexpr const char* kPart = "tests/bench/figures/__main__.py";

struct Command {
    const char* name;
    const char* what;
};
constexpr Command kCommands[] = {
    {"ramp", "RAMP: transports, size, mix, ycsb (A figs 4-7)"},
    {"mlockv", "One region a request against one a piece, in the lab (D fig 13)"},
    {"raw", "Raw I/O by record size, in the lab (D fig 15)"},
    {"block", "Block I/O through the page cache, in the lab (D fig 16)"},
    {"breakdown", "Where the time of a request goes, in the lab (D tables 3, 4)"},
    {"scaling", "Cost by connections, volumes, keys and cache engines"},
    {"ceph", "An image of a Ceph cluster of this host, directly and through WSS"},
    {"all", "Everything, into an HTML report and results.json"},
};

// Searches WSS_SOURCE, the current directory, and the folder two levels above that of this program (a build
// directory inside the tree).
Result<fs::path> source_tree() {
    std::error_code ignored;
    std::vector<fs::path> places;
    if (const char* told = std::getenv("WSS_SOURCE")) places.emplace_back(told);
    places.push_back(fs::current_path(ignored));
    places.push_back(fs::read_symlink("/proc/self/exe", ignored).parent_path() / "../..");
    for (const fs::path& place : places)
        if (fs::exists(place / kPart, ignored)) return fs::canonical(place, ignored);
    return failure(Code::kNotFound,
                   "this command needs the source tree ({}): run it there, or set WSS_SOURCE to it", kPart);
}

void run(const CLI::App& app, Context& context, const std::string& name,
         const std::vector<std::string>& words) {
    auto tree = source_tree();
    if (!tree) return context.fail(tree.status());
    std::error_code ignored;
    std::string build = fs::read_symlink("/proc/self/exe", ignored).parent_path();
    std::vector<std::string> all = {kPython, "-B", "-m", "tests.bench.figures", name, "--build", build};
    // Pass on the options before the command's name. Words after it are passed on unchanged.
    for (const char* option : {"--seconds", "--warm-up", "--repeats", "--address", "--directory"})
        if (app.count(option) > 0) all.insert(all.end(), {option, app.get_option(option)->as<std::string>()});
    for (const char* flag : {"--json", "--quick", "--no-progress"})
        if (app.count(flag) > 0) all.emplace_back(flag);
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    // Paths of the user are relative to the user's current directory.
    setenv("WSSBENCH_FROM", fs::current_path(ignored).c_str(), 1);
    setenv("WSSBENCH_COMMAND", context.command.c_str(), 1);
    if (chdir(tree->c_str()) < 0) return context.fail(Status::from_errno(errno, tree->string()));
    // The command replaces this process, so it receives Ctrl-C and provides the exit status.
    std::fflush(nullptr);
    execv(kPython, arguments.data());
    context.fail(Status::from_errno(errno, kPython));
}

}  // namespace

void add_python(CLI::App& app, Context& context) {
    for (size_t i = 0; i < std::size(kCommands); ++i) {
        CLI::App* command = app.add_subcommand(kCommands[i].name, kCommands[i].what);
        command->set_help_flag();  // --help goes to the Python program
        command->prefix_command();
        command->fallthrough(false);
        command->callback(
            [&app, &context, command, i] { run(app, context, kCommands[i].name, command->remaining()); });
    }
}

}  // namespace wss::wssbench
