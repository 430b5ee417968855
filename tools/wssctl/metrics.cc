// SPDX-License-Identifier: Apache-2.0
// wssctl metrics: the driver's sessions and disks in Prometheus' text format, for the textfile collector of
// node_exporter (Documentation/metrics.md). The driver is in the kernel and serves no HTTP.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <string_view>

#include "target/metrics/exporter.h"
#include "tools/wssctl/driver.h"

namespace wss::wssctl {

namespace {

using metrics::Sample;
using Labels = std::vector<std::pair<std::string, std::string>>;

// Values that kernel/stats.c shows but that are not counters of kernel/stats.h.
constexpr std::array<std::string_view, 2> kGauges = {"regions_active", "dma_mapped"};

bool is_gauge(const std::string& name) {
    return std::find(kGauges.begin(), kGauges.end(), name) != kGauges.end();
}

Sample gauge(const char* name, const char* help, Labels labels, double value) {
    return {name, help, Sample::Kind::kGauge, std::move(labels), value, {}};
}

Sample statistic(const std::string& file, const Labels& labels, double value) {
    const bool now = is_gauge(file);
    return {now ? fmt::format("wss_driver_{}", file) : fmt::format("wss_driver_{}_total", file),
            fmt::format("stats/{} in Documentation/ABI/testing/sysfs-class-wss", file),
            now ? Sample::Kind::kGauge : Sample::Kind::kCounter,
            labels,
            value,
            {}};
}

void add_sessions(std::vector<Sample>& out, const Context& context) {
    const Json sessions = session_statistics(context);
    for (const auto& [name, session] : sessions.items()) {
        const auto target = session.value("target", "");
        if (target.empty()) continue;  // the session was removed after it was listed: its counters are zero
        const Labels labels = {{"session", name}, {"target", target}};
        out.push_back(gauge("wss_driver_session_live", "1 while the session is live", labels,
                            session.value("state", "") == "live"));
        for (const auto& [file, value] : session["counters"].items())
            out.push_back(statistic(file, labels, value.get<double>()));
    }
}

void add_disks(std::vector<Sample>& out, const Context& context) {
    for (const Disk& disk : list_disks(context)) {
        const Labels labels = {{"device", disk.device},
                               {"volume", disk.volume},
                               {"session", disk.session},
                               {"target", disk.target}};
        out.push_back(gauge("wss_driver_disk_live",
                            "1 while the session of the disk is live and its target has the volume", labels,
                            disk.state == "live"));
        out.push_back(
            gauge("wss_driver_disk_size_bytes", "size of the disk", labels, static_cast<double>(disk.size)));
    }
}

void print_metrics(Context& context) {
    if (context.json)
        throw CLI::ValidationError(
            "--json", "metrics are text for Prometheus; for JSON use wssctl --json stats --driver");
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    metrics::Exporter exporter;
    exporter.add([&context] {
        std::vector<Sample> samples;
        add_sessions(samples, context);
        add_disks(samples, context);
        samples.push_back(gauge("wss_driver_pending_maps", "maps with retry=on that have not succeeded yet",
                                {}, static_cast<double>(list_pending(context).size())));
        return samples;
    });
    // A failed write must be reported, because a partial file would be installed like a complete one.
    if (std::fputs(exporter.text().c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        context.fail(Status::from_errno(errno, "the metrics cannot be written"));
}

}  // namespace

void add_metrics(CLI::App& app, Context& context) {
    CLI::App* command = app.add_subcommand(
        "metrics", "Counters of the driver for Prometheus: text for node_exporter's textfile collector");
    command->callback([&context] { print_metrics(context); });
}

}  // namespace wss::wssctl
