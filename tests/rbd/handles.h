// SPDX-License-Identifier: Apache-2.0
// Objects behind handles of librados and librbd that fake_librados.cc and fake_librbd.cc share.
#pragma once

#include "tests/rbd/fake_ceph.h"

namespace wss::test {

constexpr int64_t kPoolId = 1;           // id of the only pool
constexpr uint64_t kParentSnapshot = 4;  // id of the cloned snapshot, the same for all parents

struct Pool {
    FakeClient* client = nullptr;
};

}  // namespace wss::test
