// SPDX-License-Identifier: Apache-2.0
// wssctl: the operator's tool. Volumes and sessions of a target by its control socket, devices of the driver
// by sysfs. Each sub-command is a file of its own.
#include <cstdio>

#include "tools/wssctl/context.h"

namespace wss::wssctl {

void Context::fail(const Status& status) {
    std::fprintf(stderr, "wssctl: %s\n", status.to_string().c_str());
    exit = status.code() == Code::kUnavailable ? kNotReachable : kFailed;
}

void Context::print(const Json& answer) const {
    std::printf("%s\n", answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

static void describe(CLI::App& app, Context& context) {
    app.require_subcommand(1);
    app.fallthrough();
    app.add_option("--control", context.control, "Control socket of wss-target")
        ->capture_default_str()
        ->type_name("PATH");
    app.add_option("--timeout", context.timeout_seconds,
                   "How long to wait for the target's answer, in seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 3600));
    app.add_flag("--json", context.json, "Print the answer as JSON");
    app.add_option("--sysfs", context.sysfs)->group("");
    app.add_option("--dev", context.dev)->group("");
    add_volume(app, context);
    add_session(app, context);
    add_stats(app, context);
    add_ping(app, context);
    add_map(app, context);
    add_unmap(app, context);
    add_list(app, context);
    app.footer(
        "Examples:\n"
        "  wssctl volume create disk0 aio:/var/lib/wss/disk0.img --size 10G --create\n"
        "  wssctl map rdma://10.0.0.1:5555 disk0     makes /dev/wss0\n"
        "  wssctl stats --json\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not reachable (target not running, module not "
        "loaded)");
}

static int run(int argc, char** argv) {
    CLI::App app("Controls WSS targets and the WSS driver of this machine", "wssctl");
    Context context;
    describe(app, context);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kDone : kUsage;
    }
    return context.exit;
}

}  // namespace wss::wssctl

int main(int argc, char** argv) {
    try {
        return wss::wssctl::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wssctl: %s\n", error.what());
        return wss::wssctl::kFailed;
    }
}
