// SPDX-License-Identifier: Apache-2.0
// wssctl stats: counters of the target (from its control socket) and of the driver (from sysfs), if they run
// on this machine.
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssctl/client.h"
#include "tools/wssctl/driver.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    bool target = false, driver = false;
};

bool is_bytes(const std::string& counter) {
    return counter.find("bytes") != std::string::npos;
}

std::string cell(const std::string& counter, const Json& value) {
    if (!value.is_number_unsigned()) return value.is_string() ? value.get<std::string>() : value.dump();
    return is_bytes(counter) ? readable_size(value.get<uint64_t>()) : std::to_string(value.get<uint64_t>());
}

// Prints lines of "name  value".
void print_counters(const std::string& title, const Json& counters) {
    std::printf("%s\n", title.c_str());
    size_t width = 0;
    for (const auto& [name, value] : counters.items()) width = std::max(width, name.size());
    for (const auto& [name, value] : counters.items())
        std::printf("  %-*s  %s\n", static_cast<int>(width), name.c_str(), cell(name, value).c_str());
}

void print_volumes(const Json& volumes) {
    Table table({"VOLUME", "READS", "READ", "WRITES", "WRITTEN", "FLUSHES", "DISCARDS", "OTHERS", "DELAYED",
                 "ERRORS"});
    for (const auto& [name, totals] : volumes.items()) {
        auto value = [&totals = totals](const char* key) {
            return cell(key, totals.value(key, Json(uint64_t{0})));
        };
        table.add({name, value("reads"), value("read_bytes"), value("writes"), value("written_bytes"),
                   value("flushes"), value("discards"), value("others"), value("delayed"), value("errors")});
    }
    if (!table.empty()) table.print();
}

double counter(const Json& counters, const char* name) {
    auto found = counters.find(name);
    return found != counters.end() && found->is_number() ? found->get<double>() : 0;
}

// Prints a ratio. 1.00 means one region, or one RDMA operation, per request.
void print_ratio(const char* what, double count, double per) {
    if (per > 0) std::printf("  %s: %.2f\n", what, count / per);
}

void print_target(const Json& stats) {
    for (const auto& [section, counters] : stats.items()) {
        if (counters.empty()) continue;  // for example a program without RDMA devices
        if (section == "volumes") {
            print_volumes(counters);
            continue;
        }
        print_counters("target, " + section, counters);
        print_ratio("RDMA operations per data request",
                    counter(counters, "rdma_reads") + counter(counters, "rdma_writes"),
                    counter(counters, "data_requests"));
    }
}

void print_driver(const Json& sessions) {
    for (const auto& [name, session] : sessions.items()) {
        const Json& counters = session["counters"];
        print_counters("driver, " + name + " to " + session.value("target", "?") + " (" +
                           session.value("state", "?") + ")",
                       counters);
        // dma_maps counts every request with mapped pages, including those of discovery.
        print_ratio("regions per mapped request", counter(counters, "regions_registered"),
                    counter(counters, "dma_maps"));
    }
}

void stats(Context& context, const Arguments& arguments) {
    bool either = !arguments.target && !arguments.driver;
    Json answer = Json::object();
    Status target_missing, driver_missing;
    if (arguments.target || either) {
        auto asked = ask(context, "stats");
        if (asked)
            answer["target"] = *asked;
        else
            target_missing = asked.status();
    }
    if (arguments.driver || either) {
        driver_missing = check_loaded(context);
        if (driver_missing) answer["driver"] = {{"sessions", session_statistics(context)}};
    }
    // By default both are tried, and one of them suffices.
    if (arguments.target && !target_missing) return context.fail(target_missing);
    if (arguments.driver && !driver_missing) return context.fail(driver_missing);
    if (answer.empty()) {
        context.fail(target_missing);
        return context.fail(driver_missing);
    }
    if (context.json) return context.print(answer);
    if (answer.contains("target")) print_target(answer["target"]);
    if (answer.contains("driver")) print_driver(answer["driver"]["sessions"]);
}

}  // namespace

void add_stats(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command =
        app.add_subcommand("stats", "Show counters of the target and of the driver, if they run here");
    command->add_flag("--target", arguments.target, "only the target's");
    command->add_flag("--driver", arguments.driver, "only the driver's");
    command->callback([&context] { stats(context, arguments); });
}

}  // namespace wss::wssctl
