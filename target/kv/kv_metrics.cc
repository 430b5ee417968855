// SPDX-License-Identifier: Apache-2.0
#include "target/kv/kv_metrics.h"

#include <fmt/core.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace wss::kv {

namespace {

using Json = nlohmann::json;
using metrics::Sample;

constexpr auto kCounter = Sample::Kind::kCounter;
constexpr auto kGauge = Sample::Kind::kGauge;

struct Row {
    const char* section;
    const char* field;
    const char* name;
    const char* help;
    Sample::Kind kind;
};

constexpr Row kRows[] = {
    {"server", "ready", "wss_kv_ready", "1 when clients are served", kGauge},
    {"traffic", "connections", "wss_kv_connections", "connections of clients and partitions", kGauge},
    {"traffic", "connections_refused", "wss_kv_refused_connections_total",
     "connections refused because there were too many from their source, or in total", kCounter},
    {"traffic", "closed_ungreeted", "wss_kv_closed_ungreeted_total",
     "connections closed because they sent no greeting in time, or to make room for others", kCounter},
    {"traffic", "messages", "wss_kv_messages_total", "messages that arrived", kCounter},
    {"traffic", "gets", "wss_kv_gets_total", "get messages, each a part of a read transaction", kCounter},
    {"traffic", "get_keys", "wss_kv_get_keys_total", "keys read by message", kCounter},
    {"traffic", "second_round_keys", "wss_kv_second_round_keys_total",
     "keys that were read again by timestamp (the second round of RAMP)", kCounter},
    {"traffic", "one_sided_keys", "wss_kv_one_sided_keys_total",
     "keys that clients read one-sidedly; clients report once a second", kCounter},
    {"traffic", "prepares", "wss_kv_prepares_total", "prepares and puts, each a part of a write transaction",
     kCounter},
    {"traffic", "commits", "wss_kv_commits_total", "commits by clients", kCounter},
    {"traffic", "aborts", "wss_kv_aborts_total", "aborts by clients", kCounter},
    {"traffic", "inquiries", "wss_kv_inquiries_total", "inquiries from other partitions", kCounter},
    {"traffic", "conditional_puts", "wss_kv_conditional_puts_total", "conditional puts", kCounter},
    {"traffic", "scans", "wss_kv_scans_total", "pages of scans", kCounter},
    {"traffic", "locks", "wss_kv_locks_total", "locks requested (two-phase locking)", kCounter},
    {"traffic", "refused", "wss_kv_refused_total", "requests refused with a message", kCounter},
    {"traffic", "malformed", "wss_kv_malformed_total", "requests that violated the protocol", kCounter},
    {"traffic", "refused_cold", "wss_kv_refused_cold_total",
     "reads postponed because too many already wait for the disk", kCounter},
    {"traffic", "refused_backlog", "wss_kv_refused_backlog_total",
     "reads postponed because their client does not receive its replies", kCounter},
    {"traffic", "refused_permission", "wss_kv_refused_permission_total",
     "messages refused because their client lacks a right (--kv-access)", kCounter},
    {"traffic", "clock_ahead_max_us", "wss_kv_clock_ahead_max_seconds",
     "the most by which a client's clock has been ahead of this partition's clock", kGauge},
    {"server", "client_ids", "wss_kv_client_ids", "client ids that this partition can lease", kGauge},
    {"server", "client_ids_leased", "wss_kv_client_ids_leased", "client ids that are leased now", kGauge},
    {"ramp", "prepared", "wss_kv_prepared", "transactions prepared and undecided", kGauge},
    {"ramp", "terminations_waiting", "wss_kv_terminations_waiting",
     "transactions that wait for a partition that cannot be reached", kGauge},
    {"ramp", "refused_locks", "wss_kv_refused_locks_total",
     "locks refused because the partition has too many", kCounter},
    {"ramp", "commits_lost", "wss_kv_commits_lost_total", "versions that were committed after a newer one",
     kCounter},
    {"ramp", "gc_lag_us", "wss_kv_gc_lag_seconds",
     "how long the oldest superseded version has been overdue for collection", kGauge},
    {"ramp", "window_now_ms", "wss_kv_window_seconds", "how long superseded versions are kept now", kGauge},
    {"ramp", "collected", "wss_kv_collected_versions_total", "versions collected", kCounter},
    {"ramp", "expired", "wss_kv_expired_versions_total", "versions whose time to live has ended", kCounter},
    {"memory", "keys", "wss_kv_keys", "keys known", kGauge},
    {"memory", "versions", "wss_kv_versions", "versions kept", kGauge},
    {"memory", "cold_versions", "wss_kv_cold_versions", "versions whose values are on disk only", kGauge},
    {"memory", "arena_bytes", "wss_kv_arena_bytes", "memory that clients may read", kGauge},
    {"memory", "arena_used", "wss_kv_arena_used_bytes", "used part of the memory that clients may read",
     kGauge},
    {"memory", "indexed_keys", "wss_kv_indexed_keys", "keys that one-sided reads find without the server",
     kGauge},
    {"memory", "index_used", "wss_kv_index_used_bytes", "memory of the index for one-sided reads", kGauge},
    {"memory", "heap_used", "wss_kv_heap_used_bytes", "memory outside the arena: key index, decisions",
     kGauge},
    {"memory", "refused_memory", "wss_kv_refused_memory_total", "writes refused because memory was full",
     kCounter},
    {"memory", "evicted", "wss_kv_evicted_values_total", "values of which only the copy on disk remains",
     kCounter},
    {"memory", "fetched", "wss_kv_fetched_values_total", "values fetched from disk", kCounter},
    {"memory", "log_failures", "wss_kv_log_failures_total", "writes of the log that failed", kCounter},
    {"latency", "slow", "wss_kv_slow_requests_total", "requests that took longer than the slow log's limit",
     kCounter},
};

double number_in(const Json& info, const char* section, const char* field) {
    auto at = info.find(section);
    if (at == info.end() || !at->contains(field)) return 0;
    const Json& value = (*at)[field];
    if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
    return value.is_number() ? value.get<double>() : 0;
}

void add_terminations(std::vector<Sample>& out, const Json& info) {
    for (const char* outcome : {"commit", "abort"})
        out.push_back({"wss_kv_terminations_total",
                       "transactions of silent clients that the partitions decided",
                       kCounter,
                       {{"outcome", outcome}},
                       number_in(info, "ramp", fmt::format("terminated_{}", outcome).c_str())});
}

void add_fallbacks(std::vector<Sample>& out, const Json& info) {
    for (const char* reason : {"no_address", "invalid", "stale", "torn", "large", "second_round"})
        out.push_back(
            {"wss_kv_fallback_gets_total",
             "gets sent to the server by clients that read one-sidedly, by the reason for the first key",
             kCounter,
             {{"reason", reason}},
             number_in(info, "traffic", fmt::format("fallback_{}", reason).c_str())});
}

// Bucket i of `info` counts requests that took less than 2^i microseconds and are in no smaller bucket.
void add_latency(std::vector<Sample>& out, const Json& info) {
    auto at = info.find("latency");
    if (at == info.end() || !at->contains("buckets_us_pow2")) return;
    const Json& buckets = (*at)["buckets_us_pow2"];
    Sample sample{"wss_kv_request_seconds",
                  "how long requests took in the server",
                  Sample::Kind::kHistogram,
                  {},
                  number_in(info, "latency", "total_us") / 1e6};
    uint64_t total = 0;
    for (size_t i = 0; i < buckets.size(); ++i) {
        total += buckets[i].get<uint64_t>();
        const bool last = i + 1 == buckets.size();
        sample.buckets.push_back(
            {last ? std::numeric_limits<double>::infinity() : double(1ull << i) / 1e6, total});
    }
    out.push_back(std::move(sample));
}

}  // namespace

std::vector<Sample> kv_samples(const std::string& text) {
    std::vector<Sample> out;
    Json info = Json::parse(text, nullptr, false);
    if (!info.is_object()) return out;
    for (const Row& row : kRows) {
        const std::string_view field = row.field;
        const double unit = field.ends_with("_us") ? 1e6 : field.ends_with("_ms") ? 1e3 : 1;
        out.push_back({row.name, row.help, row.kind, {}, number_in(info, row.section, row.field) / unit});
    }
    add_terminations(out, info);
    add_fallbacks(out, info);
    add_latency(out, info);
    std::string partition = fmt::format("{}", number_in(info, "server", "partition"));
    for (Sample& sample : out) sample.labels.emplace_back("partition", partition);
    return out;
}

void add_kv_metrics(metrics::Exporter& exporter, KvPart& part) {
    exporter.add([&part] {
        std::vector<Sample> all;
        for (const std::string& info : part.infos_json()) {
            std::vector<Sample> samples = kv_samples(info);
            all.insert(all.end(), samples.begin(), samples.end());
        }
        return all;
    });
}

}  // namespace wss::kv
