// SPDX-License-Identifier: Apache-2.0
// WSS_ASSERT: for programming errors only. Input from outside must never make it fail. Release builds check
// it, too.
#pragma once

namespace wss {

[[noreturn]] void assert_failed(const char* expression, const char* why, const char* file, int line) noexcept;

}  // namespace wss

#define WSS_ASSERT(expression, why)                                     \
    do {                                                                \
        if (!(expression)) [[unlikely]]                                 \
            ::wss::assert_failed(#expression, why, __FILE__, __LINE__); \
    } while (0)
