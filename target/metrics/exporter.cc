// SPDX-License-Identifier: Apache-2.0
#include "target/metrics/exporter.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <map>

namespace wss::metrics {

static prometheus::MetricFamily family_of(const Sample& sample) {
    constexpr prometheus::MetricType kTypes[] = {
        prometheus::MetricType::Counter, prometheus::MetricType::Gauge, prometheus::MetricType::Histogram};
    return {sample.name, sample.help, kTypes[static_cast<size_t>(sample.kind)], {}};
}

static prometheus::ClientMetric metric_of(const Sample& sample) {
    prometheus::ClientMetric metric;
    for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
    switch (sample.kind) {
        case Sample::Kind::kCounter:
            metric.counter.value = sample.value;
            break;
        case Sample::Kind::kGauge:
            metric.gauge.value = sample.value;
            break;
        case Sample::Kind::kHistogram:
            metric.histogram.sample_sum = sample.value;
            for (const Sample::Bucket& bucket : sample.buckets)
                metric.histogram.bucket.push_back({bucket.count, bucket.most});
            if (!sample.buckets.empty()) metric.histogram.sample_count = sample.buckets.back().count;
    }
    return metric;
}

std::string Exporter::text() const {
    std::vector<prometheus::MetricFamily> families;
    std::map<std::string, size_t> known;
    for (const auto& source : sources_)
        for (const Sample& sample : source()) {
            auto [at, fresh] = known.try_emplace(sample.name, families.size());
            if (fresh) families.push_back(family_of(sample));
            families[at->second].metric.push_back(metric_of(sample));
        }
    return prometheus::TextSerializer().Serialize(families);
}

}  // namespace wss::metrics
