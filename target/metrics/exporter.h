// SPDX-License-Identifier: Apache-2.0
// Exporter: the counters of a program for Prometheus, over HTTP (/metrics). Documentation/metrics.md lists
// the names.
//
// Whoever owns counters gives a function that names and values them when somebody asks; nothing is counted
// twice.
//
// Thread-safety: add() before start(); the functions are called on a thread of the exporter's.
// Lifetime: what the functions refer to outlives the exporter.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/status.h"

namespace wss::metrics {

struct Sample {
    enum class Kind : uint8_t { kCounter, kGauge };

    std::string name;  // "wss_cache_read_hits_total"
    std::string help;
    Kind kind = Kind::kCounter;
    std::vector<std::pair<std::string, std::string>> labels;
    double value = 0;
};
// Samples of one name stand together.
using Collect = std::function<std::vector<Sample>()>;

class Exporter {
  public:
    void add(Collect collect);
    // "127.0.0.1:9555". Fails with the reason in words.
    Status start(const std::string& address);
    Exporter();
    ~Exporter();

  private:
    class Server;
    std::vector<Collect> sources_;
    std::shared_ptr<Server> server_;
};

}  // namespace wss::metrics
