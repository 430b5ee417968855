// SPDX-License-Identifier: Apache-2.0
// A clone whose parents change while it is served: librbd reads zeroes where they were.
#include <cerrno>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

class Clone : public RbdTest {
  protected:
    // Of `near`, which was cloned from `far`.
    void open_clone() {
        ceph_.clone(kImage, "near");
        ceph_.clone("near", "far");
        open();
    }
    // By two looks: the second one may have begun with what the first has shown.
    void look() {
        const uint64_t looks = ceph_.answered(Kind::kLook);
        EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kLook) >= looks + 9; }));  // three each
    }
    int error_of(Io& io) {
        EXPECT_TRUE(turn_until([&] { return io.is_done; }));
        return io.error;
    }
    bool is_suspended() {
        return wait_for([this] { return backend_->suspended(); });
    }
};

TEST_F(Clone, is_served) {
    open_clone();
    look();
    EXPECT_EQ(error_of(way().read(0)), 0);
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(backend_->trouble(), "");
}

TEST_F(Clone, with_another_parent_reads_and_writes_nothing) {
    open_clone();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
    EXPECT_EQ(error_of(way().write(0, 'a')), EIO);
    EXPECT_EQ(ceph_.read(0, 1), std::string(1, '\0'));
    EXPECT_FALSE(backend_->lost()) << "the image is nobody else's";
    EXPECT_NE(backend_->trouble().find("was replaced"), std::string::npos) << backend_->trouble();
}

TEST_F(Clone, with_another_parent_is_not_resized) {
    open_clone();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(backend_->may_resize().code(), Code::kClosed);
    EXPECT_EQ(backend_->resize(32 * kObject).code(), Code::kClosed);
    EXPECT_EQ(ceph_.size(), 64 * kObject);
}

// A read that Ceph has answered with zeroes may not have reached the initiator yet.
TEST_F(Clone, with_another_parent_makes_what_is_under_way_fail) {
    open_clone();
    ceph_.hold(0, kObject);
    Io& read = way().read(0);
    settle();
    ceph_.clone(kImage, "other");
    ASSERT_TRUE(is_suspended());
    ceph_.release();
    EXPECT_EQ(error_of(read), EIO);
    EXPECT_EQ(read.done_bytes, 0u);
}

TEST_F(Clone, of_a_clone_with_another_parent_reads_nothing) {
    open_clone();
    ceph_.clone("near", "other");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
}

TEST_F(Clone, whose_farthest_parent_is_removed_reads_nothing) {
    open_clone();
    ceph_.remove("far");
    ASSERT_TRUE(is_suspended());
    EXPECT_EQ(error_of(way().read(0)), EIO);
}

TEST_F(Clone, of_a_flattened_clone_is_served) {
    open_clone();
    ceph_.clone("near", "");
    look();
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(error_of(way().read(0)), 0);
}

TEST_F(Clone, that_was_flattened_has_no_parents) {
    open_clone();
    ceph_.clone(kImage, "");
    ceph_.remove("near");
    ceph_.remove("far");
    look();
    EXPECT_FALSE(backend_->suspended());
    EXPECT_EQ(error_of(way().read(0)), 0);
    EXPECT_EQ(backend_->trouble(), "");
}

TEST_F(Clone, with_silent_parents_ends_at_once) {
    open_clone();
    ceph_.hold(Kind::kLook);
    ASSERT_TRUE(wait_for([&] { return ceph_.held().size() >= 3; }));
    close();
    EXPECT_EQ(io::rbd::Client::alive(), 0u) << "it is abandoned";
}

}  // namespace
}  // namespace wss::test
