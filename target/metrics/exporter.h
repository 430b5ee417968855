// SPDX-License-Identifier: Apache-2.0
// Exporter: the counters of a program in the format of Prometheus. Documentation/metrics.md lists the names.
//
// Each owner of counters registers a function that collects them on request, so nothing is counted twice.
//
// Thread-safety: all calls of add() precede the first text(). Any thread may call text(), which calls the
// functions on that thread. Lifetime: the objects to which the functions refer outlive the exporter.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace wss::metrics {

struct Sample {
    enum class Kind : uint8_t { kCounter, kGauge, kHistogram };
    struct Bucket {
        double most = 0;     // upper bound; infinity in the last bucket
        uint64_t count = 0;  // cumulative: all values up to `most`
    };

    std::string name;  // "wss_cache_read_hits_total"
    std::string help;
    Kind kind = Kind::kCounter;
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;             // for a histogram: the sum of all values
    std::vector<Bucket> buckets;  // for a histogram
};
using Collect = std::function<std::vector<Sample>()>;

class Exporter {
  public:
    void add(Collect collect) { sources_.push_back(std::move(collect)); }
    // The samples of all functions, in Prometheus' text format.
    std::string text() const;

  private:
    std::vector<Collect> sources_;
};

}  // namespace wss::metrics
