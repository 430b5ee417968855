// SPDX-License-Identifier: Apache-2.0
// wssctl cache status | policy | drain | remove | forget | give-up | add
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssctl/client.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

struct Arguments {
    std::string volume, policy, engine;
    bool unsafe = false;
};

uint64_t number(const Json& json, const char* key) {
    auto found = json.find(key);
    return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

std::string text(const Json& json, const char* key) {
    auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : "?";
}

std::string percent(uint64_t part, uint64_t whole) {
    return whole == 0
               ? "-"
               : fmt::format("{:.1f}%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void print_engines(const Json& status) {
    Table table(
        {"ENGINE", "IDENTITY", "STATE", "LINES", "USED", "DIRTY", "CLIENTS", "TO CLIENTS", "ADDRESS"});
    for (const Json& engine : status.value("engines", Json::array())) {
        const Json addresses = engine.value("addresses", Json::array());
        const uint64_t lines = number(engine, "lines");
        table.add({std::to_string(number(engine, "index")), text(engine, "identity"), text(engine, "state"),
                   std::to_string(lines), percent(number(engine, "used_lines"), lines),
                   std::to_string(number(engine, "dirty_lines")), std::to_string(number(engine, "clients")),
                   readable_size(number(engine, "bytes_to_clients")),
                   addresses.empty() || !addresses[0].is_string() ? "-" : addresses[0].get<std::string>()});
    }
    table.empty() ? void(std::printf("no cache engines\n")) : table.print();
}

void print_volumes(const Json& status) {
    Table table({"VOLUME", "POLICY", "READS", "HITS", "BY ENGINES", "FROM STORAGE", "DIRTY", "FOR", "ERROR"});
    for (const Json& volume : status.value("volumes", Json::array())) {
        const Json counters = volume.value("counters", Json::object());
        const bool unsafe = volume.value("unsafe", false);
        table.add({text(volume, "name"), text(volume, "policy") + (unsafe ? " (unsafe)" : ""),
                   std::to_string(number(counters, "reads")),
                   percent(number(counters, "read_hits"), number(counters, "reads")),
                   readable_size(number(counters, "out_of_band_read_bytes") +
                                 number(counters, "out_of_band_write_bytes")),
                   readable_size(number(counters, "storage_read_bytes")),
                   std::to_string(number(volume, "dirty_lines")),
                   fmt::format("{:.1f} s", static_cast<double>(number(volume, "oldest_dirty_ms")) / 1000),
                   text(volume, "error")});
    }
    if (!table.empty()) table.print();
}

void print_recovery(const Json& status) {
    if (!status.value("recovering", false)) return;
    std::string missing;
    for (const Json& engine : status.value("awaited", Json::array()))
        missing += (missing.empty() ? "" : ", ") + engine.get<std::string>();
    if (missing.empty())
        std::printf("recovering: dirty lines are being restored\n");
    else
        std::printf(
            "recovering: waiting for cache engines that may hold acknowledged writes: %s (wssctl cache "
            "forget ends the wait)\n",
            missing.c_str());
}

void print_trouble(const Json& status) {
    const std::string trouble = status.value("trouble", "");
    if (!trouble.empty())
        std::printf("writes wait: the cache cannot save its state for the next start (--state): %s\n",
                    trouble.c_str());
}

void print_lost(const Json& status) {
    for (const Json& volume : status.value("volumes", Json::array())) {
        const uint64_t lost = number(volume, "lost_bytes");
        if (lost == 0) continue;
        const std::string name = text(volume, "name");
        const uint64_t lost_for = number(volume, "lost_for_ms"), grace = number(status, "grace_ms");
        const std::string waits =
            lost_for < grace ? fmt::format("{} commands wait for them, for at most {} s; after that, ",
                                           number(volume, "waiting"), (grace - lost_for + 999) / 1000)
                             : "";
        std::printf(
            "volume %s: %s of acknowledged writes are only in engines that are away (engines away: %llu); "
            "%sreading them fails until such an engine returns, or the writes are given up (wssctl cache "
            "give-up %s)\n",
            name.c_str(), readable_size(lost).c_str(),
            static_cast<unsigned long long>(number(status, "away")), waits.c_str(), name.c_str());
    }
}

void print_single(const Json& status) {
    for (const char* kind : {"volumes", "absent"})
        for (const Json& volume : status.value(kind, Json::array()))
            if (const uint64_t lines = number(volume, "single_lines"); lines > 0)
                std::printf(
                    "volume %s: %llu dirty lines have only one copy. Such a line is lost if its engine is "
                    "lost before real storage accepts the line or another engine has a second copy\n",
                    text(volume, "name").c_str(), static_cast<unsigned long long>(lines));
}

void print_absent(const Json& status) {
    for (const Json& volume : status.value("absent", Json::array())) {
        const std::string name = text(volume, "name");
        std::printf(
            "volume %s (%s) is not open: cache engines keep %llu dirty lines of it until it is opened, or "
            "the lines are given up (wssctl cache give-up %s)%s\n",
            name.c_str(), text(volume, "wwid").c_str(),
            static_cast<unsigned long long>(number(volume, "dirty_lines")), name.c_str(),
            volume.value("lost", false) ? "; other dirty lines are lost" : "");
    }
}

void print_engine_process(const Json& status) {
    Table table({"STORAGE", "UP", "LINES", "USED", "CLIENTS", "ERROR"});
    for (const Json& storage : status.value("storages", Json::array()))
        table.add({text(storage, "address"), storage.value("up", false) ? "yes" : "no",
                   std::to_string(number(storage, "lines")),
                   percent(number(storage, "used_lines"), number(storage, "lines")),
                   std::to_string(number(storage, "clients")), text(storage, "error")});
    table.print();
}

void status(Context& context) {
    auto answer = ask(context, "cache.status");
    const bool is_engine = !answer && answer.status().code() != Code::kUnavailable;
    // A wss-cache has engine.status instead at its control socket.
    if (is_engine) {
        auto engine = ask(context, "engine.status");
        if (engine) return context.json ? context.print(*engine) : print_engine_process(*engine);
    }
    if (!answer) return context.fail(answer.status());
    if (context.json) return context.print(*answer);
    print_recovery(*answer);
    print_trouble(*answer);
    print_engines(*answer);
    print_volumes(*answer);
    print_lost(*answer);
    print_single(*answer);
    print_absent(*answer);
}

void simple(Context& context, const char* method, const Json& params) {
    auto answer = request_change(context, method, params);
    if (!answer) return context.fail(answer.status());
    if (context.json) context.print(*answer);
}

}  // namespace

void add_cache(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* cache = app.add_subcommand(
        "cache", "The cache of the target: status, policy, drain, remove, add, forget, give-up");
    cache->require_subcommand(1);
    cache
        ->add_subcommand("status",
                         "Show engines and volumes (with the --control of a wss-cache: its storage engines)")
        ->callback([&context] { status(context); });
    CLI::App* policy =
        cache->add_subcommand("policy", "Set how a volume is cached; dirty lines are destaged first");
    policy->add_option("volume", arguments.volume, "Name of the volume")->required();
    policy->add_option("policy", arguments.policy, "write-through, write-back, write-around or none")
        ->required();
    policy->add_flag("--unsafe", arguments.unsafe,
                     "permit write-back with one engine, although its loss loses acknowledged writes");
    policy->callback([&context] {
        simple(context, "cache.policy",
               {{"volume", arguments.volume}, {"policy", arguments.policy}, {"unsafe", arguments.unsafe}});
    });
    CLI::App* drain = cache->add_subcommand("drain", "Destage dirty lines. Returns when all are in storage");
    drain->add_option("volume", arguments.volume, "Name of the volume (default: all)");
    drain->callback([&context] {
        simple(context, "cache.drain",
               arguments.volume.empty() ? Json::object() : Json{{"volume", arguments.volume}});
    });
    CLI::App* remove =
        cache->add_subcommand("remove", "Destage an engine's dirty lines and release the engine");
    remove->add_option("engine", arguments.engine, "Its number in `wssctl cache status`")->required();
    remove->callback([&context] { simple(context, "cache.remove", {{"engine", arguments.engine}}); });
    CLI::App* add = cache->add_subcommand(
        "add", "Make a wss-cache rejoin the storage engines that released it (needs its --control)");
    add->callback([&context] { simple(context, "engine.join", Json::object()); });
    CLI::App* give_up = cache->add_subcommand(
        "give-up",
        "Give up acknowledged writes whose only copies are in engines that are away, or the dirty lines of a "
        "volume that is not open: reads then return older data, and one flush fails");
    give_up->add_option("volume", arguments.volume, "Name of the volume, or its WWID (naa.3...)")->required();
    give_up->callback([&context] { simple(context, "cache.give_up", {{"volume", arguments.volume}}); });
    cache
        ->add_subcommand(
            "forget",
            "After a restart: stop waiting for engines that may hold dirty lines. Reads of volumes that may "
            "have lost writes fail until these writes are given up (wssctl cache give-up)")
        ->callback([&context] { simple(context, "cache.forget", Json::object()); });
}

}  // namespace wss::wssctl
