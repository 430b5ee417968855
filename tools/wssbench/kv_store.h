// SPDX-License-Identifier: Apache-2.0
// KvStore: a key-value store on this machine, with a wss-target for each partition, and runs of kvctl bench
// on it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/wssbench/program.h"
#include "tools/wssbench/remote_points.h"

namespace wss::wssbench {

// kvctl measures whole seconds. Each measurement uses a new client, so it needs a warm-up.
constexpr uint32_t kKvWarmUpSeconds = 1;
uint32_t whole_seconds(double seconds);

using KvProperties = std::map<std::string, std::string>;  // of YCSB

class KvStore {
  public:
    // `fabric`: tcp or shm. `more`: further options of each wss-target.
    static Result<std::unique_ptr<KvStore>> start(const std::string& fabric, uint32_t partitions,
                                                  const Storage& storage,
                                                  const std::vector<std::string>& more = {});
    // Runs kvctl bench and returns its report. `phase`: load or run. `modes`: options of kvctl.
    Result<Json> bench(const KvProperties& properties, const std::string& phase, double limit_seconds,
                       const std::vector<std::string>& modes = {}) const;
    // Resident memory of all partitions in MiB.
    double resident_mib() const;
    // Kills all partitions. An orderly end takes a long time with gigabytes of keys.
    void kill();

  private:
    std::string target_;  // the addresses of all partitions
    Programs partitions_;
};

// Extracts rate and processor time from a report of phase `run`.
Result<Sample> sample_of_report(const Json& report);

}  // namespace wss::wssbench
