// SPDX-License-Identifier: Apache-2.0
#include "lib/base/descriptors.h"

#include "tests/support/no_descriptors.h"

namespace wss {
namespace {

TEST(Descriptors, are_counted_even_if_none_is_left_to_read_their_folder) {
    const test::NoDescriptors none;
    EXPECT_EQ(descriptors_left(), 0u);
}

}  // namespace
}  // namespace wss
