// SPDX-License-Identifier: Apache-2.0
// Sizes of volumes of the configuration, on storage that others can resize.
#include <gtest/gtest.h>

#include <vector>

#include "lib/base/file.h"
#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

// A start must not fail, or leave a part of the storage unused, because of a size that the volume had before.
class WithoutSize : public OnSharedStorage {
  protected:
    void start(uint64_t size = 0) {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json")), .wait = from_ms(500)});
        ASSERT_TRUE(set_->restore());
        ASSERT_TRUE(create("disk", size, true));
    }
    void stop() {
        EXPECT_TRUE(control([&] { return set_->close_all(); }));
        set_.reset();
    }
    // The volume also follows the storage after the start.
    void expect_all_after_starts_with(const std::vector<uint64_t>& sizes) {
        for (const uint64_t size : sizes) {
            shared_.size = size;
            start();
            EXPECT_EQ(set_->find("disk")->size, size);
            others_resize(size / 2);
            EXPECT_EQ(set_->find("disk")->size, size / 2);
            stop();
        }
    }
    void TearDown() override {
        if (!set_) make_set({});
    }
};

TEST_F(WithoutSize, a_configured_volume_takes_all_of_its_storage_after_each_start) {
    start();
    EXPECT_TRUE(resize("disk", 2 << 20));
    others_resize(3 << 20);
    stop();
    expect_all_after_starts_with({1 << 20, 4 << 20});
}

TEST_F(WithoutSize, a_configured_volume_whose_size_once_equalled_its_storage_takes_all_of_it) {
    shared_.size = 2 << 20;
    start();
    stop();
    {
        const auto lock = locked(folder_.file("state.json"));
        auto stored = read_state_file(*lock);
        ASSERT_TRUE(stored && stored->size() == 1);
        stored->front().sizes = RecordedSizes({.resized = 2 << 20});
        ASSERT_TRUE(write_state_file(*lock, *stored));
    }
    start();
    stop();
    expect_all_after_starts_with({3 << 20, 1 << 20});
}

TEST_F(WithoutSize, a_configured_volume_whose_size_was_removed_takes_all_of_its_storage) {
    for (const bool by_operator : {false, true}) {
        SCOPED_TRACE(by_operator);
        shared_.size = 1 << 20;
        start(1 << 20);
        if (by_operator)
            EXPECT_TRUE(resize("disk", 2 << 20));
        else
            others_resize(2 << 20);
        stop();
        expect_all_after_starts_with({768 << 10, 4 << 20});
    }
}

class ConfiguredPart : public WithoutSize {
  protected:
    uint64_t size() { return set_->find("disk")->size; }
};

TEST_F(ConfiguredPart, does_not_exceed_the_size_that_the_operator_set_after_a_restart) {
    for (const uint64_t chosen : {uint64_t{256 << 10}, uint64_t{768 << 10}}) {
        SCOPED_TRACE(chosen);
        start(512 << 10);
        ASSERT_TRUE(resize("disk", chosen));
        stop();
        start(512 << 10);
        EXPECT_EQ(size(), chosen);
        others_resize(128 << 10);
        EXPECT_EQ(size(), uint64_t{128 << 10});
        others_resize(1 << 20);
        EXPECT_EQ(size(), chosen);
        stop();
    }
}

TEST_F(ConfiguredPart, that_was_reopened_with_its_size_takes_a_later_one_of_the_configuration) {
    shared_.size = 2 << 20;
    start(512 << 10);
    shared_.changed(2 << 20, 0);
    ASSERT_TRUE(reopen("disk"));
    stop();
    start(1 << 20);
    others_resize(768 << 10);
    stop();
    start(1 << 20);
    EXPECT_EQ(size(), uint64_t{768 << 10});
    others_resize(2 << 20);
    EXPECT_EQ(size(), uint64_t{1 << 20});
    stop();
}

TEST_F(ConfiguredPart, whose_storage_has_grown_again_at_a_start_keeps_its_size) {
    start(512 << 10);
    others_resize(128 << 10);
    stop();
    shared_.size = 2 << 20;
    start(512 << 10);
    EXPECT_EQ(size(), uint64_t{128 << 10});
    others_resize(1 << 20);
    EXPECT_EQ(size(), uint64_t{128 << 10});
    stop();
}

TEST_F(ConfiguredPart, that_was_reopened_on_larger_storage_keeps_its_size_after_a_restart) {
    start(512 << 10);
    others_resize(256 << 10);
    shared_.changed(256 << 10, 0);
    shared_.left = 2 << 20;
    ASSERT_TRUE(reopen("disk"));
    EXPECT_EQ(size(), uint64_t{256 << 10});
    stop();
    start(512 << 10);
    others_resize(3 << 20);
    EXPECT_EQ(size(), uint64_t{256 << 10});
    stop();
}

}  // namespace
}  // namespace wss::volume
