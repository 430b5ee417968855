// SPDX-License-Identifier: Apache-2.0
// The parent of a cloned image, decoded from an OSD's reply.
#include "lib/io/rbd/parent_spec.h"

#include "tests/unit/io/harness.h"
#include "tests/unit/io/rbd_encoding.h"

namespace wss::io::test {
namespace {

std::string answer(const ParentSpec& parent, char readable_by = 1, const std::string& more = "") {
    const std::string body = number(static_cast<uint64_t>(parent.pool), 8) + text(parent.pool_namespace) +
                             text(parent.image) + number(parent.snapshot, 8) + more;
    return structure(body, 2, readable_by);
}

const ParentSpec kParent{.pool = 3, .pool_namespace = "tenant", .image = "10e5f2ad3b7c", .snapshot = 4};

TEST(RbdParentSpec, is_decoded_from_all_parts_of_the_answer) {
    EXPECT_EQ(parse_parent(answer(kParent)), kParent);
    EXPECT_EQ(parse_parent(answer({})), ParentSpec());
}

TEST(RbdParentSpec, of_a_later_version_is_read_if_that_version_permits_it) {
    EXPECT_EQ(parse_parent(answer(kParent, 1, "more")), kParent);
    EXPECT_EQ(parse_parent(answer(kParent, 2)), std::nullopt);
}

TEST(RbdParentSpec, is_refused_in_each_truncated_answer_and_never_read_beyond_its_end) {
    const std::string whole = answer(kParent);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes)
        EXPECT_EQ(parse_parent(std::span(whole.data(), bytes)), std::nullopt) << bytes;
}

TEST(RbdParentSpec, without_an_overlap_means_that_nothing_is_read_from_the_parent) {
    const auto overlap = [](const std::string& bytes) { return parse_overlap(bytes); };
    EXPECT_EQ(overlap(number(1, 1) + number(8 << 20, 8)), true);
    EXPECT_EQ(overlap(number(1, 1) + number(0, 8)), false);
    EXPECT_EQ(overlap(number(0, 1)), false);
    EXPECT_EQ(overlap(""), std::nullopt);
    EXPECT_EQ(overlap(number(1, 1) + number(8, 4)), std::nullopt);
}

}  // namespace
}  // namespace wss::io::test
