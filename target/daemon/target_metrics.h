// SPDX-License-Identifier: Apache-2.0
// The metrics of wss-target for Prometheus; Documentation/metrics.md lists the names.
#pragma once

#include "target/block/service.h"
#include "target/daemon/cache_part.h"
#include "target/metrics/exporter.h"
#include "target/volume/volume_set.h"

namespace wss::daemon {

// `cache` may be nullptr. All arguments must outlive the exporter.
void add_target_metrics(metrics::Exporter& exporter, block::Service& service, volume::VolumeSet& volumes,
                        CachePart* cache);

}  // namespace wss::daemon
