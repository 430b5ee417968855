// SPDX-License-Identifier: Apache-2.0
// What fake_librados.cc and fake_librbd.cc share behind the handles of their libraries.
#pragma once

#include "tests/rbd/fake_ceph.h"

namespace wss::test {

constexpr int64_t kPoolId = 1;  // of the only pool

struct Pool {
    FakeClient* client = nullptr;
};

}  // namespace wss::test
