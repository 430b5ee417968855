// SPDX-License-Identifier: Apache-2.0
// wssbench replay: compares a recorded or generated trace with random reads of the same number and size,
// local and remote, by I/O threads. Reproduces figures 10 to 13 of paper C (Documentation/reproduction.md).
#include "lib/base/size.h"
#include "tools/wssbench/io_trace.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

struct Arguments {
    std::string file, write_to;
    std::vector<std::string> methods = {"static"};
    std::vector<std::string> fabrics = {"shm"};
    std::vector<std::string> sizes = {"16K", "512"};
    std::vector<uint32_t> threads = {1, 4, 16, 64};
    uint32_t accesses = 4000;
    uint64_t seed = 1;
    std::string path, file_size = "256M";
};

IoTrace random_trace(const IoTrace& like, uint64_t span) {
    Random random(7);
    IoTrace trace{.name = "random", .bytes_max = like.bytes_max, .volumes = 1};
    for (const Access& access : like.accesses)
        trace.accesses.push_back({false, random.below(span / access.length) * access.length, access.length});
    return trace;
}

// Runs a trace once, completely. The rate is in accesses per second. The paper reports the run time.
Result<Sample> replay_once(RemotePoint point, bool local, const IoTrace& trace, const Settings& settings,
                           Storage& storage) {
    point.io.trace = std::make_shared<SharedTrace>();
    point.io.trace->accesses = trace.accesses;
    Window whole{.warm_up = 0, .seconds = 0};
    auto sample = local ? measure_local(point.io, settings, storage, whole)
                        : measure_remote(point, settings, storage, whole);
    if (sample) sample->more["run_seconds"] = static_cast<double>(trace.accesses.size()) / sample->rate;
    return sample;
}

void add_points(Figure& figure, Context& context, const Arguments& arguments, std::shared_ptr<IoTrace> trace,
                std::shared_ptr<Storage> storage) {
    for (const std::string& method : arguments.methods)
        for (uint32_t threads : arguments.threads) {
            RemotePoint point{
                .io = {method, threads, {.bytes = trace->bytes_max}, std::min(threads, kEchoDepthMax), {}}};
            auto add = [&](const std::string& where) {
                point.fabric = where;
                figure.points.push_back(
                    {{{"trace", trace->name},
                      {"where", where},
                      {"method", method},
                      {"threads", threads},
                      {"bytes", trace->bytes_max}},
                     [point, trace, storage, &context, local = where == "local"](const Window&) {
                         return replay_once(point, local, *trace, context.settings, *storage);
                     }});
            };
            add("local");
            for (const std::string& fabric : arguments.fabrics) add(fabric);
        }
}

Result<std::vector<std::shared_ptr<IoTrace>>> traces_of(const Arguments& arguments, uint64_t span) {
    std::vector<std::shared_ptr<IoTrace>> traces;
    if (!arguments.file.empty()) {
        auto trace = read_io_trace(arguments.file, span);
        if (!trace) return trace.status();
        traces.push_back(std::make_shared<IoTrace>(std::move(*trace)));
    } else {
        auto sizes = sizes_of(arguments.sizes);
        if (!sizes) return sizes.status();
        for (uint32_t bytes : *sizes) {
            auto trace = make_q3_trace(bytes, span, arguments.accesses, arguments.seed);
            if (!trace) return trace.status();
            traces.push_back(std::make_shared<IoTrace>(std::move(*trace)));
        }
    }
    return traces;
}

void replay(Context& context, const Arguments& arguments) {
    auto bytes = parse_size(arguments.file_size);
    if (!bytes) return context.fail(bytes.status());
    auto storage = Storage::create(context.settings, arguments.path, *bytes);
    if (!storage) return context.fail(storage.status());
    auto traces = traces_of(arguments, (*storage)->bytes());
    if (!traces) return context.fail(traces.status());
    if (!arguments.write_to.empty()) {
        if (Status status = write_io_trace(*traces->front(), arguments.write_to); !status)
            context.fail(status);
        return;
    }
    Figure figure{.name = "replay",
                  .paper = "C figs 10-13",
                  .title = "Replay of a block trace and random reads, local and remote, by I/O threads",
                  .unit = "IOPS",
                  .x = "threads",
                  .series = {"trace", "where", "method", "bytes"},
                  .method = method_of(context.settings,
                                      "each trace once, from its first to its last access, without "
                                      "warm-up")};
    for (const auto& trace : *traces) {
        add_points(figure, context, arguments, trace, *storage);
        auto random = std::make_shared<IoTrace>(random_trace(*trace, (*storage)->bytes()));
        add_points(figure, context, arguments, random, *storage);
    }
    context.deliver(run(context, figure));
}

}  // namespace

void add_replay(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand("replay", "A block trace, local and remote (C figs 10-13)");
    command->add_option(
        "TRACE", arguments.file,
        "Text, a line \"R|W VOLUME OFFSET LENGTH\" for each access (default: a generated trace like that of "
        "TPC-H Q3)");
    command->add_option("--method", arguments.methods, "static, dynamic, aio, uring or ram")
        ->delimiter(',')
        ->check(CLI::IsMember(methods()))
        ->capture_default_str();
    add_fabric_option(*command, arguments.fabrics);
    command->add_option("--threads", arguments.threads, "I/O threads, and requests in flight")
        ->delimiter(',')
        ->check(CLI::Range(1u, kEchoDepthMax))
        ->capture_default_str();
    command->add_option("--size", arguments.sizes, "Page sizes of the generated traces")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--accesses", arguments.accesses, "Accesses of each generated trace")
        ->check(CLI::Range(100u, 10000000u))
        ->capture_default_str();
    command->add_option("--seed", arguments.seed, "Seed of the generated traces")->capture_default_str();
    command
        ->add_option("--write", arguments.write_to,
                     "Write the (first) trace to FILE instead, in TRACE's format")
        ->type_name("FILE");
    command->add_option("--path", arguments.path,
                        "File or device to use; writes destroy its contents (default: temporary files)");
    command->add_option("--file-size", arguments.file_size, "Number of bytes of it to use")
        ->capture_default_str();
    command->callback([&context] { replay(context, arguments); });
}

}  // namespace wss::wssbench
