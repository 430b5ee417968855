// SPDX-License-Identifier: Apache-2.0
// Exporter: the counters of a program as Prometheus reads them. Documentation/metrics.md lists the names.
//
// Whoever owns counters gives a function that names and values them when somebody asks; nothing is counted
// twice.
//
// Thread-safety: add() before text(), which any thread may call; so are the functions.
// Lifetime: what the functions refer to outlives the exporter.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace wss::metrics {

struct Sample {
    enum class Kind : uint8_t { kCounter, kGauge, kHistogram };
    struct Bucket {
        double most = 0;     // an infinity in the last one
        uint64_t count = 0;  // of all values up to that, those of smaller buckets too
    };

    std::string name;  // "wss_cache_read_hits_total"
    std::string help;
    Kind kind = Kind::kCounter;
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;             // of a histogram: the sum of all values
    std::vector<Bucket> buckets;  // of a histogram
};
using Collect = std::function<std::vector<Sample>()>;

class Exporter {
  public:
    void add(Collect collect) { sources_.push_back(std::move(collect)); }
    // Of all that was added, in Prometheus' text format.
    std::string text() const;

  private:
    std::vector<Collect> sources_;
};

}  // namespace wss::metrics
