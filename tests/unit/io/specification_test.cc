// SPDX-License-Identifier: Apache-2.0
// What a specification says before it is opened.
#include "lib/io/specification.h"

#include <gtest/gtest.h>

namespace wss::io::test {
namespace {

TEST(Specification, says_whether_its_storage_may_be_taken_from_somebody) {
    EXPECT_TRUE(may_take_storage("rbd:pool/image?steal=true"));
    EXPECT_TRUE(may_take_storage("delay:read=1ms:error:every=9:rbd:pool/image?osd_timeout=5&steal=true"));
    EXPECT_FALSE(may_take_storage("rbd:pool/image"));
    EXPECT_FALSE(may_take_storage("rbd:pool/image?steal=false"));
    EXPECT_FALSE(may_take_storage("aio:/tmp/rbd:x?steal=true"));
    EXPECT_FALSE(may_take_storage("ram:1M"));
}

}  // namespace
}  // namespace wss::io::test
