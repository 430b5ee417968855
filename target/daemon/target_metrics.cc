// SPDX-License-Identifier: Apache-2.0
#include "target/daemon/target_metrics.h"

#include <algorithm>
#include <limits>

#include "target/daemon/ask_reactor.h"

namespace wss::daemon {

namespace {

using metrics::Sample;
using Samples = std::vector<Sample>;

void counter(Samples& out, std::string name, std::string help, const std::string& volume, uint64_t value) {
    out.push_back({std::move(name),
                   std::move(help),
                   Sample::Kind::kCounter,
                   {{"volume", volume}},
                   static_cast<double>(value)});
}

Sample latency_sample(const char* operation, const block::LatencyTotals& latency) {
    Sample sample{"wss_block_request_seconds",
                  "time from the arrival of a command to its answer",
                  Sample::Kind::kHistogram,
                  {{"operation", operation}},
                  static_cast<double>(latency.total_ns) / 1e9};
    uint64_t total = 0;
    for (size_t i = 0; i < block::kLatencyBuckets; ++i) {
        total += latency.buckets[i];
        const bool last = i + 1 == block::kLatencyBuckets;
        sample.buckets.push_back(
            {last ? std::numeric_limits<double>::infinity() : double(1ull << i) / 1e6, total});
    }
    return sample;
}

Samples block_samples(block::Service& service) {
    Samples out;
    auto totals = ask_reactor<block::CounterTotals>([&](auto take) { service.total(std::move(take)); });
    if (!totals) return out;
    totals->for_each([&](const char* name, const char* meaning, uint64_t value) {
        out.push_back({fmt::format("wss_block_{}_total", name),
                       meaning,
                       Sample::Kind::kCounter,
                       {},
                       static_cast<double>(value)});
    });
    out.push_back(latency_sample("read", totals->read_latency));
    out.push_back(latency_sample("write", totals->write_latency));
    return out;
}

Samples session_samples(block::Service& service) {
    Samples out;
    auto use = ask_reactor<block::SessionUse>([&](auto take) { service.session_use(std::move(take)); });
    if (!use) return out;
    out.push_back({"wss_sessions",
                   "sessions of initiators",
                   Sample::Kind::kGauge,
                   {},
                   static_cast<double>(use->sessions)});
    out.push_back({"wss_channels",
                   "channels of these sessions",
                   Sample::Kind::kGauge,
                   {},
                   static_cast<double>(use->channels)});
    auto refused = [&out](const char* limit, uint64_t count) {
        out.push_back({"wss_logins_refused_total",
                       "logins refused because of a limit, by limit",
                       Sample::Kind::kCounter,
                       {{"limit", limit}},
                       static_cast<double>(count)});
    };
    refused("sessions", use->refused_sessions);
    refused("sessions_per_name", use->refused_name_sessions);
    refused("sessions_per_source", use->refused_source_sessions);
    refused("channels", use->refused_channels);
    return out;
}

Samples volume_samples(volume::VolumeSet& volumes) {
    Samples out;
    for (const auto& info : volumes.list()) {
        const auto& t = info.totals;
        counter(out, "wss_volume_reads_total", "reads of the volume", info.name, t.reads);
        counter(out, "wss_volume_writes_total", "writes to the volume", info.name, t.writes);
        counter(out, "wss_volume_read_bytes_total", "bytes read", info.name, t.read_bytes);
        counter(out, "wss_volume_written_bytes_total", "bytes written", info.name, t.written_bytes);
        counter(out, "wss_volume_flushes_total", "flushes of real storage", info.name, t.flushes);
        counter(out, "wss_volume_errors_total", "operations on real storage that failed", info.name,
                t.errors);
        counter(out, "wss_volume_delayed_total", "commands that waited for the volume's limits", info.name,
                t.delayed);
        auto sample = [&](const char* name, const char* help, Sample::Kind kind, double value) {
            out.push_back({name, help, kind, {{"volume", info.name}}, value});
        };
        sample("wss_volume_delayed_seconds_total", "time that commands waited for the volume's limits",
               Sample::Kind::kCounter, static_cast<double>(t.delayed_ns) / 1e9);
        sample("wss_volume_limit_iops", "operations per second that the volume is limited to; 0: no limit",
               Sample::Kind::kGauge, static_cast<double>(info.limits.iops));
        sample("wss_volume_limit_bytes_per_second",
               "bytes per second that the volume is limited to; 0: no limit", Sample::Kind::kGauge,
               static_cast<double>(info.limits.bandwidth));
        out.push_back({"wss_volume_storage_trouble",
                       "1 while real storage does not answer requests, or another owner has taken it",
                       Sample::Kind::kGauge,
                       {{"volume", info.name}},
                       info.trouble.empty() ? 0.0 : 1.0});
    }
    return out;
}

void add_cached_volume(Samples& out, const cache::CachedVolumeInfo& volume) {
    const cache::CacheCounters& c = volume.counters;
    const std::string& name = volume.name;
    counter(out, "wss_cache_reads_total", "reads", name, c.reads);
    counter(out, "wss_cache_read_hits_total", "reads whose bytes were all in engines", name, c.read_hits);
    counter(out, "wss_cache_writes_total", "writes", name, c.writes);
    counter(out, "wss_cache_engine_read_bytes_total", "bytes that engines sent to clients", name,
            c.out_of_band_read_bytes);
    counter(out, "wss_cache_engine_write_bytes_total", "bytes that engines received from clients", name,
            c.out_of_band_write_bytes);
    counter(out, "wss_cache_through_target_bytes_total", "bytes of commands that passed through the target",
            name, c.through_target_bytes);
    counter(out, "wss_cache_storage_read_bytes_total", "bytes read from real storage", name,
            c.storage_read_bytes);
    counter(out, "wss_cache_storage_write_bytes_total", "bytes written to real storage", name,
            c.storage_write_bytes);
    counter(out, "wss_cache_read_ahead_bytes_total",
            "bytes read from real storage before a read requested them", name, c.read_ahead_bytes);
    counter(out, "wss_cache_fill_bytes_total", "bytes loaded into engines after misses", name, c.fill_bytes);
    counter(out, "wss_cache_upkeep_direct_bytes_total",
            "bytes filled and destaged directly between an engine and a storage process", name,
            c.upkeep_direct_bytes);
    counter(out, "wss_cache_upkeep_through_target_bytes_total",
            "bytes filled and destaged through the target", name, c.upkeep_through_target_bytes);
    counter(out, "wss_cache_destaged_bytes_total", "dirty bytes destaged", name, c.destaged_bytes);
    counter(out, "wss_cache_destage_errors_total", "failed writes of dirty data to real storage", name,
            c.destage_errors);
    out.push_back({"wss_cache_dirty_lines",
                   "lines newer than real storage",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   static_cast<double>(volume.dirty_lines)});
    out.push_back({"wss_cache_single_lines",
                   "dirty lines that have one copy and should have two: each is lost with its engine",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   static_cast<double>(volume.single_lines)});
    out.push_back({"wss_cache_lost_bytes",
                   "acknowledged bytes whose copies are all in engines that are away; reading them waits for "
                   "--cache-grace, then fails",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   static_cast<double>(volume.lost_bytes)});
    out.push_back({"wss_cache_waiting_commands",
                   "commands that wait, for up to --cache-grace, for engines to return with lost data",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   static_cast<double>(volume.waiting)});
    out.push_back({"wss_cache_oldest_dirty_seconds",
                   "how long the oldest dirty data has waited for real storage",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   static_cast<double>(volume.oldest_dirty.count) / 1e9});
    out.push_back({"wss_cache_storage_failing",
                   "1 while dirty data waits for storage that fails",
                   Sample::Kind::kGauge,
                   {{"volume", name}},
                   volume.last_error.empty() ? 0.0 : 1.0});
}

Samples cache_samples(CachePart& cache) {
    Samples out;
    auto info = cache.info();
    if (!info) return out;
    auto gauge = [&out](const char* name, const char* help, double value) {
        out.push_back({name, help, Sample::Kind::kGauge, {}, value});
    };
    // The list of engines also contains real storage processes (--role rs).
    const auto engines = std::count_if(info->engines.begin(), info->engines.end(), [](const auto& engine) {
        return engine.state != "joining" && engine.state != "storage";
    });
    gauge("wss_cache_engines", "cache engines that have joined", static_cast<double>(engines));
    gauge("wss_cache_lines", "lines that the engines have room for",
          static_cast<double>(info->capacity_lines));
    gauge("wss_cache_used_lines", "lines in use", static_cast<double>(info->index.lines));
    gauge("wss_cache_recovering", "1 while the cache waits for engines with dirty lines",
          info->recovering ? 1 : 0);
    gauge("wss_cache_unsaved", "1 while writes wait because the state of the cache cannot be saved",
          info->trouble.empty() ? 0 : 1);
    for (const auto& volume : info->volumes) add_cached_volume(out, volume);
    return out;
}

}  // namespace

void add_target_metrics(metrics::Exporter& exporter, block::Service& service, volume::VolumeSet& volumes,
                        CachePart* cache) {
    exporter.add([&service] { return block_samples(service); });
    exporter.add([&service] { return session_samples(service); });
    exporter.add([&volumes] { return volume_samples(volumes); });
    if (cache != nullptr) exporter.add([cache] { return cache_samples(*cache); });
}

}  // namespace wss::daemon
