// SPDX-License-Identifier: Apache-2.0
// What a fuzzer asserts beyond "no crash": the fuzzer stops with the promise that was broken.
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
