// SPDX-License-Identifier: Apache-2.0
// As lib/precompiled.h, for tests.
#ifndef WSS_TESTS_PRECOMPILED_H
#define WSS_TESTS_PRECOMPILED_H

#include <gtest/gtest.h>

#include "lib/precompiled.h"

#endif
