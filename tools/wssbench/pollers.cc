// SPDX-License-Identifier: Apache-2.0
// wssbench pollers: why one thread per request is slow. Paper C (3.3.5) suspects that the threads that poll
// for requests take the processor from newly created I/O threads. See also figures 8 and 9 of paper B
// (Documentation/reproduction.md).
//
// It reads from a file in memory, with a pool of threads (static) or with a new thread for each request
// (dynamic):
//  - wait: one read at a time, while threads that only poll share the processors. The latency shows how long
//    a thread waits for a processor. If the suspicion is right, created threads wait longer than woken ones,
//    and neither waits for pollers that the scheduler runs only when nothing else is runnable (class idle).
//  - remote: the same as load on a target, with many reads in flight.
//  - dispatch: no pollers, but several threads that hand requests over or create threads. It shows whether
//    creation itself is the limit.
#include "tools/wssbench/pollers.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "lib/base/summary.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

constexpr uint32_t kDepth = 64;    // reads in flight, for `remote` and for each thread of `dispatch`
constexpr uint32_t kThreads = 16;  // number of threads of the pool
constexpr uint64_t kFileBytes = 64 << 20;
constexpr uint32_t kBytes = 512;
constexpr const char* kFabric = "shm";  // the fabric of `remote`
constexpr double kPapersRatio = 32;
constexpr const char* kMethods[] = {"static", "dynamic"};

// Threads that poll without end; `count` of them on each of the servers' processors.
class Pollers {
  public:
    Pollers(uint32_t count, bool idle) {
        for (int processor : server_processors())
            for (uint32_t i = 0; i < count; ++i)
                threads_.emplace_back([this, processor, idle] { poll(processor, idle); });
    }
    ~Pollers() {
        stop_.store(true, std::memory_order_relaxed);
        for (std::thread& thread : threads_) thread.join();
    }
    Pollers(const Pollers&) = delete;
    Pollers& operator=(const Pollers&) = delete;

  private:
    void poll(int processor, bool idle) const {
        pin_thread(0, {processor});
        sched_param none{};
        if (idle) pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
        while (!stop_.load(std::memory_order_relaxed)) {
        }
    }
    std::atomic<bool> stop_{false};
    std::vector<std::thread> threads_;
};

struct Setting {
    std::string method;
    uint32_t pollers = 0;  // number of pollers on each of the servers' processors
    bool idle = false;     // whether their scheduling class is idle
};

// Reads by `loads` threads of this process on the processors of the caller. Each has `depth` reads in flight.
Result<Sample> measure_reads(const std::string& method, uint32_t loads, uint32_t depth, Settings settings,
                             Storage& storage, const Window& window) {
    auto path = storage.path("local");
    if (!path) return path.status();
    auto backend = io::open_backend(backend_of(method, kThreads, *path, storage.bytes()), {});
    if (!backend) return backend.status();
    LoadThreads threads;
    for (uint32_t i = 0; i < loads; ++i) {
        Pattern pattern{.bytes = kBytes, .span = storage.bytes()};
        auto thread = IoLoad::create(**backend, make_accesses(pattern, i, loads), depth, kBytes);
        if (!thread) return thread.status();
        threads.push_back(std::move(*thread));
    }
    settings.pin = false;
    return measure_threads(threads, window, settings);
}

Result<Sample> measure_wait(const Setting& setting, const Settings& settings, Storage& storage,
                            const Window& window) {
    pin_thread(0, server_processors());  // all threads of the measurement inherit this
    auto sample = [&] {
        Pollers pollers(setting.pollers, setting.idle);
        return measure_reads(setting.method, 1, 1, settings, storage, window);
    }();
    pin_thread(0, processors());
    return sample;
}

Result<Sample> measure_target(const Setting& setting, const Settings& settings, Storage& storage,
                              const Window& window) {
    Pollers pollers(setting.pollers, setting.idle);
    RemotePoint point{.io = {setting.method, kThreads, {.bytes = kBytes}, kDepth, nullptr},
                      .fabric = kFabric};
    return measure_remote(point, settings, storage, window);
}

struct Row {
    std::string what;
    uint32_t pollers;
    bool idle;
    uint32_t dispatchers = 1;
    Json labels(const char* method) const {
        return {{"what", what},
                {"fabric", what == "remote" ? kFabric : "local"},
                {"method", method},
                {"class", pollers == 0 ? "none"
                          : idle       ? "idle"
                                       : "normal"},
                {"dispatchers", dispatchers},
                {"pollers", pollers}};
    }
};

std::vector<Row> rows_of(bool quick) {
    std::vector<Row> rows;
    for (const char* what : {"wait", "remote"}) {
        for (uint32_t pollers : quick ? std::vector{0u, 1u, 4u} : std::vector{0u, 1u, 2u, 4u, 8u})
            rows.push_back({what, pollers, false});
        rows.push_back({what, 4, true});
    }
    for (uint32_t dispatchers : {1u, 2u, 4u}) rows.push_back({"dispatch", 0, false, dispatchers});
    return rows;
}

void pollers_figure(Context& context) {
    Settings settings = context.settings;
    if (settings.directory.empty()) settings.directory = "/dev/shm";
    auto storage = Storage::create(settings, "", kFileBytes);
    if (!storage) return context.fail(storage.status());
    Figure figure{.name = "pollers",
                  .paper = "B figs 8, 9; C 3.3.5",
                  .title = "A thread for each request, and a pool, beside threads that poll",
                  .unit = "IOPS",
                  .x = "pollers",
                  .series = {"method", "class", "what"},
                  .add_ratio = add_pollers_ratios};
    for (const Row& row : rows_of(context.settings.quick))
        for (const char* method : kMethods)
            figure.points.push_back({row.labels(method),
                                     [=, setting = Setting{method, row.pollers, row.idle},
                                      store = *storage](const Window& window) -> Result<Sample> {
                                         auto sample = row.what == "remote"
                                                           ? measure_target(setting, settings, *store, window)
                                                       : row.what == "wait"
                                                           ? measure_wait(setting, settings, *store, window)
                                                           : measure_reads(method, row.dispatchers, kDepth,
                                                                           settings, *store, window);
                                         if (sample && row.pollers > 0)
                                             sample->client_cpu_us = -1;  // mostly the time of the pollers
                                         return sample;
                                     }});
    context.deliver(run(context, figure));
}

}  // namespace

void add_pollers_ratios(Json& figure) {
    Json bounds = Json::array();
    for (const Json& row : figure["rows"]) {
        if (row["method"] != kMethods[0]) continue;
        Json labels = {{"what", row["what"]},
                       {"class", row["class"]},
                       {"dispatchers", row["dispatchers"]},
                       {"pollers", row["pollers"]}};
        Json of_dynamic = labels;
        of_dynamic["method"] = kMethods[1];
        const Json* dynamic = row_of(figure["rows"], of_dynamic);
        if (!row.contains("rate") || dynamic == nullptr) continue;
        labels.update({{"of", row["what"] == "dispatch"
                                  ? fmt::format("dispatchers {}", row["dispatchers"].get<uint32_t>())
                                  : fmt::format("pollers {}", row["pollers"].get<uint32_t>())},
                       {"static", row["rate"]},
                       {"dynamic", (*dynamic)["rate"]},
                       {"static_p99_us", row.value("p99_us", Json())},
                       {"dynamic_p99_us", dynamic->value("p99_us", Json())}});
        labels.update(ratio_columns(ratios_of_turns(row, *dynamic)));
        bounds.push_back(std::move(labels));
    }
    for (const Json& bound : bounds)
        if (bound["what"] == "remote" && bound["pollers"] == 0)
            figure.update({{"bound", kPapersRatio},
                           {"ratio", bound["ratio"]},
                           {"ratio_low", bound["ratio_low"]},
                           {"ratio_high", bound["ratio_high"]}});
    figure["bound_means"] = "the paper's ratio of static to dynamic";
    figure["bounds"] = std::move(bounds);
}

void add_pollers(CLI::App& app, Context& context) {
    CLI::App* command =
        app.add_subcommand("pollers", "Why a thread for each request is slow (B figs 8, 9, C 3.3.5)");
    command->callback([&context] { pollers_figure(context); });
}

}  // namespace wss::wssbench
