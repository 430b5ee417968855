// SPDX-License-Identifier: Apache-2.0
// An assertion of a fuzzer beyond "no crash": it stops the fuzzer and prints the violated condition.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FUZZ_REQUIRE(promise)                                                                  \
    do {                                                                                       \
        if (!(promise)) {                                                                      \
            std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #promise); \
            std::abort();                                                                      \
        }                                                                                      \
    } while (0)
