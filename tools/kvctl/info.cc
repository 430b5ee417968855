// SPDX-License-Identifier: Apache-2.0
// kvctl info: the status of every partition. kvctl watch-stats: the changes of its counters.
#include <poll.h>

#include <cstdio>

#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

// Returns one object for each partition, or none after it has reported an error.
std::vector<Json> ask_all(Context& context) {
    std::vector<Json> all;
    kv::Client* client = context.client();
    for (uint32_t i = 0; client != nullptr && i < client->partitions(); ++i) {
        kv::Info request;
        request.partition = i;
        if (!context.run(request)) return {};
        Json info = Json::parse(request.json, nullptr, false);
        if (!info.is_object()) {
            context.fail_with(kFailed, fmt::format("the answer of partition {} is not JSON", i));
            return {};
        }
        all.push_back(std::move(info));
    }
    return all;
}

// Prints sections as in Redis' INFO: "# Section", followed by name:value lines.
void print_section(const std::string& title, const Json& object) {
    std::printf("# %s\n", title.c_str());
    for (const auto& [name, value] : object.items())
        if (!value.is_object())
            std::printf("%s:%s\n", name.c_str(),
                        value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
    for (const auto& [name, value] : object.items())
        if (value.is_object()) print_section(title + "/" + name, value);
}

void info(Context& context, const std::vector<uint32_t>& partitions) {
    std::vector<Json> all = ask_all(context);
    if (context.json && !all.empty()) return context.print(all);
    for (uint32_t i = 0; i < all.size(); ++i)
        if (partitions.empty() || std::find(partitions.begin(), partitions.end(), i) != partitions.end())
            print_section(fmt::format("Partition {}", i), all[i]);
}

void flatten(const std::string& prefix, const Json& object, std::map<std::string, double>& out) {
    for (const auto& [name, value] : object.items()) {
        std::string path = prefix.empty() ? name : prefix + "." + name;
        if (value.is_object())
            flatten(path, value, out);
        else if (value.is_number())
            out[path] += value.get<double>();
    }
}

std::map<std::string, double> sums(const std::vector<Json>& all) {
    std::map<std::string, double> out;
    for (const Json& one : all) flatten("", one, out);
    return out;
}

void print_change(Context& context, const std::map<std::string, double>& before,
                  const std::map<std::string, double>& after, double seconds) {
    Json changes;
    for (const auto& [name, value] : after) {
        auto old = before.find(name);
        if (old != before.end() && old->second != value)
            changes[name] = {{"now", value}, {"per_second", (value - old->second) / seconds}};
    }
    if (context.json) return context.print(changes);
    std::printf("%-40s %16s %16s\n", "COUNTER (all partitions)", "NOW", "PER SECOND");
    for (const auto& [name, change] : changes.items())
        std::printf("%-40s %16.0f %16.1f\n", name.c_str(), change["now"].get<double>(),
                    change["per_second"].get<double>());
    std::printf("\n");
    std::fflush(stdout);
}

void watch(Context& context, uint32_t interval_s, uint64_t count) {
    std::vector<Json> before = ask_all(context);
    for (uint64_t i = 0; !before.empty() && (count == 0 || i < count); ++i) {
        poll(nullptr, 0, static_cast<int>(interval_s * 1000));
        std::vector<Json> after = ask_all(context);
        if (after.empty()) return;
        print_change(context, sums(before), sums(after), interval_s);
        before = std::move(after);
    }
}

}  // namespace

void add_info(CLI::App& app, Context& context) {
    auto partitions = std::make_shared<std::vector<uint32_t>>();
    CLI::App* command = app.add_subcommand("info", "Show the state of every partition");
    command->add_option("--partition", *partitions, "Only these, counted from 0");
    command->callback([&context, partitions] { info(context, *partitions); });
}

void add_watch_stats(CLI::App& app, Context& context) {
    auto interval = std::make_shared<uint32_t>(1);
    auto count = std::make_shared<uint64_t>(0);
    CLI::App* command =
        app.add_subcommand("watch-stats", "Show which counters change, and how fast, until interrupted");
    command->add_option("--interval", *interval, "Seconds")
        ->capture_default_str()
        ->check(CLI::Range(1, 3600));
    command->add_option("--count", *count, "Number of updates; 0: forever")->capture_default_str();
    command->callback([&context, interval, count] { watch(context, *interval, *count); });
}

}  // namespace wss::kvctl
