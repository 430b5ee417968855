// SPDX-License-Identifier: Apache-2.0
// Resizes of an image by this client and by others.
#include <cerrno>
#include <optional>
#include <thread>

#include "tests/rbd/rig.h"

namespace wss::test {
namespace {

class Resize : public RbdTest {
  protected:
    bool has_size(uint64_t bytes) {
        return wait_for([=, this] { return backend_->limits().size == bytes; });
    }
};

TEST_F(Resize, is_refused_before_it_begins_when_ceph_permits_no_change) {
    open();
    ceph_.refuse(Kind::kMark, EPERM);
    EXPECT_EQ(backend_->may_resize().code(), Code::kPermission);
    EXPECT_TRUE(backend_->resize(64 * kObject)) << "the size does not change";
    for (const uint64_t objects : {32, 128})
        EXPECT_EQ(backend_->resize(objects * kObject).code(), Code::kPermission);
    EXPECT_EQ(ceph_.answered(Kind::kResize), 0u);
    const Io& write = way().write(0, 'a');
    EXPECT_TRUE(turn_until([&] { return write.is_done; }));
    EXPECT_EQ(write.error, 0) << "no change has begun, so the object map is complete";
    ceph_.refuse(Kind::kMark, 0);
    EXPECT_TRUE(backend_->may_resize());
    EXPECT_FALSE(ceph_.is_map_invalid());
    EXPECT_TRUE(backend_->resize(128 * kObject));
}

// A growth of the volume would cut off what others have added.
TEST_F(Resize, that_enlarges_the_volume_is_refused_while_others_have_made_the_image_larger_than_that) {
    open();
    std::atomic<bool> asked{false}, accepts{false};
    backend_->watch_size([&](uint64_t, uint64_t) {
        asked = true;
        return accepts.load();
    });
    ceph_.resize(128 * kObject);
    ASSERT_TRUE(wait_for([&] { return asked.load(); }));
    EXPECT_EQ(backend_->resize(96 * kObject).code(), Code::kRefused);
    EXPECT_EQ(ceph_.size(), 128 * kObject);
    accepts = true;
    EXPECT_TRUE(wait_for([&] { return backend_->resize(96 * kObject).is_ok(); })) << "a shrink";
    backend_->watch_size({});
}

// Otherwise the resize would count as unfinished forever.
TEST_F(Resize, is_refused_before_it_begins_when_the_image_is_gone) {
    open();
    ceph_.refuse(Kind::kMark, ENOENT);
    EXPECT_FALSE(backend_->may_resize());
    ceph_.refuse(Kind::kMark, ENOSPC);
    EXPECT_TRUE(backend_->may_resize()) << "shrinking frees space";
}

TEST_F(Resize, that_ceph_does_not_answer_ends_when_its_volume_is_removed) {
    open("resize_timeout=20");
    ceph_.hold(Kind::kResize);
    std::jthread removal([this] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        backend_->end_waits();
    });
    EXPECT_EQ(backend_->resize(32 * kObject).code(), Code::kClosed);
    ceph_.release();
}

TEST_F(Resize, that_belongs_to_an_opening_keeps_whole_blocks) {
    auto opened = io::rbd::RbdBackend::open("rbd/disk", {.size = ceph_.size() + 1000, .owner = "other"});
    EXPECT_EQ(opened.status().code(), Code::kInvalid);
    EXPECT_EQ(ceph_.size(), 64 * kObject);
}

TEST_F(Resize, that_belongs_to_an_opening_has_the_limit_of_the_opening) {
    ceph_.hold(Kind::kResize);
    EXPECT_EQ(open_and_grow("open_timeout=2&resize_timeout=20").status().code(), Code::kTimedOut);
    ceph_.release();
}

// The image is smaller than one block until then, which a look at the image finds.
TEST_F(Resize, that_belongs_to_an_opening_enlarges_an_image_that_is_smaller_than_one_block) {
    block_ = 4096;
    ceph_.resize(2048);
    ceph_.hold(Kind::kResize);
    std::jthread answers([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(2500));
        ceph_.release();
    });
    auto opened = open_and_grow({});
    EXPECT_TRUE(opened) << opened.status().to_string();
}

TEST_F(Resize, is_refused_at_once_while_the_previous_resize_is_unanswered) {
    open("resize_timeout=1");
    ceph_.hold(Kind::kResize);
    EXPECT_EQ(backend_->resize(32 * kObject).code(), Code::kTimedOut);
    EXPECT_EQ(backend_->may_resize().code(), Code::kBusy);
    EXPECT_EQ(backend_->resize(16 * kObject).code(), Code::kBusy);
    ceph_.release();
    EXPECT_TRUE(wait_for([&] { return static_cast<bool>(backend_->may_resize()); }));
    EXPECT_EQ(ceph_.size(), 32 * kObject);
}

// The caller can wait for it without a second resize, which would undo a resize by others after the first.
TEST_F(Resize, that_is_answered_late_reports_its_result) {
    open("resize_timeout=1");
    EXPECT_FALSE(backend_->late_resize()) << "no resize has begun";
    ceph_.hold(Kind::kResize);
    EXPECT_EQ(backend_->resize(128 * kObject).code(), Code::kTimedOut);
    ASSERT_TRUE(backend_->late_resize());
    EXPECT_EQ(backend_->late_resize()->code(), Code::kBusy);
    ceph_.release();
    std::optional<Status> late;
    EXPECT_TRUE(wait_for([&] { return (late = backend_->late_resize()) && late->code() != Code::kBusy; }));
    EXPECT_TRUE(late && *late);
    EXPECT_EQ(ceph_.size(), 128 * kObject);
    EXPECT_FALSE(backend_->late_resize()) << "the result is taken once";
}

TEST_F(Resize, that_ceph_ends_with_a_timeout_is_not_late) {
    open("resize_timeout=20");
    ceph_.refuse(Kind::kResize, ETIMEDOUT);
    EXPECT_EQ(backend_->resize(128 * kObject).code(), Code::kTimedOut);
    EXPECT_FALSE(backend_->late_resize()) << "it has ended, and may be repeated";
    ceph_.refuse(Kind::kResize, 0);
    EXPECT_TRUE(backend_->resize(128 * kObject));
}

// A may_resize() that Ceph answered late does not block the next one.
TEST_F(Resize, can_be_repeated_when_ceph_answers_again) {
    open("resize_timeout=1");
    ceph_.hold(Kind::kMark);
    EXPECT_EQ(backend_->may_resize().code(), Code::kTimedOut);
    std::thread answers([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        ceph_.release();
    });
    EXPECT_TRUE(backend_->may_resize());
    answers.join();
}

// The volume is then reopened, and the reopening waits for the resize.
TEST_F(Resize, is_abandoned_when_the_image_is_lost) {
    open("resize_timeout=600");
    ceph_.hold(Kind::kResize);
    std::thread others([&] {
        EXPECT_TRUE(wait_for([&] { return backend_->limits().size == 32 * kObject; })) << "resize has begun";
        ceph_.set_lock_owner(1);
    });
    const Status resized = backend_->resize(32 * kObject);
    others.join();
    EXPECT_EQ(resized.code(), Code::kClosed) << resized.to_string();
}

// Otherwise the volume would report that the resize can be repeated.
TEST_F(Resize, that_a_blocklisted_client_requests_loses_the_image) {
    ceph_.hold(Kind::kLook);  // the keeper does not detect it first
    open();
    ceph_.refuse(Kind::kMark, ESHUTDOWN);
    EXPECT_FALSE(backend_->resize(32 * kObject));
    EXPECT_TRUE(backend_->lost());
    ceph_.refuse(Kind::kMark, 0);
    ceph_.release();
}

// Otherwise the client would not blocklist itself when it finds that its lock is gone.
TEST_F(Resize, that_librbd_refuses_while_it_ends_the_lock_does_not_count_as_blocklisting) {
    ceph_.hold(Kind::kLook);
    open();
    ceph_.refuse(Kind::kResize, ESHUTDOWN);
    const Status refused = backend_->resize(32 * kObject);
    EXPECT_NE(refused.text().find("lock is being taken away"), std::string::npos) << refused.text();
    EXPECT_FALSE(backend_->lost());
    ceph_.refuse(Kind::kResize, 0);
    ceph_.release();
}

TEST_F(Resize, that_fails_leaves_the_size_unchanged) {
    open();
    ceph_.refuse(Kind::kResize, EPERM);
    EXPECT_FALSE(backend_->resize(32 * kObject));
    EXPECT_TRUE(has_size(64 * kObject));
    ceph_.refuse(Kind::kResize, 0);
    EXPECT_TRUE(backend_->resize(32 * kObject));
    EXPECT_TRUE(has_size(32 * kObject));
    EXPECT_EQ(ceph_.size(), 32 * kObject);
}

// Others shrink the image before librbd has told this client that it was enlarged.
TEST_F(Resize, that_others_undo_before_it_returns_does_not_enlarge_the_image) {
    open();
    ceph_.hold(Kind::kResized);
    std::thread enlarges([&] { (void)backend_->resize(128 * kObject); });
    EXPECT_TRUE(wait_for([&] { return ceph_.size() == 128 * kObject; }));
    const auto read_size = [this](const auto& after) {
        const uint64_t reads = ceph_.answered(Kind::kSize);
        after();
        EXPECT_TRUE(wait_for([&] { return ceph_.answered(Kind::kSize) > reads; }));
        EXPECT_TRUE(ceph_.wait_until_quiet());
    };
    read_size([this] { ceph_.notify(); });
    read_size([this] { ceph_.resize(64 * kObject); });
    // The read after the resize comes too late for this.
    ceph_.hold(Kind::kSize);
    ceph_.release(Kind::kResized);
    enlarges.join();
    EXPECT_EQ(backend_->limits().size, 64 * kObject);
    ceph_.release();
    EXPECT_TRUE(has_size(64 * kObject));
}

TEST_F(Resize, of_unknown_outcome_blocks_further_resizes_until_a_look_shows_the_size) {
    ceph_.hold(Kind::kLook);
    open();
    ceph_.refuse(Kind::kResize, EIO);
    ceph_.refuse(Kind::kSize, EIO);
    EXPECT_FALSE(backend_->resize(32 * kObject));
    EXPECT_EQ(backend_->resize(16 * kObject).code(), Code::kBusy);
    const Io& beyond = way().write(40 * kObject, 'a');
    EXPECT_TRUE(turn_until([&] { return beyond.is_done; }));
    EXPECT_NE(beyond.error, 0) << "the image may be smaller";
    ceph_.refuse(Kind::kResize, 0);
    ceph_.refuse(Kind::kSize, 0);
    ceph_.release();
    EXPECT_TRUE(has_size(64 * kObject));
    EXPECT_TRUE(backend_->resize(16 * kObject));
}

TEST_F(Resize, by_another_program_is_adopted) {
    open();
    ceph_.resize(32 * kObject);
    EXPECT_TRUE(has_size(32 * kObject));
    ceph_.resize(48 * kObject);
    EXPECT_TRUE(has_size(48 * kObject));
}

// librbd uses the new size before the header has it, while it removes the objects beyond the new end.
TEST_F(Resize, in_progress_fails_writes_beyond_the_new_end_with_an_error_of_its_own) {
    open();
    ceph_.hold(Kind::kSize);
    ceph_.hold(Kind::kHeader);
    ceph_.hold(Kind::kLook);
    ceph_.resize(32 * kObject);
    const Io& beyond = way().write(40 * kObject, 'a');
    const Io& across = way().write(31 * kObject, 'a', 2 * kObject);
    const Io& zeroed = way().submit(io::Op::kWriteZeroes, 40 * kObject, kObject, 0);
    EXPECT_TRUE(turn_until([&] { return beyond.is_done && across.is_done && zeroed.is_done; }));
    EXPECT_EQ(beyond.error, EFBIG);
    EXPECT_EQ(across.error, EFBIG);
    EXPECT_EQ(zeroed.error, EFBIG);
    ceph_.release();
    EXPECT_TRUE(has_size(32 * kObject));
    const Io& later = way().write(40 * kObject, 'a');
    EXPECT_TRUE(turn_until([&] { return later.is_done; }));
    EXPECT_EQ(later.error, EFBIG);
}

TEST_F(Resize, to_a_smaller_size_fails_reads_beyond_the_end) {
    open();
    ceph_.hold(Kind::kRead);
    const Io& read = way().read(63 * kObject);
    settle();
    ceph_.resize(32 * kObject);
    ceph_.release();
    EXPECT_TRUE(turn_until([&] { return read.is_done; }));
    EXPECT_EQ(read.error, EIO);
}

}  // namespace
}  // namespace wss::test
