// SPDX-License-Identifier: Apache-2.0
// Prometheus metrics of the key-value store's partitions; Documentation/metrics.md lists the names.
#pragma once

#include "target/kv/kv_part.h"
#include "target/metrics/exporter.h"

namespace wss::kv {

// `info`: the status of a partition from KvPart::infos_json(). If it is empty or malformed, there are no
// samples.
std::vector<metrics::Sample> kv_samples(const std::string& info);
// `part` must outlive the exporter.
void add_kv_metrics(metrics::Exporter& exporter, KvPart& part);

}  // namespace wss::kv
