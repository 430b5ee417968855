// SPDX-License-Identifier: Apache-2.0
#include "target/metrics/tls_samples.h"

#include "lib/fabric/tls/context.h"

namespace wss::metrics {

std::vector<Sample> tls_samples() {
    std::vector<Sample> out;
    fabric::tls::counters().for_each([&](const char* name, const char* help, uint64_t value) {
        out.push_back({std::string("wss_tls_") + name + "_total",
                       help,
                       Sample::Kind::kCounter,
                       {},
                       static_cast<double>(value)});
    });
    return out;
}

}  // namespace wss::metrics
