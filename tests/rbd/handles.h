// SPDX-License-Identifier: Apache-2.0
// What fake_librados.cc and fake_librbd.cc share behind the handles of their libraries.
#pragma once

#include "tests/rbd/fake_ceph.h"

namespace wss::test {

constexpr int64_t kPoolId = 1;           // of the only pool
constexpr uint64_t kParentSnapshot = 4;  // of every image that another one was cloned from

struct Pool {
    FakeClient* client = nullptr;
};

}  // namespace wss::test
