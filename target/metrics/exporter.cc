// SPDX-License-Identifier: Apache-2.0
#include "target/metrics/exporter.h"

#include <prometheus/client_metric.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

#include <map>

namespace wss::metrics {

class Exporter::Server final : public prometheus::Collectable {
  public:
    explicit Server(const std::vector<metrics::Collect>& sources) : sources_(sources) {}

    std::vector<prometheus::MetricFamily> Collect() const override {
        std::vector<prometheus::MetricFamily> families;
        std::map<std::string, size_t> known;
        for (const auto& source : sources_)
            for (const Sample& sample : source()) {
                auto [at, fresh] = known.try_emplace(sample.name, families.size());
                const bool counter = sample.kind == Sample::Kind::kCounter;
                if (fresh)
                    families.push_back(
                        {sample.name,
                         sample.help,
                         counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
                         {}});
                prometheus::ClientMetric metric;
                for (const auto& [name, value] : sample.labels) metric.label.push_back({name, value});
                (counter ? metric.counter.value : metric.gauge.value) = sample.value;
                families[at->second].metric.push_back(std::move(metric));
            }
        return families;
    }

    std::unique_ptr<prometheus::Exposer> exposer;

  private:
    const std::vector<metrics::Collect>& sources_;
};

Exporter::Exporter() = default;
Exporter::~Exporter() {
    // The HTTP server first: it asks the rest.
    if (server_ != nullptr) server_->exposer.reset();
}

void Exporter::add(Collect collect) {
    sources_.push_back(std::move(collect));
}

Status Exporter::start(const std::string& address) {
    auto server = std::make_shared<Server>(sources_);
    try {
        server->exposer = std::make_unique<prometheus::Exposer>(address, 1);
    } catch (const std::exception& error) {
        return failure(Code::kUnavailable, "--metrics {}: cannot listen there: {}", address, error.what());
    }
    server->exposer->RegisterCollectable(server);
    server_ = std::move(server);
    return Status::ok();
}

}  // namespace wss::metrics
