// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/measurements.h"

#include <fmt/core.h>

#include <iterator>

namespace wss::ycsb {

constexpr uint64_t kNanosecondsPerMicrosecond = 1000;

std::string_view return_code(const Status& status) {
    switch (status.code()) {
        case Code::kOk:
            return "OK";
        case Code::kNotFound:
            return "NOT_FOUND";
        case Code::kInvalid:
            return "BAD_REQUEST";
        case Code::kPermission:
            return "FORBIDDEN";
        case Code::kUnsupported:
            return "NOT_IMPLEMENTED";
        case Code::kUnavailable:
        case Code::kClosed:
            return "SERVICE_UNAVAILABLE";
        case Code::kInternal:
            return "UNEXPECTED_STATE";
        default:
            return "ERROR";
    }
}

static void add(Measurements::Series& series, const Status& status, Nanoseconds latency) {
    series.latency.record(static_cast<uint64_t>(std::max<int64_t>(latency.count, 0)));
    ++series.returns[std::string(return_code(status))];
}

void Measurements::record(const std::string& name, const Status& status, Nanoseconds latency) {
    add(series_[status ? name : name + "-FAILED"], status, latency);
}

void Measurements::record_intended(const std::string& name, const Status& status, Nanoseconds latency) {
    add(series_[status ? "Intended-" + name : "Intended-" + name + "-FAILED"], status, latency);
}

void Measurements::merge(const Measurements& other) {
    for (const auto& [name, series] : other.series_) {
        series_[name].latency.merge(series.latency);
        for (const auto& [code, count] : series.returns) series_[name].returns[code] += count;
    }
    operations_ += other.operations_;
    failed_ += other.failed_;
}

// Returns "50thPercentileLatency(us)" or "99.9PercentileLatency(us)": YCSB appends an ordinal suffix only to
// whole numbers.
static std::string percentile_name(double percent) {
    auto whole = static_cast<uint64_t>(percent);
    if (static_cast<double>(whole) != percent) return fmt::format("{}PercentileLatency(us)", percent);
    uint64_t last = whole % 100 / 10 == 1 ? 0 : whole % 10;
    const char* ordinal = last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th";
    return fmt::format("{}{}PercentileLatency(us)", whole, ordinal);
}

std::string report(const Measurements& measurements, Nanoseconds run_time,
                   const std::vector<double>& percentiles) {
    std::string text;
    auto line = [&text](const std::string& name, std::string_view what, auto value) {
        fmt::format_to(std::back_inserter(text), "[{}], {}, {}\n", name, what, value);
    };
    double seconds = static_cast<double>(run_time.count) / 1e9;
    line("OVERALL", "RunTime(ms)", run_time.count / 1'000'000);
    line("OVERALL", "Throughput(ops/sec)",
         seconds > 0 ? static_cast<double>(measurements.operations()) / seconds : 0.0);
    for (const auto& [name, series] : measurements.series()) {
        const Histogram& h = series.latency;
        line(name, "Operations", h.count());
        line(name, "AverageLatency(us)", h.mean() / kNanosecondsPerMicrosecond);
        line(name, "MinLatency(us)", h.min() / kNanosecondsPerMicrosecond);
        line(name, "MaxLatency(us)", h.max() / kNanosecondsPerMicrosecond);
        for (double percent : percentiles)
            line(name, percentile_name(percent), h.percentile(percent) / kNanosecondsPerMicrosecond);
        for (const auto& [code, count] : series.returns) line(name, "Return=" + code, count);
    }
    return text;
}

std::string summary(const Measurements& measurements) {
    std::string text;
    for (const auto& [name, series] : measurements.series()) {
        const Histogram& h = series.latency;
        auto us = [&h](double percent) { return h.percentile(percent) / kNanosecondsPerMicrosecond; };
        fmt::format_to(std::back_inserter(text),
                       "[{}: Count={}, Max={}, Min={}, Avg={:.2f}, 50={}, 90={}, 99={}, 99.9={}, 99.99={}] ",
                       name, h.count(), h.max() / kNanosecondsPerMicrosecond,
                       h.min() / kNanosecondsPerMicrosecond, h.mean() / kNanosecondsPerMicrosecond, us(50),
                       us(90), us(99), us(99.9), us(99.99));
    }
    return text;
}

}  // namespace wss::ycsb
