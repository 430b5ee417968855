// SPDX-License-Identifier: Apache-2.0
// Limits of an image (rbd_qos_…), for which librbd delays requests: these succeed although they take longer
// than osd_timeout.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

using Limits = RbdTest;

TEST_F(Limits, extend_the_timeout_of_requests_that_librbd_delays) {
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

TEST_F(Limits, extend_the_timeout_only_by_the_delay_that_they_cause) {
    ceph_.set("rbd_qos_iops_limit", "1");
    open();
    ceph_.hold(0, kObject);
    const Io& write = way().write(0, 'a');
    pass(from_s(3));  // 2 s for the image's limit, and half of osd_timeout
    EXPECT_FALSE(write.is_done);
    pass(from_s(3));
    EXPECT_EQ(write.error, ETIMEDOUT);
}

// librbd has its maximum number of calls and answers none of them within osd_timeout.
TEST_F(Limits, extend_the_timeout_of_requests_that_wait_for_delayed_ones) {
    ceph_.set("rbd_qos_bps_limit", "1048576");
    open();
    ceph_.hold(Kind::kRead);
    for (uint64_t i = 0; i < 600; ++i) way().read(i % 32 * kObject, kObject);
    pass(from_ms(3500));
    ASSERT_LT(ceph_.held().size(), 600u);
    EXPECT_EQ(way().done(), 0u);
    // Errors, so that 600 MiB need not be copied.
    ceph_.refuse(Kind::kRead, EIO);
    ceph_.release();
    settle();
}

}  // namespace
}  // namespace wss::test
