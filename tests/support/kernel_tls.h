// SPDX-License-Identifier: Apache-2.0
// Lets the tests of TLS also run over kernel TLS, which this machine may lack.
// tests/system/test_kernel_tls.py runs them in a machine that has it.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "lib/fabric/tls/kernel.h"

namespace wss::test {

// For Credentials::kernel_sends_max: libssl encrypts, unless the environment has WSS_TEST_KERNEL_TLS.
inline uint64_t kernel_sends_max() {
    return std::getenv("WSS_TEST_KERNEL_TLS") != nullptr ? fabric::tls::kernel::kBytesPerKey : 0;
}

}  // namespace wss::test
