// SPDX-License-Identifier: Apache-2.0
// Limits of an image (rbd_qos_…), for which librbd keeps requests back: they take longer than osd_timeout,
// and succeed.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

using Limits = RbdTest;

TEST_F(Limits, lengthen_the_time_of_what_librbd_keeps_back) {
    ceph_.set("rbd_qos_iops_limit", "1");
    open();
    ceph_.hold(Kind::kWrite);
    std::vector<Io*> writes;
    for (uint64_t i = 0; i < 16; ++i) writes.push_back(&way().write(i * 4096, 'a'));
    settle();
    for (size_t i = 0; i < writes.size(); ++i) {
        pass(from_s(1));
        ASSERT_EQ(way().done(), i);
        ceph_.release(ceph_.held().front());
        settle();
    }
    for (const Io* write : writes) EXPECT_EQ(write->error, 0);
}

TEST_F(Limits, lengthen_it_by_what_they_take_and_no_more) {
    ceph_.set("rbd_qos_iops_limit", "1");
    open();
    ceph_.hold(0, kObject);
    const Io& write = way().write(0, 'a');
    pass(from_s(3));  // two for its limit, and those of osd_timeout begin
    EXPECT_FALSE(write.is_done);
    pass(from_s(3));
    EXPECT_EQ(write.error, ETIMEDOUT);
}

// librbd has as many bytes as it may have, and answers none in osd_timeout.
TEST_F(Limits, lengthen_the_time_of_what_waits_for_those) {
    ceph_.set("rbd_qos_bps_limit", "1048576");
    open();
    ceph_.hold(Kind::kRead);
    for (uint64_t i = 0; i < 600; ++i) way().read(i % 32 * kObject, kObject);
    pass(from_ms(3500));
    ASSERT_LT(ceph_.held().size(), 600u);
    EXPECT_EQ(way().done(), 0u);
    // 600 MiB are not copied.
    ceph_.refuse(Kind::kRead, EIO);
    ceph_.release();
    settle();
}

}  // namespace
}  // namespace wss::test
