// SPDX-License-Identifier: Apache-2.0
// wssbench ceph: an image of a Ceph cluster on this host, accessed by librbd (fio), through a target, and
// through a target with two cache engines. A measurer of the source tree runs the cluster and measures one
// point at a time.
//
// The OSDs hold their data in memory and run on the same processors, so the figures exclude the disks and the
// network of a real cluster. `cpu_us` is the processor time of the client and of WSS's processes. `osd_us` is
// the processor time of the OSDs and the monitor, which serve reads by librbd but no hits. With shared memory
// the engines' processors copy data to the client; with RDMA the adapter does that.
#include "tools/wssbench/ceph.h"

#include "lib/base/summary.h"
#include "tools/wssbench/figure.h"
#include "tools/wssbench/source_tree.h"

namespace wss::wssbench {

namespace {

constexpr uint32_t kDepths[] = {1, 16};
constexpr const char* kLibrbd = "librbd";
constexpr const char* kTarget = "target";
constexpr const char* kCold = "engines-cold";
constexpr const char* kWarm = "engines-warm";
constexpr double kStartSeconds = 600;  // time to start the cluster and to fill the image
constexpr double kPointSeconds = 600;

Result<Sample> sample_of(const Json& object) {
    if (!object.contains("rate") || !object["rate"].is_number())
        return failure(Code::kInternal, "a sample without a rate: {}", object.dump());
    Sample sample{.rate = object["rate"].get<double>(),
                  .latency_us = object.value("latency_us", -1.0),
                  .p99_us = object.value("p99_us", -1.0)};
    for (const char* column : {"cpu_us", "osd_us", "hit_ratio"})
        if (object.contains(column)) sample.more[column] = object[column];
    return sample;
}

Result<Sample> measure(Child& measurer, const Json& labels) {
    WSS_TRY(measurer.send(labels.dump()));
    auto object = next_object(measurer, kPointSeconds);
    if (!object) return object.status();
    return sample_of(*object);
}

void add_points(Figure& figure, bool quick, std::shared_ptr<Child> measurer) {
    for (const char* operation : {"read", "write"})
        for (const char* size : {"4K", "64K"}) {
            if (quick && size != std::string_view("4K")) continue;
            for (uint32_t depth : kDepths)
                for (const char* way : {kLibrbd, kTarget, kCold, kWarm}) {
                    if (way == kWarm && operation == std::string_view("write")) continue;
                    Json labels = {{"operation", operation}, {"size", size}, {"depth", depth}, {"way", way}};
                    figure.points.push_back(
                        {labels, [measurer, labels](const Window&) { return measure(*measurer, labels); },
                         3});
                }
        }
}

void ceph(Context& context) {
    std::vector<std::string> words = {"--seconds", fmt::format("{}", context.settings.seconds), "--warm-up",
                                      fmt::format("{}", context.settings.warm_up)};
    auto measurer = start_measurer("ceph", words, {.converses = true});
    if (!measurer) return context.fail(measurer.status().within("ceph"));
    auto ready = next_object(**measurer, kStartSeconds);
    if (!ready) return context.fail(ready.status().within("ceph"));
    Figure figure{.name = "ceph",
                  .paper = "none",
                  .title = "An image of a Ceph cluster, directly and through WSS",
                  .x = "depth",
                  .series = {"operation", "size", "way"},
                  .add_ratio = add_ceph_ratios,
                  .method =
                      "fio with librbd; wssbench remote through a target over shared memory; OSDs in memory "
                      "on the same processors",
                  .fabric = "shm"};
    add_points(figure, context.settings.quick, std::move(*measurer));
    context.deliver(run(context, figure));
}

// The row for reads of 4 KiB.
const Json* read_by(const char* way, uint32_t depth, const Json& rows) {
    return row_of(rows, {{"way", way}, {"operation", "read"}, {"size", "4K"}, {"depth", depth}});
}

double ratio(const Json& row, const Json& bound, const std::string& column) {
    return rounded(summarise(ratios_of_turns(row, bound, column)).median);
}

// Adds the sum of the processor times of the client, WSS and the OSDs.
Json with_all_cpu(Json row) {
    std::vector<double> all = turns_of(row, "cpu_us"), osds = turns_of(row, "osd_us");
    for (size_t turn = 0; turn < std::min(all.size(), osds.size()); ++turn) all[turn] += osds[turn];
    row["turns"]["all_cpu_us"] = all;
    return row;
}

}  // namespace

void add_ceph_ratios(Json& figure) {
    const Json rows = figure["rows"];  // a copy, because each new member of the figure moves its rows
    const Json *direct = read_by(kLibrbd, kDepths[1], rows), *warm = read_by(kWarm, kDepths[1], rows);
    if (direct != nullptr && warm != nullptr) {
        figure["bound"] = "librbd's warm reads per second of processor time, OSDs included";
        figure.update(
            ratio_columns(ratios_of_turns(with_all_cpu(*direct), with_all_cpu(*warm), "all_cpu_us")));
        figure["ratio_without_osds"] = ratio(*direct, *warm, "cpu_us");
    }
    direct = read_by(kLibrbd, kDepths[0], rows);
    for (auto [name, way] :
         {std::pair{"miss_latency", kCold}, std::pair{"miss_latency_without_cache", kTarget}})
        if (const Json* miss = read_by(way, kDepths[0], rows); miss != nullptr && direct != nullptr)
            figure[name] = ratio(*miss, *direct, "latency_us");
}

void add_ceph(CLI::App& app, Context& context) {
    CLI::App* command =
        app.add_subcommand("ceph", "An image of a Ceph cluster of this host, directly and through WSS");
    command->callback([&context] { ceph(context); });
}

}  // namespace wss::wssbench
