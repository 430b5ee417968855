// SPDX-License-Identifier: Apache-2.0
// wssctl: the operator's tool. It manages volumes and sessions of a target through its control socket, and
// devices of the driver through sysfs. context.h lists the sub-commands.
#include <cstdio>

#include "kernel/uapi/wss_version.h"
#include "lib/base/completion.h"
#include "lib/base/suggest.h"
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
    app.set_version_flag("--version", "wssctl " WSS_VERSION);
    app.add_option(
           "--control", context.control,
           "Control socket of wss-target, or the name of its service (default: the socket in /run/wss, "
           "else the one of a target that you run yourself)")
        ->type_name("PATH|NAME");
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
    add_metrics(app, context);
    add_ping(app, context);
    add_map(app, context);
    add_unmap(app, context);
    add_maps(app, context);
    add_list(app, context);
    add_discover(app, context);
    add_doctor(app, context);
    add_secret(app, context);
    add_auth(app, context);
    add_trace(app, context);
    add_cache(app, context);
    add_top(app, context);
    app.footer(
        "Examples:\n"
        "  wssctl volume create disk0 aio:/var/lib/wss/disk0.img --size 10G --create\n"
        "  wssctl map rdma://10.0.0.1:5555 disk0     creates /dev/wss0\n"
        "  wssctl stats --json\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not reachable (target not running, module not "
        "loaded)");
}

static std::vector<std::string> commands_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

static void add_options_of(const CLI::App& app, std::vector<std::string>& names) {
    for (const CLI::Option* option : app.get_options())
        if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
}

// An error for the first unknown word, with a suggestion, or an empty string if there is none.
static std::string hint_at_word(const CLI::App& app) {
    std::vector<std::string> rest = app.remaining(true);
    if (rest.empty()) return {};
    const CLI::App* deepest = &app;
    while (!deepest->get_subcommands().empty()) deepest = deepest->get_subcommands().front();
    bool option = rest[0].starts_with('-');
    std::vector<std::string> names = commands_of(*deepest);
    if (names.empty()) names = commands_of(app);
    if (option) {
        names.clear();
        for (const CLI::App* level : {deepest, &app}) add_options_of(*level, names);
    }
    return fmt::format("unknown {} '{}'{}", option ? "option" : "command", rest[0],
                       suggestion(rest[0], {names.begin(), names.end()}));
}

static int run(int argc, char** argv) {
    CLI::App app("Controls WSS targets and the WSS driver of this machine", "wssctl");
    Context context;
    describe(app, context);
    if (print_completions(app, argc, argv)) return kDone;
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        std::string hint = hint_at_word(app);
        std::fprintf(stderr, "wssctl: %s\n", hint.empty() ? error.what() : hint.c_str());
        std::fprintf(stderr, "see wssctl --help or wssctl COMMAND --help\n");
        return kUsage;
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
