// SPDX-License-Identifier: Apache-2.0
// A volume is deleted and created again while a command for the old one waits for its storage.
#include <gtest/gtest.h>

#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

class RecreatedVolume : public OnSharedStorage {
  protected:
    RecreatedVolume() {
        make_set({.state = locked(folder_.file("state.json")),
                  .write = [this](const StateLock&, const auto& volumes) {
                      written_.push_back(volumes);
                      return Status::ok();
                  }});
        EXPECT_TRUE(set_->restore());
    }
    // Acts as another command of the operator while a command for the old volume is in progress.
    void make_anew() {
        EXPECT_TRUE(set_->remove("a"));
        VolumeOptions options;
        options.name = "a";
        options.backend = "another";
        EXPECT_TRUE(set_->create(options));
        made_anew_ = written_.back().front();
    }
    StoredVolume made_anew_;
};

TEST_F(RecreatedVolume, does_not_get_the_storage_that_a_reopening_of_its_namesake_found) {
    ASSERT_TRUE(create("a", 1 << 20));
    shared_.changed(shared_.size, 0);
    shared_.left = 512 << 10;
    shared_.meanwhile = [this] { make_anew(); };
    EXPECT_FALSE(reopen("a", {.steal = true}));
    EXPECT_EQ(written_.back().front(), made_anew_);
}

TEST_F(RecreatedVolume, does_not_get_the_size_that_its_namesake_was_to_get) {
    ASSERT_TRUE(create("a"));
    for (uint64_t bytes : {512 << 10, 2 << 20}) {
        shared_.meanwhile = [this] { make_anew(); };
        EXPECT_EQ(resize("a", bytes).code(), Code::kClosed) << bytes;
        EXPECT_EQ(written_.back().front(), made_anew_);
    }
}

}  // namespace
}  // namespace wss::volume
