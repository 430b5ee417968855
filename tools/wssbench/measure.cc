// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/measure.h"

#include <sched.h>
#include <signal.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "lib/base/summary.h"

namespace wss::wssbench {

namespace {

volatile sig_atomic_t caught = 0;

void on_signal(int) {
    if (caught != 0) _exit(kFailed);  // a second signal ends the program immediately
    caught = 1;
}

double clock_seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string first_match(const char* path, const std::string& key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(key)) continue;
        size_t value = line.find_first_not_of(" \t:=\"", key.size());
        if (value == std::string::npos) return "";
        return line.substr(value, line.find_last_not_of(" \"") + 1 - value);
    }
    return "";
}

constexpr std::pair<const char*, double Sample::*> kColumns[] = {{"rate", &Sample::rate},
                                                                 {"latency_us", &Sample::latency_us},
                                                                 {"p99_us", &Sample::p99_us},
                                                                 {"client_cpu_us", &Sample::client_cpu_us},
                                                                 {"server_cpu_us", &Sample::server_cpu_us}};

// The known values of one column, in the order of the turns (repetitions, figure.h).
std::vector<double> column(const std::vector<Sample>& samples, double Sample::*member) {
    std::vector<double> values;
    for (const Sample& sample : samples)
        if (sample.*member >= 0) values.push_back(sample.*member);
    return values;
}

// The values of a further column, or none if a sample has no number for it.
std::vector<double> more_column(const std::vector<Sample>& samples, const std::string& name) {
    std::vector<double> values;
    for (const Sample& sample : samples) {
        if (!sample.more.is_object() || !sample.more.contains(name) || !sample.more[name].is_number())
            return {};
        values.push_back(sample.more[name].get<double>());
    }
    return values;
}

// Merges the latency distributions of all turns: for each percentile that every turn has, the median over the
// turns.
Json joined_latencies(const std::vector<Sample>& samples) {
    std::vector<Json> turns;
    size_t known = SIZE_MAX;
    for (const Sample& sample : samples) {
        if (!sample.more.contains("latency")) return nullptr;
        turns.push_back(sample.more["latency"]);
        known = std::min(known, turns.back()["percent"].size());
    }
    Json joined = {{"percent", Json::array()}, {"us", Json::array()}, {"turns", Json::array()}};
    for (size_t i = 0; i < known; ++i) {
        std::vector<double> values;
        for (const Json& turn : turns) values.push_back(turn["us"][i].get<double>());
        joined["percent"].push_back(turns.front()["percent"][i]);
        joined["us"].push_back(rounded(summarise(values).median));
    }
    for (Json& turn : turns) joined["turns"].push_back(std::move(turn["us"]));
    return joined;
}

void add_more(const std::vector<Sample>& samples, Json& row) {
    if (samples.empty() || !samples.back().more.is_object()) return;
    for (const auto& [name, value] : samples.back().more.items()) {
        if (name == "latency") {
            if (Json joined = joined_latencies(samples); !joined.is_null()) row[name] = std::move(joined);
            continue;
        }
        std::vector<double> values = more_column(samples, name);
        row[name] = values.empty() ? value : Json(rounded(summarise(values).median));
        if (!values.empty()) row["turns"][name] = std::move(values);
    }
}

Json all_turns(const std::vector<Sample>& samples) {
    Json turns = Json::object();
    for (auto [name, member] : kColumns) {
        std::vector<double> values = column(samples, member);
        if (values.size() != samples.size()) continue;  // value n must belong to turn n
        std::transform(values.begin(), values.end(), values.begin(), rounded);
        turns[name] = std::move(values);
    }
    return turns;
}

}  // namespace

// Rounds by formatting and parsing, because multiplying by a power of ten would add a rounding error.
double rounded(double value) {
    return std::isfinite(value) ? std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr) : 0;
}

Json summary(const std::vector<Sample>& samples) {
    Json row;
    for (auto [name, member] : kColumns)
        if (auto values = column(samples, member); !values.empty())
            row[name] = rounded(summarise(values).median);
    Summary rates = summarise(column(samples, &Sample::rate));
    row["min"] = rounded(rates.min);
    row["max"] = rounded(rates.max);
    row["spread_percent"] = samples.size() > 1 ? Json(rounded(rates.spread_percent)) : Json(nullptr);
    row["repeats"] = samples.size();
    row["turns"] = all_turns(samples);
    add_more(samples, row);
    return row;
}

bool interrupted() {
    return caught > 0;
}

void catch_interrupts() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

bool sleep_for(double seconds) {
    for (double end = seconds_now() + seconds; !interrupted();) {
        double left = end - seconds_now();
        if (left <= 0) return true;
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, 0.05)));
    }
    return false;
}

double seconds_now() {
    return clock_seconds(CLOCK_MONOTONIC);
}

double own_cpu_seconds() {
    return clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double storage_bytes_of(const std::string& process) {
    std::string bytes = first_match(fmt::format("/proc/{}/io", process).c_str(), "read_bytes");
    return bytes.empty() ? -1 : std::strtod(bytes.c_str(), nullptr);
}

std::vector<int> processors() {
    // Read once, before any thread is pinned.
    static const std::vector<int> all = [] {
        std::vector<int> found;
        cpu_set_t set;
        CPU_ZERO(&set);
        sched_getaffinity(0, sizeof set, &set);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(cpu, &set)) found.push_back(cpu);
        return found;
    }();
    return all;
}

std::vector<int> client_processors() {
    std::vector<int> all = processors();
    if (all.size() > 1) all.resize(all.size() / 2);
    return all;
}

std::vector<int> server_processors() {
    std::vector<int> all = processors();
    if (all.size() > 1) all.erase(all.begin(), all.begin() + static_cast<long>(all.size() / 2));
    return all;
}

void pin_thread(int thread, const std::vector<int>& to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : to) CPU_SET(cpu, &set);
    sched_setaffinity(thread, sizeof set, &set);  // errors are ignored: the thread may have ended
}

Json machine() {
    utsname system{};
    uname(&system);
    double load = 0;
    std::ifstream("/proc/loadavg") >> load;
    return {{"processors", processors().size()},
            {"model", first_match("/proc/cpuinfo", "model name")},
            {"memory", first_match("/proc/meminfo", "MemTotal")},
            {"kernel", std::string(system.release)},
            {"system", first_match("/etc/os-release", "PRETTY_NAME")},
            {"load_at_start", load}};
}

}  // namespace wss::wssbench
