// SPDX-License-Identifier: Apache-2.0
// wssbench: measures the performance of WSS. context.h lists the sub-commands.
#include <cstdio>

#include "kernel/uapi/wss_version.h"
#include "lib/base/completion.h"
#include "lib/base/log.h"
#include "tools/wssbench/context.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/report.h"

namespace wss::wssbench {

namespace {

void describe_settings(CLI::App& app, Settings& settings) {
    app.add_option("--seconds", settings.seconds, "Seconds of one measurement")
        ->capture_default_str()
        ->check(CLI::Range(0.05, 3600.0));
    app.add_option("--warm-up", settings.warm_up, "Seconds of warm-up before each measurement")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 600.0));
    app.add_option("--repeats", settings.repeats,
                   "Measurements of each point, in turns; the median is reported")
        ->capture_default_str()
        ->check(CLI::Range(1u, 100u));
    app.add_flag("--quick", settings.quick, "Short measurements, once: for a first look, not for results");
    app.add_flag("!--no-pin", settings.pin, "Do not pin threads to processors");
    app.add_flag("--no-progress", settings.no_progress, "Print only failures to standard error");
    app.add_option("--directory", settings.directory, "Directory for temporary files (default: /var/tmp)")
        ->check(CLI::ExistingDirectory);
    app.add_option("--address", settings.address,
                   "Address of this machine's RDMA device, for --fabric rdma: rdma://10.0.0.1")
        ->type_name("URI");
}

// Applies --quick to settings that the user did not give.
void settle(const CLI::App& app, Settings& settings) {
    if (!settings.quick) return;
    if (app.count("--seconds") == 0) settings.seconds = 0.3;
    if (app.count("--warm-up") == 0) settings.warm_up = 0.1;
    if (app.count("--repeats") == 0) settings.repeats = 1;
}

std::string joined(int argc, char** argv) {
    std::string text = "wssbench";
    for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
    return text;
}

int run(int argc, char** argv) {
    CLI::App app("Measures WSS and compares it with others", "wssbench");
    Context context;
    context.command = joined(argc, argv);
    app.require_subcommand(1);
    app.fallthrough();
    app.set_version_flag("--version", "wssbench " WSS_VERSION);
    app.add_flag("--json", context.json, "Print the result as JSON");
    describe_settings(app, context.settings);
    for (auto add :
         {add_local, add_echo, add_remote, add_replay, add_affinity, add_pollers, add_paper_d, add_ramp,
          add_driver_figures, add_scaling, add_ceph, add_all, add_report, add_cache_sim, add_echo_server})
        add(app, context);
    app.parse_complete_callback([&] { settle(app, context.settings); });
    app.footer(
        "Every measuring command prints a table, or with --json one object {figure, rows, bound, ratio, "
        "method, …}.\n"
        "Examples:\n"
        "  wssbench echo --connections 1,2,4          the network alone\n"
        "  wssbench remote --method static,dynamic --size 512 --quick\n"
        "  wssbench cache-sim                        hit ratios on five generated traces\n"
        "Exit status: 0 done, 1 failed or interrupted, 2 wrong usage");
    if (print_completions(app, argc, argv)) return 0;
    processors();  // must be read before any thread is pinned
    catch_interrupts();
    if (Status status = log::set_level("error"); !status) return kFailed;
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        std::fprintf(stderr, "wssbench: %s\nsee wssbench --help or wssbench COMMAND --help\n", error.what());
        return kUsage;
    }
    return context.exit;
}

}  // namespace

}  // namespace wss::wssbench

int main(int argc, char** argv) {
    try {
        return wss::wssbench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wssbench: %s\n", error.what());
        return wss::wssbench::kFailed;
    }
}
