// SPDX-License-Identifier: Apache-2.0
// wssctl ping
#include <cstdio>

#include "lib/base/clock.h"
#include "tools/wssctl/client.h"

namespace wss::wssctl {

void add_ping(CLI::App& app, Context& context) {
    app.add_subcommand("ping", "Check whether the target responds")->callback([&context] {
        Nanoseconds before = SystemClock().now();
        auto answer = ask(context, "ping");
        int64_t microseconds = (SystemClock().now() - before).count / 1000;
        if (!answer) return context.fail(answer.status());
        if (context.json) return context.print(*answer);
        const std::string role = answer->value("role", "");
        std::printf("%s %s%s, pid %d, answered in %lld us\n", answer->value("program", "?").c_str(),
                    answer->value("version", "?").c_str(), role.empty() ? "" : (", role " + role).c_str(),
                    answer->value("pid", 0), static_cast<long long>(microseconds));
    });
}

}  // namespace wss::wssctl
