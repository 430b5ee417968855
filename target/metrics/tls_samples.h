// SPDX-License-Identifier: Apache-2.0
// The counters of the tls:// addresses of this process (lib/fabric/tls/context.h), for Prometheus.
#pragma once

#include "target/metrics/exporter.h"

namespace wss::metrics {

std::vector<Sample> tls_samples();

}  // namespace wss::metrics
