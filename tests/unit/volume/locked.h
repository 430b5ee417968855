// SPDX-License-Identifier: Apache-2.0
// Locks a state file that no other process uses.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "target/volume/state_lock.h"

namespace wss::volume {

inline StateLock::Shared locked(const std::string& path) {
    auto lock = StateLock::take(path);
    EXPECT_TRUE(lock) << lock.status().to_string();
    return lock ? *lock : nullptr;
}

}  // namespace wss::volume
