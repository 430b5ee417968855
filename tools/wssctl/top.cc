// SPDX-License-Identifier: Apache-2.0
// wssctl top: live statistics of the cache. For each volume it shows the hit ratio, the origin of the bytes,
// the dirty lines and the duration of commands.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "lib/base/size.h"
#include "tools/wssctl/client.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    double interval_seconds = 1;
    uint32_t count = 0;
};

// Changes of one volume's counters between two samples.
struct Rates {
    std::string volume, policy;
    double reads = 0, writes = 0;               // per second
    double from_engines = 0, from_storage = 0;  // bytes per second
    double hit_ratio = -1;                      // -1: no reads
    double read_us = -1, write_us = -1;
    uint64_t dirty_lines = 0;
};

double difference(const Json& now, const Json& before, const char* name) {
    auto value = [name](const Json& counters) {
        auto found = counters.find(name);
        return found != counters.end() && found->is_number() ? found->get<double>() : 0;
    };
    return value(now) - value(before);
}

std::vector<Rates> rates_of(const Json& now, const Json& before, double seconds) {
    std::vector<Rates> all;
    for (const Json& volume : now.value("volumes", Json::array())) {
        const std::string name = volume.value("name", "?");
        Json old = Json::object();
        for (const Json& other : before.value("volumes", Json::array()))
            if (other.value("name", "") == name) old = other.value("counters", Json::object());
        const Json counters = volume.value("counters", Json::object());
        auto delta = [&](const char* counter) { return difference(counters, old, counter); };
        Rates rates{.volume = name, .policy = volume.value("policy", "?")};
        const double reads = delta("reads"), writes = delta("writes");
        rates.reads = reads / seconds;
        rates.writes = writes / seconds;
        rates.from_engines = delta("out_of_band_read_bytes") / seconds;
        rates.from_storage = delta("storage_read_bytes") / seconds;
        if (reads > 0) rates.hit_ratio = delta("read_hits") / reads;
        if (reads > 0) rates.read_us = delta("read_ns") / reads / 1000;
        if (writes > 0) rates.write_us = delta("write_ns") / writes / 1000;
        rates.dirty_lines = volume.value("dirty_lines", uint64_t{0});
        all.push_back(std::move(rates));
    }
    return all;
}

std::string or_dash(double value, const char* unit) {
    return value < 0 ? "-" : fmt::format("{:.1f}{}", value, unit);
}

void print_table(const std::vector<Rates>& all) {
    if (isatty(STDOUT_FILENO)) std::printf("\033[H\033[2J");
    Table table({"VOLUME", "POLICY", "READS/s", "WRITES/s", "HITS", "FROM ENGINES/s", "FROM STORAGE/s",
                 "DIRTY", "READ", "WRITE"});
    for (const Rates& rates : all)
        table.add({rates.volume, rates.policy, fmt::format("{:.0f}", rates.reads),
                   fmt::format("{:.0f}", rates.writes),
                   or_dash(rates.hit_ratio < 0 ? -1 : 100 * rates.hit_ratio, "%"),
                   readable_size(static_cast<uint64_t>(rates.from_engines)),
                   readable_size(static_cast<uint64_t>(rates.from_storage)),
                   std::to_string(rates.dirty_lines), or_dash(rates.read_us, " us"),
                   or_dash(rates.write_us, " us")});
    table.print();
    std::fflush(stdout);
}

Json to_json(const std::vector<Rates>& all, double seconds) {
    Json volumes = Json::array();
    auto maybe = [](double value) { return value < 0 ? Json(nullptr) : Json(value); };
    for (const Rates& rates : all)
        volumes.push_back({{"name", rates.volume},
                           {"policy", rates.policy},
                           {"reads_per_second", rates.reads},
                           {"writes_per_second", rates.writes},
                           {"hit_ratio", maybe(rates.hit_ratio)},
                           {"engine_bytes_per_second", rates.from_engines},
                           {"storage_bytes_per_second", rates.from_storage},
                           {"dirty_lines", rates.dirty_lines},
                           {"read_us", maybe(rates.read_us)},
                           {"write_us", maybe(rates.write_us)}});
    return {{"seconds", seconds}, {"volumes", volumes}};
}

void top(Context& context, const Arguments& arguments) {
    using Clock = std::chrono::steady_clock;
    Json before;
    Clock::time_point looked;
    for (uint32_t look = 0; arguments.count == 0 || look <= arguments.count; ++look) {
        if (look > 0) std::this_thread::sleep_for(std::chrono::duration<double>(arguments.interval_seconds));
        auto answer = ask(context, "cache.status");
        if (!answer) return context.fail(answer.status());
        const Clock::time_point now = Clock::now();
        if (look > 0) {
            const double seconds = std::chrono::duration<double>(now - looked).count();
            const auto rates = rates_of(*answer, before, seconds);
            // Prints one object per line and flushes it, for a program that reads it live.
            if (context.json)
                std::printf("%s\n", to_json(rates, seconds).dump().c_str()), std::fflush(stdout);
            else
                print_table(rates);
        }
        before = std::move(*answer);
        looked = now;
    }
}

}  // namespace

void add_top(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand(
        "top", "Show the activity of the cache live: hits, sources of bytes, dirty lines, latency");
    command->add_option("--interval", arguments.interval_seconds, "Seconds between updates")
        ->capture_default_str()
        ->check(CLI::Range(0.05, 3600.0));
    command->add_option("--count", arguments.count, "Number of updates; 0: until interrupted")
        ->capture_default_str();
    command->callback([&context] { top(context, arguments); });
}

}  // namespace wss::wssctl
