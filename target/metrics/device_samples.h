// SPDX-License-Identifier: Apache-2.0
// The RDMA devices of this process (lib/fabric/device_report.h), for Prometheus.
#pragma once

#include "target/metrics/exporter.h"

namespace wss::metrics {

std::vector<Sample> device_samples();

}  // namespace wss::metrics
