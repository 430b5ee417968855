// SPDX-License-Identifier: Apache-2.0
// wssbench remote: storage behind the network, against what storage and network can do alone (B figs 8-12, C
// fig 9).
//
// Each combination of fabric, operation, pattern and size is a group: the local method and the echo of the
// same size are measured in the same turns, at several depths each; their smaller best is the bound of the
// group.
#include <algorithm>

#include "lib/base/size.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

namespace {

struct Arguments {
    std::vector<std::string> methods = {"static", "dynamic", "aio", "uring"};
    std::vector<std::string> fabrics = {"shm", "tcp"};
    std::vector<uint32_t> connections = {1, 8};
    std::vector<uint32_t> depths = {64};
    std::vector<uint32_t> threads = {16};
    std::vector<std::string> sizes = {"512", "4K"};
    std::vector<std::string> operations = {"read", "write"};
    std::vector<std::string> patterns = {"random"};
    uint32_t reactors = 1;
    std::string path, file_size = "256M", target, volume = "bench";
    bool no_bounds = false;
};

using Shared = std::shared_ptr<Storage>;

class Builder {
  public:
    Builder(Context& context, const Arguments& arguments, Shared storage)
        : context_(context), arguments_(arguments), storage_(std::move(storage)) {}

    void add_group(Figure& figure, const std::string& fabric, const Pattern& pattern) {
        Json labels = {{"fabric", fabric},
                       {"operation", pattern.write ? "write" : "read"},
                       {"pattern", pattern.sequential ? "sequential" : "random"},
                       {"bytes", pattern.bytes}};
        if (!arguments_.no_bounds && arguments_.target.empty()) add_bounds(figure, labels, fabric, pattern);
        for (const std::string& method : arguments_.methods)
            for (uint32_t threads : method == "static" ? arguments_.threads : std::vector<uint32_t>{0})
                for (uint32_t connections : arguments_.connections)
                    for (uint32_t depth : arguments_.depths)
                        add_remote(figure, labels,
                                   {.io = {method, threads, pattern, depth, nullptr},
                                    .fabric = fabric,
                                    .target = arguments_.target,
                                    .connections = connections,
                                    .reactors = arguments_.reactors,
                                    .volume = arguments_.volume});
    }

  private:
    static Json with(const char* what, const std::string& method, uint32_t connections, uint32_t depth,
                     const Json& labels) {
        Json all = {{"what", what}, {"method", method}, {"connections", connections}, {"depth", depth}};
        all.update(labels);
        return all;
    }

    // Local I/O is not measured anew for each fabric: it has none.
    void add_bounds(Figure& figure, const Json& labels, const std::string& fabric, const Pattern& pattern) {
        std::vector<uint32_t> in_flight;
        for (uint32_t connections : arguments_.connections)
            for (uint32_t depth : arguments_.depths) in_flight.push_back(connections * depth);
        std::sort(in_flight.begin(), in_flight.end());
        in_flight.erase(std::unique(in_flight.begin(), in_flight.end()), in_flight.end());
        for (const std::string& method : arguments_.methods)
            for (uint32_t depth : in_flight) {
                if (method == "dynamic") continue;  // never the best, and the bound is the best
                IoPoint point{method, arguments_.threads.back(), pattern, depth, nullptr};
                figure.points.push_back(
                    {with("local", method, 0, depth, labels),
                     [point, this_storage = storage_, &settings = context_.settings](const Window& window) {
                         return measure_local(point, settings, *this_storage, window);
                     }});
            }
        for (uint32_t connections : arguments_.connections)
            for (uint32_t depth : arguments_.depths) {
                EchoPoint point{
                    .options = {.mode = pattern.write ? EchoOptions::Mode::kWrite : EchoOptions::Mode::kRead,
                                .depth = depth,
                                .bytes = pattern.bytes},
                    .fabric = fabric,
                    .connections = connections};
                figure.points.push_back(
                    {with("echo", "", connections, depth, labels),
                     [point, this_storage = storage_, &settings = context_.settings](const Window& window) {
                         return measure_echo(point, settings, *this_storage, window);
                     }});
            }
    }

    void add_remote(Figure& figure, const Json& labels, const RemotePoint& point) {
        Json all = with("remote", point.io.method, point.connections, point.io.depth, labels);
        if (point.io.method == "static") all["threads"] = point.io.threads;
        figure.points.push_back(
            {all, [point, this_storage = storage_, &settings = context_.settings](const Window& window) {
                 return measure_remote(point, settings, *this_storage, window);
             }});
    }

    Context& context_;
    const Arguments& arguments_;
    const Shared storage_;
};

double by_cpu(const Json& row) {
    double busier = std::max(row.value("client_cpu_us", 0.0), row.value("server_cpu_us", 0.0));
    return busier > 0 ? 1e6 / busier : 0;
}

// The highest of a column of one's own among the rows of a group.
double best_by_cpu(const Json& rows, const Json& labels) {
    double found = 0;
    for (const Json& row : rows) {
        bool fits = row.contains("rate");
        for (const auto& [key, value] : labels.items()) fits = fits && row.contains(key) && row[key] == value;
        if (fits) found = std::max(found, by_cpu(row));
    }
    return found;
}

// One row for each group: the best of each kind, the bound, and how near the remote side comes.
void judge(Json& figure) {
    Json bounds = Json::array(), groups = Json::array();
    for (const Json& row : figure["rows"]) {
        Json group = {{"fabric", row["fabric"]},
                      {"operation", row["operation"]},
                      {"pattern", row["pattern"]},
                      {"bytes", row["bytes"]}};
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
    for (const Json& group : groups) {
        auto labels = [&](const char* what) {
            Json all = group;
            all["what"] = what;
            return all;
        };
        auto of = [&](const char* what) { return best(figure["rows"], labels(what)); };
        auto cpu = [&](const char* what) { return best_by_cpu(figure["rows"], labels(what)); };
        Json local = of("local"), echo = of("echo"), remote = of("remote");
        if (local.is_null() || echo.is_null() || remote.is_null()) continue;
        double bound = std::min(local["rate"].get<double>(), echo["rate"].get<double>());
        Json row = group;
        // Threads get more of a busy machine than one reactor does: the like is compared with the like as
        // well.
        Json alike = labels("local");
        alike["method"] = remote["method"];
        Json same = best(figure["rows"], alike);
        if (!same.is_null())
            row["ratio_same_method"] = remote["rate"].get<double>() /
                                       std::min(same["rate"].get<double>(), echo["rate"].get<double>());
        row.update({{"local", local["rate"]},
                    {"local_method", local["method"]},
                    {"echo", echo["rate"]},
                    {"remote", remote["rate"]},
                    {"remote_method", remote["method"]},
                    {"bound", bound},
                    {"ratio", remote["rate"].get<double>() / bound},
                    {"local_by_cpu", cpu("local")},
                    {"echo_by_cpu", cpu("echo")},
                    {"remote_by_cpu", cpu("remote")},
                    {"ratio_by_cpu", cpu("remote") / std::min(cpu("local"), cpu("echo"))}});
        if (figure["ratio"].is_null() || row["ratio"] < figure["ratio"])
            figure.update({{"bound", bound}, {"ratio", row["ratio"]}});
        bounds.push_back(std::move(row));
    }
    figure["bounds"] = std::move(bounds);
}

void remote(Context& context, const Arguments& arguments) {
    auto sizes = sizes_of(arguments.sizes);
    if (!sizes) return context.fail(sizes.status());
    auto bytes = parse_size(arguments.file_size);
    if (!bytes) return context.fail(bytes.status());
    auto storage = Storage::create(context.settings, arguments.path, *bytes);
    if (!storage) return context.fail(storage.status());
    Figure figure{.name = "remote",
                  .paper = "B figs 8-12, C fig 9",
                  .title = "Remote I/O against local I/O and echo",
                  .unit = "IOPS",
                  .x = "connections",
                  .series = {"what", "method", "fabric", "operation", "pattern", "bytes"},
                  .judge = judge};
    Builder builder(context, arguments, *storage);
    for (const std::string& fabric : arguments.fabrics)
        for (const std::string& operation : arguments.operations)
            for (const std::string& pattern : arguments.patterns)
                for (uint32_t size : *sizes)
                    builder.add_group(figure, fabric,
                                      {.write = operation == "write",
                                       .sequential = pattern == "sequential",
                                       .bytes = size});
    context.deliver(run(context, figure));
}

void describe(CLI::App& command, Arguments& arguments) {
    command
        .add_option("--method", arguments.methods,
                    "How the target does I/O: static, dynamic, aio, uring or ram")
        ->delimiter(',')
        ->check(CLI::IsMember(methods()))
        ->capture_default_str();
    add_fabric_option(command, arguments.fabrics);
    command.add_option("--connections", arguments.connections, "Connections")
        ->delimiter(',')
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str();
    command.add_option("--depth", arguments.depths, "Requests in flight on each")
        ->delimiter(',')
        ->check(CLI::Range(1u, kEchoDepthMax))
        ->capture_default_str();
    command.add_option("--threads", arguments.threads, "I/O threads of the method static")
        ->delimiter(',')
        ->check(CLI::Range(1u, 1000u))
        ->capture_default_str();
    command.add_option("--size", arguments.sizes, "Bytes of a request")
        ->delimiter(',')
        ->capture_default_str();
    command.add_option("--operation", arguments.operations, "read, write")
        ->delimiter(',')
        ->check(CLI::IsMember({"read", "write"}))
        ->capture_default_str();
    command.add_option("--pattern", arguments.patterns, "random, sequential")
        ->delimiter(',')
        ->check(CLI::IsMember({"random", "sequential"}))
        ->capture_default_str();
    command.add_option("--reactors", arguments.reactors, "Threads of the target that poll")
        ->capture_default_str();
    command.add_flag("--no-bounds", arguments.no_bounds, "Without local I/O and echo");
    command.add_option("--target", arguments.target, "A running wss-target (default: one of our own)")
        ->type_name("URI");
    command.add_option("--volume", arguments.volume, "Its volume; writes destroy what is in it")
        ->capture_default_str();
    command.add_option("--path", arguments.path,
                       "File or device to use; writes destroy what is in it (default: files of our own)");
    command.add_option("--file-size", arguments.file_size, "Bytes of it that are used")
        ->capture_default_str();
}

}  // namespace

void add_remote(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand(
        "remote", "Remote I/O by method, connections, threads, sizes (B figs 8-12, C fig 9)");
    describe(*command, arguments);
    command->callback([&context] { remote(context, arguments); });
}

}  // namespace wss::wssbench
