// SPDX-License-Identifier: Apache-2.0
// wssbench scaling: the cost of an operation by the numbers of connections, volumes, keys and cache
// engines, and the memory for each of them.
//
// The cost is the processor time of both sides, because a rate would depend more on the number of processors.
#include "tools/wssbench/scaling.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "lib/base/summary.h"
#include "tools/wssbench/kv_store.h"

namespace wss::wssbench {

namespace {

constexpr uint32_t kDepth = 8;     // requests in flight for each connection, and for each cache engine
constexpr uint32_t kBytes = 4096;  // of a request

using Shared = std::shared_ptr<Storage>;

struct Kind {
    const char* name;
    Result<Sample> (*measure)(const Context& context, uint32_t count, const Window& window);
    std::vector<uint32_t> counts, quick_counts;
};

// Temporary files of one sample. `bytes`: size of the file of a volume, if there is one, and of the part of a
// volume that is used.
Result<Shared> storage_of(const Context& context, uint64_t bytes) {
    return Storage::create(context.settings, "", bytes);
}

// Adds the processor time of both sides.
Result<Sample> with_cost(Result<Sample> sample) {
    if (!sample) return sample;
    if (sample->client_cpu_us < 0 || sample->server_cpu_us < 0)
        return Status(Code::kInternal, "the processor time of one side is unknown");
    sample->more["cpu_us"] = sample->client_cpu_us + sample->server_cpu_us;
    return sample;
}

RemotePoint point_of(const char* fabric, uint32_t connections, uint32_t depth) {
    return {.io = {.method = "ram", .pattern = {.bytes = kBytes}, .depth = depth},
            .fabric = fabric,
            .connections = connections};
}

// Each connection has the same number of requests in flight. With a fixed total, many connections with one
// request each would cost more than one connection with 64 requests, but only because they share fewer system
// calls. The fabric is tcp, because shared memory would need more descriptors than CI allows. The target has
// one reactor per 64 connections.
Result<Sample> connections(const Context& context, uint32_t count, const Window& window) {
    auto storage = storage_of(context, 64 << 20);
    if (!storage) return storage.status();
    RemotePoint point = point_of("tcp", count, kDepth);
    point.reactors = (count + 63) / 64;
    return with_cost(measure_remote(point, context.settings, **storage, window));
}

// One connection to a target with many volumes, and the memory of the target.
Result<Sample> volumes(const Context& context, uint32_t count, const Window& window) {
    auto storage = storage_of(context, 4 << 20);
    if (!storage) return storage.status();
    std::vector<std::string> words = {"wss-target",  "--listen", "shm://" + (*storage)->socket("target"),
                                      "--control",   "",         "--auth-off",
                                      "--log-level", "warning"};
    for (uint32_t i = 0; i < count; ++i)
        words.insert(words.end(), {"--volume", fmt::format("v{}=ram:4M", i)});
    auto target = Program::start(words);
    if (!target) return target.status();
    RemotePoint point = point_of("shm", 1, 64);
    point.target = (*target)->address();
    point.servers = {target->get()};
    point.volume = fmt::format("v{}", count / 2);
    auto sample = measure_remote(point, context.settings, **storage, window);
    if (sample) sample->more["server_mib"] = (*target)->resident_mib();
    return with_cost(std::move(sample));
}

// A store of one partition. The rate is that of transactions of four operations.
Result<Sample> keys(const Context& context, uint32_t count, const Window& window) {
    auto storage = storage_of(context, 0);
    if (!storage) return storage.status();
    uint32_t memory_mib = std::max(256u, static_cast<uint32_t>(uint64_t{count} * 1024 >> 20));
    auto store = KvStore::start("shm", 1, **storage, {"--kv-memory", fmt::format("{}M", memory_mib)});
    if (!store) return store.status();
    KvProperties properties = {{"recordcount", std::to_string(count)},
                               {"fieldcount", "1"},
                               {"fieldlength", "100"},
                               {"requestdistribution", "uniform"},
                               {"readproportion", "0.5"},
                               {"updateproportion", "0.5"},
                               {"threadcount", "2"},
                               {"txnlen", "4"},
                               {"operationcount", std::to_string(count)}};
    auto loaded = (*store)->bench(properties, "load", std::max(900.0, count / 2500.0));
    if (!loaded) return loaded.status();
    properties["operationcount"] = "0";
    properties["warmup"] = std::to_string(kKvWarmUpSeconds);
    properties["maxexecutiontime"] = std::to_string(whole_seconds(window.seconds));
    auto report = (*store)->bench(properties, "run", window.seconds + 120);
    if (!report) return report.status();
    auto sample = sample_of_report(*report);
    if (sample) sample->more["server_mib"] = (*store)->resident_mib();
    (*store)->kill();
    return with_cost(std::move(sample));
}

// A target with a volume on `disk`, and `count` cache engines.
Result<Programs> target_with_engines(const Storage& storage, const std::string& disk, uint32_t count) {
    std::string join = "shm://" + storage.socket("cache");
    Programs programs;
    auto target = Program::start({"wss-target", "--listen", "shm://" + storage.socket("target"), "--volume",
                                  fmt::format("bench=aio:{}", disk), "--cache-listen", join, "--control", "",
                                  "--auth-off", "--log-level", "warning"});
    if (!target) return target.status();
    programs.push_back(std::move(*target));
    for (uint32_t i = 0; i < count; ++i) {
        auto engine =
            Program::start({"wss-cache", "--listen", "shm://" + storage.socket(fmt::format("engine{}", i)),
                            "--join", join, "--memory", "32M"});
        if (!engine) return engine.status();
        programs.push_back(std::move(*engine));
    }
    return programs;
}

Result<Sample> engines(const Context& context, uint32_t count, const Window& window) {
    auto storage = storage_of(context, 16 << 20);
    if (!storage) return storage.status();
    auto disk = (*storage)->path("target");
    if (!disk) return disk.status();
    auto programs = target_with_engines(**storage, *disk, count);
    if (!programs) return programs.status();
    RemotePoint point = point_of("shm", 1, kDepth * count);
    point.target = programs->front()->address();
    for (const auto& program : *programs) point.servers.push_back(program.get());
    // One pass fills the cache, a second one is measured.
    auto filled = measure_remote(point, context.settings, **storage, window);
    if (!filled) return filled;
    auto sample = measure_remote(point, context.settings, **storage, window);
    if (sample) sample->more["server_mib"] = programs->front()->resident_mib();
    // Engines stop first, because each engine returns its lines to the target when it stops.
    while (!programs->empty()) programs->pop_back();
    return with_cost(std::move(sample));
}

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = {
        {"connections", connections, {1, 10, 100, 1000}, {1, 10, 100}},
        {"volumes", volumes, {1, 4, 16, 64, 256}, {1, 16, 256}},
        {"keys", keys, {1000, 10'000, 100'000, 1'000'000, 10'000'000}, {1000, 10'000, 100'000}},
        {"engines", engines, {1, 2, 4, 8}, {1, 4}}};
    return all;
}

// The growth of the cost from one row of a kind to a later one.
Json growth_from(const Json& first, const Json& later) {
    double from = first["count"].get<double>(), to = later["count"].get<double>();
    std::vector<double> growth = ratios_of_turns(later, first, "cpu_us");
    Interval interval = interval_of_median(growth);
    double median = summarise(growth).median;
    // The cost at the later point if it grew logarithmically: log2 of the count, plus a constant of one.
    double allowed = (1 + std::log2(to)) / (1 + std::log2(from));
    Json kib_each;
    if (later.contains("server_mib") && first.contains("server_mib"))
        kib_each = rounded((later["server_mib"].get<double>() - first["server_mib"].get<double>()) * 1024 /
                           (to - from));
    return {{"of", first["of"]},
            {"from", first["count"]},
            {"to", later["count"]},
            {"cost_growth", rounded(median)},
            {"logarithm", rounded(allowed)},
            {"ratio", rounded(allowed / median)},
            {"ratio_low", rounded(allowed / interval.high)},
            {"ratio_high", rounded(allowed / interval.low)},
            {"kib_each", kib_each}};
}

// The growth from the first row of a kind to the row with the worst ratio; null for fewer than two rows. The
// cost may scale badly at any number of connections, volumes, keys or engines, not only at the largest.
Json worst_growth(const std::string& kind, const Json& rows) {
    const Json* first = nullptr;
    Json worst;
    for (const Json& row : rows) {
        if (row["of"] != kind || !row.contains("cpu_us")) continue;
        if (first == nullptr) {
            first = &row;
            continue;
        }
        Json growth = growth_from(*first, row);
        if (worst.is_null() || growth["ratio"] < worst["ratio"]) worst = std::move(growth);
    }
    return worst;
}

void scaling(Context& context, const std::vector<std::string>& which) {
    Figure figure{.name = "scaling",
                  .paper = "none",
                  .title = "Processor time per operation as numbers grow",
                  .x = "count",
                  .series = {"of"},
                  .add_ratio = add_growth_bounds,
                  .method = fmt::format("{}; the part keys: {} s after {} s of warm-up, not pinned",
                                        method_of(context.settings), whole_seconds(context.settings.seconds),
                                        kKvWarmUpSeconds),
                  .fabric = "shm"};
    for (const Kind& kind : kinds()) {
        if (!which.empty() && std::ranges::find(which, kind.name) == which.end()) continue;
        for (uint32_t count : context.settings.quick ? kind.quick_counts : kind.counts)
            figure.points.push_back({{{"of", kind.name}, {"count", count}},
                                     [&context, measure = kind.measure, count](const Window& window) {
                                         return measure(context, count, window);
                                     },
                                     1 + count / 50'000.0});
    }
    context.deliver(run(context, figure));
}

}  // namespace

void add_growth_bounds(Json& figure) {
    Json bounds = Json::array();
    for (const Kind& kind : kinds()) {
        Json row = worst_growth(kind.name, figure["rows"]);
        if (row.is_null()) continue;
        if (figure["ratio"].is_null() || row["ratio"] < figure["ratio"])
            figure.update({{"bound", row["logarithm"]}, {"ratio", row["ratio"]}});
        bounds.push_back(std::move(row));
    }
    figure["bounds"] = std::move(bounds);
    figure["bound_means"] = "logarithmic growth, where it is exceeded most";
}

void add_scaling(CLI::App& app, Context& context) {
    static std::vector<std::string> which;
    std::vector<std::string> names;
    for (const Kind& kind : kinds()) names.emplace_back(kind.name);
    CLI::App* command = app.add_subcommand("scaling", "Cost by connections, volumes, keys and cache engines");
    command->add_option("WHICH", which, "connections, volumes, keys, engines (default: all)")
        ->check(CLI::IsMember(names));
    command->callback([&context] { scaling(context, which); });
}

}  // namespace wss::wssbench
