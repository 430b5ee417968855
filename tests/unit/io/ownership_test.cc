// SPDX-License-Identifier: Apache-2.0
#include "lib/io/ownership.h"

#include <gtest/gtest.h>

namespace wss::io {
namespace {

TEST(Ownership, is_the_same_if_it_has_more_fields_than_an_earlier_program_recorded) {
    EXPECT_TRUE(is_same_ownership("header 1", "header 1"));
    EXPECT_TRUE(is_same_ownership("header 1", "header 1 cluster 2"));
    EXPECT_TRUE(is_same_ownership("", ""));
}

TEST(Ownership, differs_if_a_recorded_field_has_changed_or_is_missing_or_none_was_recorded) {
    EXPECT_FALSE(is_same_ownership("header 1 cluster 2", "header 1 cluster 3"));
    EXPECT_FALSE(is_same_ownership("header 1 cluster 2", "header 1"));
    EXPECT_FALSE(is_same_ownership("header 1", "header 12"));
    EXPECT_FALSE(is_same_ownership("", "header 1"));
    EXPECT_FALSE(is_same_ownership("header 1", ""));
}

}  // namespace
}  // namespace wss::io
