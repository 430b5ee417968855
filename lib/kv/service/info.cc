// SPDX-License-Identifier: Apache-2.0
// The status of a partition as one JSON object (kvctl info, the control socket, the metrics).
#include <sys/resource.h>
#include <unistd.h>

#include "lib/kv/service/service.h"

namespace wss::kv {

namespace {

class Object {
  public:
    Object& number(std::string_view name, uint64_t value) {
        text_ += fmt::format("{}\"{}\":{}", text_.size() > 1 ? "," : "", name, value);
        return *this;
    }
    // `value` needs no escaping: it comes from this program.
    Object& word(std::string_view name, std::string_view value) {
        text_ += fmt::format("{}\"{}\":\"{}\"", text_.size() > 1 ? "," : "", name, value);
        return *this;
    }
    Object& nested(std::string_view name, const std::string& value) {
        text_ += fmt::format("{}\"{}\":{}", text_.size() > 1 ? "," : "", name, value);
        return *this;
    }
    std::string done() { return text_ + "}"; }

  private:
    std::string text_ = "{";
};

std::string slow_entries(const SlowLog& log) {
    std::string text = "[";
    size_t count = std::min<uint64_t>(log.slow(), SlowLog::kEntries);
    for (size_t i = 0; i < count; ++i) {
        const SlowLog::Entry& entry = log.entry(i);
        text += (i > 0 ? "," : "") + Object()
                                         .number("kind", static_cast<uint64_t>(entry.kind))
                                         .number("client", entry.client)
                                         .number("keys", entry.keys)
                                         .number("at_ms", static_cast<uint64_t>(entry.at.count / 1'000'000))
                                         .number("took_us", static_cast<uint64_t>(entry.took.count / 1000))
                                         .done();
    }
    return text + "]";
}

std::string latency_buckets(const SlowLog& log) {
    std::string text = "[";
    for (size_t i = 0; i < SlowLog::kBuckets; ++i)
        text += fmt::format("{}{}", i > 0 ? "," : "", log.buckets()[i]);
    return text + "]";
}

}  // namespace

namespace {

std::string traffic_of(const ServiceCounters& c, const ConnectionPlaces::Counters& places, size_t connections,
                       size_t polled, size_t announced) {
    return Object()
        .number("connections", connections)
        .number("rings_polled", polled)
        .number("rings_announced", announced)
        .number("connections_made", c.connections)
        .number("connections_refused", places.refused)
        .number("closed_ungreeted", places.closed_ungreeted)
        .number("messages", c.messages)
        .number("gets", c.gets)
        .number("get_keys", c.get_keys)
        .number("second_round_keys", c.second_round_gets)
        .number("prepares", c.prepares)
        .number("commits", c.commits)
        .number("aborts", c.aborts)
        .number("inquiries", c.inquiries)
        .number("conditional_puts", c.conditional)
        .number("scans", c.scans)
        .number("locks", c.locks)
        .number("refused", c.refused)
        .number("malformed", c.malformed)
        .number("refused_cold", c.refused_cold)
        .number("refused_backlog", c.refused_backlog)
        .number("refused_permission", c.refused_permission)
        .number("one_sided_keys", c.one_sided_keys)
        .number("fallback_no_address", c.fallbacks[size_t(Fallback::kNoAddress)])
        .number("fallback_invalid", c.fallbacks[size_t(Fallback::kInvalid)])
        .number("fallback_stale", c.fallbacks[size_t(Fallback::kStale)])
        .number("fallback_torn", c.fallbacks[size_t(Fallback::kTorn)])
        .number("fallback_large", c.fallbacks[size_t(Fallback::kLarge)])
        .number("fallback_second_round", c.fallbacks[size_t(Fallback::kSecondRound)])
        .number("clock_ahead_max_us", c.ahead_max_us)
        .done();
}

std::string memory_of(const store::Statistics& kept) {
    return Object()
        .number("keys", kept.keys)
        .number("versions", kept.versions)
        .number("cold_versions", kept.cold_versions)
        .number("arena_bytes", kept.arena_bytes)
        .number("arena_used", kept.arena_used)
        .number("heap_used", kept.heap_used)
        .number("indexed_keys", kept.indexed)
        .number("index_used", kept.index_used)
        .number("refused_memory", kept.refused_memory)
        .number("evicted", kept.evicted)
        .number("fetched", kept.fetched)
        .number("log_failures", kept.log_failures)
        .done();
}

// A rule is printable ASCII (access_rules.h).
std::string json_string(std::string_view rule) {
    std::string text = "\"";
    for (char letter : rule) {
        if (letter == '"' || letter == '\\') text += '\\';
        text += letter;
    }
    return text + '"';
}

std::string access_of(const Access& access) {
    std::string rules = "[";
    if (access.rules() != nullptr)
        for (const std::string& rule : access.rules()->words())
            rules += (rules.size() > 1 ? "," : "") + json_string(rule);
    Object refused;
    for (const auto& [name, count] : access.refused()) refused.number(name, count);
    return Object()
        .number("restricted", access.rules() != nullptr)
        .nested("rules", rules + "]")
        .nested("refused", refused.done())
        .done();
}

// Covers the whole process: all partitions of a process report the same values.
std::string process_json() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto us = [](const timeval& time) {
        return static_cast<uint64_t>(time.tv_sec) * 1'000'000 + static_cast<uint64_t>(time.tv_usec);
    };
    return Object()
        .number("pid", static_cast<uint64_t>(getpid()))
        .number("cpu_us", us(usage.ru_utime) + us(usage.ru_stime))
        .done();
}

}  // namespace

std::string Service::info_json() const {
    store::Statistics kept = partition_.store().statistics();
    const ServiceCounters& c = counters();
    const ServiceOptions& options = partition_.options();
    const Nanoseconds now = partition_.reactor().now();
    size_t rings = 0, announced = 0;
    for (const auto& peer : peers_) {
        const Ring& ring = peer->channel()->ring();
        rings += ring.active();
        announced += ring.active() && ring.is_announced();
    }
    std::string traffic = traffic_of(c, places_.counters(), peers_.size(), rings - announced, announced);
    std::string server =
        Object()
            .number("partition", options.partition)
            .number("partitions", options.partitions.size())
            .number("incarnation", partition_.incarnation())
            .word("durability", store::to_string(options.store.durability))
            .number("window_ms", static_cast<uint64_t>(options.store.window.count / 1'000'000))
            .number("uptime_ms", static_cast<uint64_t>((now - partition_.started()).count / 1'000'000))
            .number("ready", ready())
            .number("client_ids", greeter_.ids())
            .number("client_ids_leased", greeter_.ids_leased(now))
            .done();
    std::string ramp = Object()
                           .number("prepared", kept.prepared)
                           .number("refused_locks", kept.refused_locks)
                           .number("terminated_commit", c.terminated_commit)
                           .number("terminated_abort", c.terminated_abort)
                           .number("terminated_guess", c.terminated_guess)
                           .number("terminations_waiting", c.terminations_waiting)
                           .number("commits_lost", kept.commits_lost)
                           .number("gc_lag_us", static_cast<uint64_t>(kept.gc_lag.count / 1000))
                           .number("window_now_ms", static_cast<uint64_t>(kept.window_now.count / 1'000'000))
                           .number("collected", kept.collected)
                           .number("expired", kept.expired)
                           .done();
    std::string memory = memory_of(kept);
    std::string latency = Object()
                              .number("count", slow_log().count())
                              .number("total_us", slow_log().total_us())
                              .number("slow", slow_log().slow())
                              .nested("buckets_us_pow2", latency_buckets(slow_log()))
                              .nested("slowest", slow_entries(slow_log()))
                              .done();
    return Object()
        .nested("server", server)
        .nested("process", process_json())
        .nested("traffic", traffic)
        .nested("access", access_of(access_))
        .nested("ramp", ramp)
        .nested("memory", memory)
        .nested("latency", latency)
        .done();
}

}  // namespace wss::kv
