// SPDX-License-Identifier: Apache-2.0
// wssbench cache-sim: hit ratios of replacement algorithms on traces.
#include <cstdio>

#include "lib/base/size.h"
#include "tools/wssbench/contenders.h"
#include "tools/wssbench/context.h"
#include "tools/wssbench/trace.h"

namespace wss::wssbench {

namespace {

struct Arguments {
    TraceOptions trace;
    std::vector<std::string> files;
    std::vector<std::string> kinds;
    double cache_percent = 10;
    std::string line_size = "64K";
    std::string write_directory;
};

struct Kind {
    const char* name;
    Trace (*make)(const TraceOptions& options);
};
constexpr Kind kKinds[] = {{"zipf", zipf_trace},
                           {"zipf-scan", zipf_scan_trace},
                           {"loops", loops_trace},
                           {"shifting-zipf", shifting_zipf_trace},
                           {"sliding-set", sliding_set_trace}};

Result<std::vector<Trace>> traces(const Arguments& arguments, const cache::LineGeometry& geometry) {
    std::vector<Trace> all;
    for (const std::string& file : arguments.files) {
        auto trace = read_trace(file, geometry);
        if (!trace) return trace.status();
        all.push_back(std::move(*trace));
    }
    for (const Kind& kind : kKinds) {
        bool asked =
            std::find(arguments.kinds.begin(), arguments.kinds.end(), kind.name) != arguments.kinds.end();
        if (asked || (arguments.kinds.empty() && arguments.files.empty()))
            all.push_back(kind.make(arguments.trace));
    }
    return all;
}

Json measure(const Trace& trace, const Arguments& arguments) {
    uint64_t footprint = distinct_lines(trace);
    uint32_t lines = static_cast<uint32_t>(static_cast<double>(footprint) * arguments.cache_percent / 100);
    lines = std::max(lines, 1u);
    Json row = {{"trace", trace.name},
                {"accesses", trace.accesses.size()},
                {"footprint_lines", footprint},
                {"cache_lines", lines},
                {"hit_ratio", Json::object()}};
    for (const Contender& contender : contenders())
        row["hit_ratio"][std::string(contender.name)] =
            static_cast<double>(contender.hits(trace, lines)) / static_cast<double>(trace.accesses.size());
    return row;
}

void print_table(const Json& rows) {
    std::printf("%-14s %9s %10s %8s", "TRACE", "ACCESSES", "FOOTPRINT", "CACHE");
    for (const Contender& contender : contenders()) std::printf(" %8s", std::string(contender.name).c_str());
    std::printf("\n");
    for (const Json& row : rows) {
        std::printf("%-14s %9llu %10llu %8llu", row["trace"].get<std::string>().c_str(),
                    row["accesses"].get<unsigned long long>(),
                    row["footprint_lines"].get<unsigned long long>(),
                    row["cache_lines"].get<unsigned long long>());
        for (const auto& [name, ratio] : row["hit_ratio"].items())
            std::printf(" %7.2f%%", ratio.get<double>() * 100);
        std::printf("\n");
    }
}

void cache_sim(Context& context, const Arguments& arguments) {
    auto line_size = parse_size(arguments.line_size);
    if (!line_size) return context.fail(line_size.status());
    auto geometry = cache::LineGeometry::of(*line_size);
    if (!geometry) return context.fail(geometry.status());
    auto all = traces(arguments, *geometry);
    if (!all) return context.fail(all.status());
    if (!arguments.write_directory.empty()) {
        for (const Trace& trace : *all)
            if (Status done =
                    write_trace(trace, arguments.write_directory + "/" + trace.name + ".txt", *geometry);
                !done)
                return context.fail(done);
        return;
    }
    Json rows = Json::array();
    for (const Trace& trace : *all) rows.push_back(measure(trace, arguments));
    if (context.json) return context.print({{"seed", arguments.trace.seed}, {"traces", rows}});
    print_table(rows);
}

}  // namespace

void add_cache_sim(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand(
        "cache-sim",
        "Hit ratios on traces: the target's own replacement against LRU, ARC, S3-FIFO and the optimum");
    command
        ->add_option("--kind", arguments.kinds,
                     "Generated traces: zipf, zipf-scan, loops, shifting-zipf, sliding-set (default: all)")
        ->check(CLI::IsMember({"zipf", "zipf-scan", "loops", "shifting-zipf", "sliding-set"}));
    command
        ->add_option("--trace", arguments.files,
                     "Recorded trace: a line \"R|W VOLUME OFFSET LENGTH\" for each access")
        ->type_name("FILE");
    command
        ->add_option("--cache-percent", arguments.cache_percent,
                     "Cache size, as a percentage of the lines that the trace uses")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 100.0));
    command->add_option("--line-size", arguments.line_size, "Line size, 4K to 256K")->capture_default_str();
    command->add_option("--lines", arguments.trace.lines, "Lines of the generated traces' volumes")
        ->capture_default_str()
        ->check(CLI::Range(100, 10000000));
    command
        ->add_option("--accesses", arguments.trace.accesses,
                     "Approximate number of accesses of the generated traces")
        ->capture_default_str()
        ->check(CLI::Range(1000, 100000000));
    command->add_option("--seed", arguments.trace.seed, "Seed of the generated traces")
        ->capture_default_str();
    command
        ->add_option("--write", arguments.write_directory,
                     "Write the traces into DIRECTORY instead, to be read by --trace")
        ->type_name("DIRECTORY");
    command->callback([&context] { cache_sim(context, arguments); });
}

}  // namespace wss::wssbench
