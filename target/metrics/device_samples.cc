// SPDX-License-Identifier: Apache-2.0
#include "target/metrics/device_samples.h"

#include "lib/fabric/device_report.h"

namespace wss::metrics {

std::vector<Sample> device_samples() {
    std::vector<Sample> out;
    for (const fabric::DeviceReport& device : fabric::device_reports()) {
        out.push_back({"wss_rdma_device_serving",
                       "1 if the RDMA device is in use and has an active port",
                       Sample::Kind::kGauge,
                       {{"device", device.name}},
                       device.state == fabric::DeviceState::kServing ? 1.0 : 0.0});
        out.push_back({"wss_rdma_device_removals_total",
                       "removals of the RDMA device while it was in use",
                       Sample::Kind::kCounter,
                       {{"device", device.name}},
                       static_cast<double>(device.removals)});
    }
    return out;
}

}  // namespace wss::metrics
