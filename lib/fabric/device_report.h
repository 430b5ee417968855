// SPDX-License-Identifier: Apache-2.0
// DeviceReport: the state of an RDMA device that this process uses or has used, for operators.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wss::fabric {

enum class DeviceState : uint8_t {
    kServing,
    kPortDown,  // no port is active
    kRemoved,   // the machine has no such device at present
    kReturned,  // was removed, is present again, and has had no connection yet
};
std::string_view to_string(DeviceState state);

struct DeviceReport {
    std::string name;
    DeviceState state = DeviceState::kServing;
    uint64_t removals = 0;  // number of removals so far
};

// Sorted by name. May be called on any thread.
std::vector<DeviceReport> device_reports();

}  // namespace wss::fabric
