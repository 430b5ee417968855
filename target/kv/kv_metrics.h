// SPDX-License-Identifier: Apache-2.0
// What a partition of the key-value store tells Prometheus; Documentation/metrics.md lists the names.
#pragma once

#include "target/kv/kv_part.h"
#include "target/metrics/exporter.h"

namespace wss::kvpart {

// `info`: of a partition, as KvPart::infos_json() says it; empty or malformed: no samples.
std::vector<metrics::Sample> kv_samples(const std::string& info);
// `part` outlives the exporter.
void add_kv_metrics(metrics::Exporter& exporter, KvPart& part);

}  // namespace wss::kvpart
