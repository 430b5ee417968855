// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "lib/fabric/device_report.h"
#include "target/control/methods.h"

namespace wss::control {

void add_device_statistics(Methods& methods) {
    methods.add_statistics("rdma_devices", [] {
        auto out = nlohmann::json::object();
        for (const fabric::DeviceReport& device : fabric::device_reports())
            out[device.name] = fabric::to_string(device.state);
        return out;
    });
}

}  // namespace wss::control
