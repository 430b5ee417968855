// SPDX-License-Identifier: Apache-2.0
// The holder of an image's lock, decoded from an OSD's reply.
#include "lib/io/rbd/lock_info.h"

#include "tests/unit/io/harness.h"
#include "tests/unit/io/rbd_encoding.h"

namespace wss::io::test {
namespace {

std::string holder(uint64_t client, const std::string& cookie = "auto 1") {
    const std::string address = number(0, 4) + number(7, 4) + std::string(128, 'a');
    return structure(number(8, 1) + number(client, 8) + text(cookie)) +
           structure(number(0, 8) + address + text(""));
}
std::string answer(const std::vector<std::string>& holders, char readable_by = 1) {
    std::string all = number(holders.size(), 4);
    for (const std::string& one : holders) all += one;
    return structure(all + number(1, 1) + text("internal"), 1, readable_by);
}

TEST(RbdLockInfo, request_names_the_lock) {
    EXPECT_EQ(lock_info_request("rbd_lock"), structure(text("rbd_lock")));
}

TEST(RbdLockInfo, holder_is_recognized_by_its_number_alone) {
    EXPECT_EQ(lock_holder(answer({}), 4711), LockHolder::kNobody);
    EXPECT_EQ(lock_holder(answer({holder(4711)}), 4711), LockHolder::kOurs);
    EXPECT_EQ(lock_holder(answer({holder(4711, "auto 2")}), 4711), LockHolder::kOurs)
        << "the watch of the image was renewed";
    EXPECT_EQ(lock_holder(answer({holder(4712)}), 4711), LockHolder::kOther);
    EXPECT_EQ(lock_holder(answer({holder(4711), holder(4712)}), 4711), LockHolder::kOther);
}

TEST(RbdLockInfo, answers_are_refused_when_truncated_and_never_read_beyond_their_end) {
    const std::string whole = answer({holder(4711)});
    for (size_t bytes = 0; bytes < whole.size(); ++bytes)
        EXPECT_EQ(lock_holder(std::span(whole.data(), bytes), 4711), LockHolder::kUnreadable) << bytes;
    EXPECT_EQ(lock_holder(answer({holder(4711)}, 2), 4711), LockHolder::kUnreadable);
}

}  // namespace
}  // namespace wss::io::test
