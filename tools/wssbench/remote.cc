// SPDX-License-Identifier: Apache-2.0
// wssbench remote: remote I/O, compared with local I/O and with the network alone
// (paper B, figures 8 to 12, and paper C, figure 9; Documentation/reproduction.md).
//
// Each combination of fabric, operation, pattern and size is a group. Local I/O and the echo of the same size
// are measured in the same turns, each at several depths. The smaller of their best results is the bound of
// the group. Ratios are computed within each turn, because the speed of a shared disk may change by a factor
// within minutes and medians come from different times.
#include <algorithm>

#include "lib/base/size.h"
#include "lib/base/summary.h"
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
        bool bounds = !arguments_.no_bounds && arguments_.target.empty();
        if (bounds) add_echo(figure, labels, fabric, pattern);
        for (const std::string& method : arguments_.methods) {
            // Measure local I/O directly before remote I/O, because the two are compared. The dynamic method
            // is never the best, so it cannot be the bound.
            if (bounds && method != "dynamic") add_local(figure, labels, method, pattern);
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
    }

  private:
    static Json with(const char* what, const std::string& method, uint32_t connections, uint32_t depth,
                     const Json& labels) {
        Json all = {{"what", what}, {"method", method}, {"connections", connections}, {"depth", depth}};
        all.update(labels);
        return all;
    }

    void add_local(Figure& figure, const Json& labels, const std::string& method, const Pattern& pattern) {
        std::vector<uint32_t> in_flight;
        for (uint32_t connections : arguments_.connections)
            for (uint32_t depth : arguments_.depths) in_flight.push_back(connections * depth);
        std::sort(in_flight.begin(), in_flight.end());
        in_flight.erase(std::unique(in_flight.begin(), in_flight.end()), in_flight.end());
        for (uint32_t depth : in_flight) {
            IoPoint point{method, arguments_.threads.back(), pattern, depth, nullptr};
            figure.points.push_back(
                {with("local", method, 0, depth, labels),
                 [point, this_storage = storage_, &settings = context_.settings](const Window& window) {
                     return measure_local(point, settings, *this_storage, window);
                 }});
        }
    }

    void add_echo(Figure& figure, const Json& labels, const std::string& fabric, const Pattern& pattern) {
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

using Rate = double (*)(const Json& row);

double by_clock(const Json& row) {
    return row["rate"].get<double>();
}

// Operations per second that one processor could do for the busier side.
double by_cpu(const Json& row) {
    double busier = std::max(row.value("client_cpu_us", 0.0), row.value("server_cpu_us", 0.0));
    return busier > 0 ? 1e6 / busier : 0;
}

std::vector<double> in_turns(Rate rate, const Json& row) {
    std::vector<double> rates;
    for (size_t turn = 0; turn < row["turns"]["rate"].size(); ++turn) {
        Json of_turn = Json::object();
        for (const auto& [name, values] : row["turns"].items()) of_turn[name] = values[turn];
        rates.push_back(rate(of_turn));
    }
    return rates;
}

// The best of the rows with some labels: the row that is best over all turns, and the values by
// best_in_turns().
struct Best {
    Json row;  // null if there is none
    std::vector<double> turns;
    double median() const { return summarise(turns).median; }
};

Best best_by(Rate rate, const Json& rows, const Json& labels) {
    Best best;
    std::vector<std::vector<double>> settings;
    for (const Json& row : rows) {
        if (!row.contains("rate") || !has_labels(row, labels)) continue;
        settings.push_back(in_turns(rate, row));
        if (best.row.is_null() || rate(row) > rate(best.row)) best.row = row;
    }
    best.turns = best_in_turns(settings);
    return best;
}

std::vector<double> ratios(const Best& remote, const Best& local, const Best& echo) {
    return ratios_in_turns(remote.turns, {local.turns, echo.turns});
}

Json labels_for(const Json& group, const char* what, const Json& method = nullptr) {
    Json all = group;
    all["what"] = what;
    if (!method.is_null()) all["method"] = method;
    return all;
}

// The best result of each kind, the bound, and the ratio of remote I/O to the bound. Null if a kind is
// missing.
Json bound_of(const Json& rows, const Json& group) {
    auto of = [&](Rate rate, const char* what) { return best_by(rate, rows, labels_for(group, what)); };
    Best local = of(by_clock, "local"), echo = of(by_clock, "echo"), remote = of(by_clock, "remote");
    if (local.row.is_null() || echo.row.is_null() || remote.row.is_null()) return nullptr;
    Json row = group;
    std::vector<double> of_turns = ratios(remote, local, echo);
    row.update({{"local", local.median()},
                {"local_method", local.row["method"]},
                {"echo", echo.median()},
                {"remote", remote.median()},
                {"remote_method", remote.row["method"]},
                {"bound", std::min(local.median(), echo.median())}});
    row.update(ratio_columns(of_turns));
    row["ratio_spread_percent"] = summarise(of_turns).spread_percent;
    // On a busy machine, several threads get more processor time than one reactor. So the same method is
    // compared as well.
    const Json& method = remote.row["method"];
    Best same = best_by(by_clock, rows, labels_for(group, "local", method));
    Best as_remote = best_by(by_clock, rows, labels_for(group, "remote", method));
    if (!same.row.is_null()) row["ratio_same_method"] = summarise(ratios(as_remote, same, echo)).median;
    local = of(by_cpu, "local"), echo = of(by_cpu, "echo"), remote = of(by_cpu, "remote");
    row.update({{"local_by_cpu", local.median()},
                {"echo_by_cpu", echo.median()},
                {"remote_by_cpu", remote.median()},
                {"ratio_by_cpu", summarise(ratios(remote, local, echo)).median}});
    return row;
}

// Adds one row of bounds per group. The ratio of the figure is the worst of them.
void add_bounds(Json& figure) {
    Json bounds = Json::array(), groups = Json::array();
    for (const Json& row : figure["rows"]) {
        Json group = {{"fabric", row["fabric"]},
                      {"operation", row["operation"]},
                      {"pattern", row["pattern"]},
                      {"bytes", row["bytes"]}};
        if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
    }
    for (const Json& group : groups) {
        Json row = bound_of(figure["rows"], group);
        if (row.is_null()) continue;
        if (figure["ratio"].is_null() || row["ratio"] < figure["ratio"])
            figure.update({{"bound", row["bound"]},
                           {"ratio", row["ratio"]},
                           {"ratio_low", row["ratio_low"]},
                           {"ratio_high", row["ratio_high"]}});
        bounds.push_back(std::move(row));
    }
    if (!bounds.empty())
        figure["method"] = figure["method"].get<std::string>() +
                           "; a ratio is the median of the turns' ratios, each of remote to the smaller of "
                           "local and echo in the same turn. Each method uses, in a turn, the settings with "
                           "the best median in the other turns";
    figure["bound_means"] = "the smaller of local I/O and echo";
    figure["bound_is_limit"] = true;
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
                  .add_ratio = add_bounds,
                  .elsewhere = !arguments.target.empty()};
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
    command.add_flag("--no-bounds", arguments.no_bounds, "Do not measure local I/O and echo");
    command.add_option("--target", arguments.target, "A running wss-target (default: starts one)")
        ->type_name("URI");
    command.add_option("--volume", arguments.volume, "Its volume; writes destroy its contents")
        ->capture_default_str();
    command.add_option("--path", arguments.path,
                       "File or device to use; writes destroy its contents (default: temporary files)");
    command.add_option("--file-size", arguments.file_size, "Number of bytes of it to use")
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
