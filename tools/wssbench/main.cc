// SPDX-License-Identifier: Apache-2.0
// wssbench: measures what WSS claims. Each sub-command is a file of its own.
#include <cstdio>

#include "tools/wssbench/context.h"

namespace wss::wssbench {

void Context::fail(const Status& status) {
    std::fprintf(stderr, "wssbench: %s\n", status.to_string().c_str());
    exit = kFailed;
}

void Context::print(const Json& answer) const {
    std::printf("%s\n", answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

static int run(int argc, char** argv) {
    CLI::App app("Measures WSS and compares it with others", "wssbench");
    Context context;
    app.require_subcommand(1);
    app.fallthrough();
    app.add_flag("--json", context.json, "Print the result as JSON");
    add_cache_sim(app, context);
    app.footer(
        "Examples:\n"
        "  wssbench cache-sim                        hit ratios on three traces, ours and others\n"
        "  wssbench cache-sim --trace blocks.txt --cache-percent 5 --json\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return app.exit(error);
        std::fprintf(stderr, "wssbench: %s\nwssbench --help, or wssbench COMMAND --help, says more\n",
                     error.what());
        return kUsage;
    }
    return context.exit;
}

}  // namespace wss::wssbench

int main(int argc, char** argv) {
    try {
        return wss::wssbench::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "wssbench: %s\n", error.what());
        return wss::wssbench::kFailed;
    }
}
