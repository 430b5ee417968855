// SPDX-License-Identifier: Apache-2.0
// The precompiled header of tests, as lib/precompiled.h is for the programs.
#ifndef WSS_TESTS_PRECOMPILED_H
#define WSS_TESTS_PRECOMPILED_H

#include <gtest/gtest.h>

#include "lib/precompiled.h"

#endif
