// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "lib/fabric/tls/context.h"
#include "target/control/methods.h"

namespace wss::control {

void add_tls_statistics(Methods& methods) {
    methods.add_statistics("tls", [] {
        auto out = nlohmann::json::object();
        fabric::tls::counters().for_each(
            [&](const char* name, const char*, uint64_t value) { out[name] = value; });
        return out;
    });
}

}  // namespace wss::control
