// SPDX-License-Identifier: Apache-2.0
// A volume on storage that others can resize and take over, such as an image in a Ceph cluster.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/file.h"
#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

TEST_F(OnSharedStorage, a_volume_that_covers_it_all_adopts_its_size) {
    ASSERT_TRUE(create("a"));
    for (uint64_t bytes : {2 << 20, 512 << 10, 3 << 20}) {
        others_resize(bytes);
        EXPECT_EQ(set_->find("a")->size, bytes);
    }
}

TEST_F(OnSharedStorage, a_busy_volume_reports_that_it_could_not_adopt_the_size_and_adopts_it_later) {
    ASSERT_TRUE(create("a"));
    std::optional<Status> resized;
    set_->resize_async("a", 512 << 10, [&](Status status) { resized = std::move(status); });
    ASSERT_FALSE(resized);
    EXPECT_FALSE(shared_.changed(1 << 20, 256 << 10));
    while (!resized) reactor_.step();
    ASSERT_TRUE(*resized);
    others_resize(256 << 10);
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
}

// The operator's resize overtakes the notice of another one.
TEST_F(OnSharedStorage, a_volume_does_not_follow_a_size_that_the_storage_had_before_its_own_resize) {
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(resize("a", 3 << 20));
    EXPECT_FALSE(follows(1 << 20, 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20});
}

// The resize of the storage is complete, but the volume still has its former size.
class WhileAGrowthIsSaved : public OnSharedStorage {
  protected:
    void SetUp() override {
        make_set({.state = locked(folder_.file("state.json")),
                  .write = [&](const StateLock&, const auto& volumes) {
                      const bool is_over = !volumes.empty() && volumes.front().sizes.growing() == 0;
                      if (auto others = is_over ? std::exchange(others_, {}) : nullptr) others();
                      return Status::ok();
                  }});
        ASSERT_TRUE(set_->restore());
        ASSERT_TRUE(create("a"));
    }
    std::function<void()> others_;
};

TEST_F(WhileAGrowthIsSaved, a_shrink_by_others_is_followed_later) {
    others_ = [&] {
        shared_.size = 1536 << 10;
        EXPECT_FALSE(shared_.changed(2 << 20, 1536 << 10)) << "the notice is not repeated";
    };
    ASSERT_TRUE(resize("a", 2 << 20));
    EXPECT_TRUE(follows(2 << 20, 1536 << 10));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1536 << 10});
}

TEST_F(WhileAGrowthIsSaved, a_shrink_by_others_leaves_a_part_the_size_that_the_operator_gave_it) {
    ASSERT_TRUE(control([&] { return set_->remove("a"); }));
    ASSERT_TRUE(create("part", 512 << 10));
    others_ = [&] {
        shared_.size = 640 << 10;
        EXPECT_FALSE(shared_.changed(1 << 20, 640 << 10));
    };
    ASSERT_TRUE(resize("part", 768 << 10));
    EXPECT_TRUE(follows(1 << 20, 640 << 10));
    EXPECT_EQ(set_->find("part")->size, uint64_t{640 << 10});
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("part")->size, uint64_t{768 << 10});
}

TEST_F(WhileAGrowthIsSaved, a_loss_leaves_a_volume_that_takes_all_of_its_storage_when_reopened) {
    std::thread notice;
    others_ = [&] {
        notice = std::thread([&] { EXPECT_TRUE(shared_.changed(2 << 20, 0)); });
        while (!set_->table(0).find(0)->volume().lost()) std::this_thread::yield();
    };
    ASSERT_TRUE(resize("a", 2 << 20));
    notice.join();
    shared_.left = 1 << 20;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

// Storage would have to be shrunk again, and others may have used the space.
TEST_F(OnSharedStorage, a_growth_that_cannot_be_saved_does_not_resize_the_storage) {
    bool full = false;
    make_set({.state = locked(folder_.file("state.json")), .write = [&](const StateLock&, const auto&) {
                  return full ? Status::from_errno(ENOSPC, "state file") : Status::ok();
              }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a"));
    full = true;
    EXPECT_FALSE(resize("a", 2 << 20));
    EXPECT_EQ(shared_.resizes, 0);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    full = false;
    EXPECT_TRUE(resize("a", 2 << 20));
}

// The volume may have acknowledged writes beyond its former end.
TEST_F(OnSharedStorage, a_growth_whose_end_could_not_be_saved_is_continued_at_the_next_start) {
    bool fails = false;
    const auto start = [&] {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json")),
                  .write = [&](const StateLock& state, const auto& volumes) {
                      const bool is_begin = volumes.empty() || volumes.front().sizes.growing() != 0;
                      if (fails && !is_begin) return Status::from_errno(ENOSPC, "state file");
                      return write_state_file(state, volumes);
                  }});
        ASSERT_TRUE(control([&] { return set_->restore(); }));
    };
    start();
    ASSERT_TRUE(control([&] { return set_->create({.name = "a", .backend = "any"}); }));
    fails = true;
    EXPECT_TRUE(resize("a", 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    ASSERT_TRUE(control([&] { return set_->close_all(); }));
    fails = false;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20}) << "it covers all of its storage";
}

// It would end at each start until something else is saved, with the size that others have given the storage.
TEST_F(OnSharedStorage, a_growth_that_a_stop_interrupts_is_continued_at_the_next_start) {
    const auto start = [&] {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json"))});
        ASSERT_TRUE(control([&] { return set_->restore(); }));
    };
    start();
    ASSERT_TRUE(control([&] { return set_->create({.name = "a", .backend = "any"}); }));
    shared_.ends = true;
    EXPECT_EQ(resize("a", 2 << 20).code(), Code::kClosed);
    ASSERT_TRUE(control([&] { return set_->close_all(); }));
    shared_.ends = false;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20}) << "it covers all of its storage";
}

TEST_F(OnSharedStorage, a_growth_that_a_start_has_ended_does_not_end_again_at_the_next_one) {
    std::atomic<bool> fails = false;
    const auto start = [&] {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json")),
                  .write = [&](const StateLock& state, const auto& volumes) {
                      if (fails) return Status::from_errno(ENOSPC, "state file");
                      if (!volumes.empty()) fails = volumes.front().sizes.growing() != 0;
                      return write_state_file(state, volumes);
                  }});
        ASSERT_TRUE(control([&] { return set_->restore(); }));
    };
    start();
    ASSERT_TRUE(control([&] { return set_->create({.name = "a", .backend = "any"}); }));
    shared_.refuses_resizes = true;
    EXPECT_FALSE(resize("a", 2 << 20));
    ASSERT_TRUE(control([&] { return set_->close_all(); }));
    fails = false;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    fails = true;  // the target is killed
    ASSERT_TRUE(control([&] { return set_->close_all(); }));
    fails = false;
    shared_.size = 2 << 20;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20}) << "a volume of run time keeps its size";
}

// The command has begun, and only its end in the background gives the volume what storage then has.
TEST_F(OnSharedStorage, a_growth_that_outlasts_its_command_ends_when_a_thread_can_be_created_again) {
    int attempts = 0;
    std::atomic<bool> over = false;
    std::list<std::jthread> threads;
    make_set({.later = [&](LateEnds::Task task) {
        if (attempts++ == 0) return Status(Code::kExhausted, "no thread");
        threads.emplace_back([&over, task = std::move(task)](const std::stop_token& stop) {
            task(stop);
            over = true;
        });
        return Status::ok();
    }});
    ASSERT_TRUE(create("a"));
    shared_.silent = true;
    const Status late = resize("a", 2 << 20);
    EXPECT_EQ(late.code(), Code::kTimedOut);
    EXPECT_NE(late.text().find("continuing in the background"), std::string::npos) << late.text();
    shared_.silent = false;
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (!over && clock_.now() < deadline) reactor_.step();  // it waits for the reactor
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    EXPECT_TRUE(await([&](VolumeSet::Done done) { set_->close_all_async(std::move(done)); }));
    set_.reset();
    threads.clear();
    make_set({});
}

TEST_F(OnSharedStorage, a_volume_follows_later_sizes_after_the_notification_of_a_growth_outlasted_its_limit) {
    make_set({.wait = from_ms(50)});
    ASSERT_TRUE(create("a"));
    shared_.size = 2 << 20;
    EXPECT_TRUE(shared_.changed(1 << 20, 2 << 20)) << "no reactor has answered, but the volume has that size";
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20});
    others_resize(1 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

TEST_F(OnSharedStorage, a_refused_shrink_recommends_no_size_if_no_block_is_left) {
    ASSERT_TRUE(await([&](VolumeSet::Done done) {
        set_->create_async({.name = "a", .backend = "any", .block_size = 4096}, std::move(done));
    }));
    shared_.size = 512;
    const Status refused = resize("a", 512 << 10);
    EXPECT_EQ(refused.code(), Code::kRefused);
    EXPECT_EQ(refused.text().find("wssctl volume resize"), std::string::npos) << refused.text();
    shared_.size = 1 << 20;
}

// The second attempt would undo what others have done to the storage after the first.
TEST_F(OnSharedStorage, a_growth_that_outlasts_its_command_is_requested_once) {
    ASSERT_TRUE(create("a"));
    shared_.silent = true;
    EXPECT_EQ(resize("a", 2 << 20).code(), Code::kTimedOut);
    shared_.silent = false;
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (set_->find("a")->size != 2 << 20 && clock_.now() < deadline) reactor_.step();
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
    EXPECT_EQ(shared_.resizes, 1);
}

TEST_F(OnSharedStorage, a_growth_that_storage_has_given_up_is_requested_again) {
    ASSERT_TRUE(create("a"));
    shared_.silent = shared_.ends_resizes = true;
    EXPECT_EQ(resize("a", 2 << 20).code(), Code::kTimedOut);
    shared_.silent = false;
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (set_->find("a")->size != 2 << 20 && clock_.now() < deadline) reactor_.step();
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
}

// Writes beyond the end of the shrink would be acknowledged, and then dropped when the volume follows it.
TEST_F(OnSharedStorage, a_volume_does_not_grow_past_a_shrink_that_it_has_not_followed) {
    ASSERT_TRUE(create("a"));
    shared_.meanwhile = [&] { shared_.hides_growth = true; };
    EXPECT_EQ(resize("a", 2 << 20).code(), Code::kRefused);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    shared_.hides_growth = false;
    shared_.at_most = 512 << 10;
    EXPECT_TRUE(follows(2 << 20, 512 << 10));
    shared_.at_most = 0;
    EXPECT_TRUE(follows(512 << 10, 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
}

// The volume does not know the size of its storage, so it could neither refuse the resize nor carry it out.
TEST_F(OnSharedStorage, a_volume_is_not_resized_before_it_has_followed_a_shrink_and_a_growth) {
    ASSERT_TRUE(create("a"));
    shared_.hides_growth = true;
    EXPECT_EQ(resize("a", 512 << 10).code(), Code::kBusy);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    EXPECT_TRUE(follows(1 << 20, 1 << 20)) << "the volume follows meanwhile";
    shared_.hides_growth = false;
    EXPECT_TRUE(resize("a", 512 << 10));
}

TEST_F(OnSharedStorage, a_volume_that_is_being_created_reports_that_it_could_not_adopt_the_size) {
    VolumeOptions options;
    options.name = "a";
    options.backend = "any";
    std::optional<Status> result;
    set_->create_async(options, [&](Status status) { result = std::move(status); });
    ASSERT_FALSE(result);
    EXPECT_FALSE(shared_.changed(1 << 20, 512 << 10));
    while (!result) reactor_.step();
    others_resize(512 << 10);
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
}

TEST_F(OnSharedStorage, a_volume_that_covers_a_part_of_it_only_shrinks) {
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
    others_resize(256 << 10);
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
}

TEST_F(OnSharedStorage, a_volume_created_as_a_part_of_it_does_not_grow_beyond_its_original_size) {
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(256 << 10);
    others_resize(384 << 10);
    EXPECT_EQ(set_->find("a")->size, uint64_t{384 << 10}) << "it regains its former size";
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
    others_resize(256 << 10);
    ASSERT_TRUE(resize("a", 384 << 10));
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20}) << "the resize made it cover its storage";
}

// Others have shrunk the storage. With rs: this takes effect when the operator resizes the volume.
TEST_F(OnSharedStorage, a_partial_volume_resized_to_the_remaining_size_stays_partial) {
    ASSERT_TRUE(create("a", 512 << 10));
    shared_.size = 256 << 10;
    ASSERT_TRUE(control([&] { return set_->resize("a", 256 << 10); }));
    others_resize(1 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
}

TEST_F(OnSharedStorage, a_partial_volume_made_smaller_than_the_remaining_size_leaves_it_unchanged) {
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(256 << 10);
    ASSERT_TRUE(resize("a", 128 << 10));
    EXPECT_EQ(shared_.size, uint64_t{256 << 10});
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{128 << 10});
}

TEST_F(OnSharedStorage, a_size_that_is_not_a_multiple_of_the_block_size_is_refused_before_it_is_opened) {
    EXPECT_EQ(create("a", 1000).code(), Code::kInvalid);
    EXPECT_FALSE(shared_.opened.has_value()) << "an opening may shut out the owner";
}

// The command changes nothing but the part: it confirms the size that others left.
TEST_F(OnSharedStorage, a_partial_volume_whose_remaining_size_the_operator_confirms_keeps_that_size) {
    make_set(
        {.state = locked(folder_.file("state.json")), .write = [&](const StateLock&, const auto& volumes) {
             return written_.push_back(volumes), Status::ok();
         }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(256 << 10);
    ASSERT_TRUE(resize("a", 256 << 10));
    EXPECT_EQ(written_.back().front().sizes.part(), uint64_t{256 << 10});
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
}

// Fails to drop data beyond a new end, if `fails` is set.
struct Dropping final : Observer {
    explicit Dropping(VolumeTable& table) { table.add_observer(*this); }
    ~Dropping() override { unlink(); }
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept override {
        if (!fails) shrink->done();
    }
    bool fails = true;
};

TEST_F(OnSharedStorage, a_volume_that_could_not_shrink_to_what_others_left_still_covers_its_storage) {
    Dropping observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.size = 512 << 10;
    ASSERT_FALSE(resize("a", 512 << 10));
    observer.fails = false;
    ASSERT_TRUE(follows(1 << 20, 512 << 10));
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
}

// This happens with storage on another node, whose size is known only when it joins the open volume.
TEST_F(OnSharedStorage, a_volume_covers_only_a_part_of_storage_that_turns_out_to_be_larger) {
    ASSERT_TRUE(create("a"));
    shared_.size = 2 << 20;
    EXPECT_TRUE(follows(0, 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    others_resize(512 << 10);
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20}) << "its original size";
}

TEST_F(OnSharedStorage, a_volume_whose_storage_is_lost_before_its_size_is_known_keeps_its_own) {
    ASSERT_TRUE(create("a"));
    EXPECT_TRUE(follows(0, 0));
    shared_.left = 2 << 20;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

TEST_F(OnSharedStorage, a_lost_volume_that_covered_its_storage_covers_it_again_when_the_size_is_known) {
    ASSERT_TRUE(create("a"));
    EXPECT_TRUE(follows(1 << 20, 0));
    ASSERT_TRUE(reopen("a"));
    shared_.size = 2 << 20;
    EXPECT_TRUE(follows(0, 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
}

TEST_F(OnSharedStorage, a_partial_volume_lost_while_it_covers_the_remaining_storage_stays_partial) {
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(256 << 10);
    shared_.taken = true;
    follows(256 << 10, 0);
    shared_.taken = false;
    shared_.left = 2 << 20;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
    others_resize(3 << 20);
    EXPECT_LE(set_->find("a")->size, uint64_t{512 << 10});
}

TEST_F(OnSharedStorage, a_shrink_of_its_storage_is_adopted_even_if_it_cannot_be_saved) {
    bool full = false;
    make_set(
        {.state = locked(folder_.file("state.json")), .write = [&](const StateLock&, const auto& volumes) {
             if (full) return Status::from_errno(ENOSPC, "state file");
             written_.push_back(volumes);
             return Status::ok();
         }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a"));
    full = true;
    const uint64_t before = std::exchange(shared_.size, 512 << 10);
    EXPECT_TRUE(follows(before, 512 << 10));
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
    shared_.size = 2 << 20;
    EXPECT_FALSE(follows(512 << 10, 2 << 20)) << "a growth waits until it can be saved";
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
    full = false;
    EXPECT_TRUE(follows(512 << 10, 2 << 20));
    EXPECT_EQ(written_.back().front().sizes.resized(), uint64_t{2 << 20});
    EXPECT_FALSE(written_.back().front().sizes.is_shrinking());
}

TEST_F(OnSharedStorage, a_volume_that_covers_its_storage_since_a_restart_takes_all_of_it_when_reopened) {
    const auto start = [&] {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json"))});
        ASSERT_TRUE(control([&] { return set_->restore(); }));
    };
    start();
    ASSERT_TRUE(create("a", 512 << 10));
    ASSERT_TRUE(resize("a", 384 << 10));
    others_resize(256 << 10);
    ASSERT_TRUE(control([&] { return set_->close_all(); }));
    start();
    others_resize(320 << 10);
    EXPECT_EQ(set_->find("a")->size, uint64_t{320 << 10});
    EXPECT_TRUE(follows(320 << 10, 0));
    shared_.left = 288 << 10;
    Status reopened = reopen("a");
    EXPECT_TRUE(reopened) << reopened.to_string();
    EXPECT_EQ(set_->find("a")->size, uint64_t{288 << 10});
}

TEST_F(OnSharedStorage, a_growth_during_a_pending_shrink_by_others_leaves_the_volume_on_all_of_its_storage) {
    EXPECT_TRUE(create("a"));
    shared_.offered = shared_.size = 512 << 10;
    EXPECT_EQ(resize("a", 2 << 20).code(), Code::kRefused);
    shared_.offered = 0;
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20});
}

TEST_F(OnSharedStorage, a_shrink_resizes_storage_that_is_no_multiple_of_the_block_size) {
    shared_.size = (2 << 20) + 512;
    EXPECT_TRUE(await([&](VolumeSet::Done done) {
        set_->create_async({.name = "a", .backend = "any", .block_size = 4096}, std::move(done));
    }));
    EXPECT_TRUE(resize("a", 1 << 20));
    EXPECT_EQ(shared_.size, uint64_t{1 << 20});
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{3 << 20}) << "it covers all of it";
}

TEST_F(OnSharedStorage, a_volume_whose_creation_outlasts_its_command_is_saved) {
    set_.reset();
    make_set({.state = locked(folder_.file("state.json")), .wait = from_ms(50)});
    ASSERT_TRUE(set_->restore());
    Status made;
    std::thread([&] { made = set_->create({.name = "a", .backend = "any"}); }).join();
    EXPECT_EQ(made.code(), Code::kTimedOut) << "no reactor has answered";
    auto is_saved = [&] {
        const auto text = read_file(folder_.file("state.json"), 1 << 20);
        return text && text->find("\"a\"") != std::string::npos;
    };
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (!is_saved() && clock_.now() < deadline) reactor_.step();
    EXPECT_TRUE(is_saved());
}

TEST_F(OnSharedStorage, a_growth_that_cannot_be_saved_is_logged_once_and_reported_until_it_is_adopted) {
    bool full = false;
    make_set({.state = locked(folder_.file("state.json")), .write = [&](const StateLock&, const auto&) {
                  return full ? Status::from_errno(ENOSPC, "state file") : Status::ok();
              }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a"));
    full = true;
    shared_.size = 2 << 20;
    testing::internal::CaptureStderr();
    for (int tries = 0; tries < 5; ++tries) EXPECT_FALSE(follows(1 << 20, 2 << 20));
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
    EXPECT_EQ(set_->find("a")->trouble,
              "its storage now has 2.00 MiB, but the volume keeps its size: it was not changed: state file: "
              "No space left on device");
    EXPECT_NE(log.find("volume a: " + set_->find("a")->trouble + "\n"), std::string::npos) << log;
    full = false;
    EXPECT_TRUE(follows(1 << 20, 2 << 20));
    EXPECT_EQ(set_->find("a")->trouble, "");
    full = true;
    shared_.size = 3 << 20;
    EXPECT_FALSE(follows(2 << 20, 3 << 20));
    EXPECT_NE(set_->find("a")->trouble, "");
    shared_.size = 2 << 20;
    EXPECT_TRUE(follows(3 << 20, 2 << 20)) << "it has its former size again";
    EXPECT_EQ(set_->find("a")->trouble, "");
}

TEST_F(OnSharedStorage, a_volume_whose_storage_was_taken_refuses_all_initiators) {
    ASSERT_TRUE(create("a"));
    EXPECT_EQ(set_->table(0).find(0)->access().of("anybody"), Permission::kWrite);
    shared_.changed(shared_.size, 0);
    reactor_.step();
    for (size_t i = 0; i < set_->tables(); ++i)
        EXPECT_EQ(set_->table(i).find(0)->access().of("anybody"), Permission::kNone);
}

TEST_F(OnSharedStorage, an_access_list_does_not_open_a_volume_whose_storage_was_taken) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    ASSERT_TRUE(
        await([&](VolumeSet::Done done) { set_->set_access_async("a", {"anybody=rw"}, std::move(done)); }));
    EXPECT_EQ(set_->table(0).find(0)->access().of("anybody"), Permission::kNone);
    EXPECT_EQ(set_->find("a")->access, std::vector<std::string>{"anybody=rw"});
}

TEST_F(OnSharedStorage, a_volume_whose_storage_was_taken_is_not_resized) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    auto resize = [&](VolumeSet::Done done) { set_->resize_async("a", 512 << 10, std::move(done)); };
    EXPECT_EQ(await(resize).code(), Code::kInvalid);
    EXPECT_EQ(shared_.size, uint64_t{1 << 20}) << "it belongs to another owner";
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

// The first report may come from the thread of the reactor that opens the storage.
TEST_F(OnSharedStorage, a_volume_whose_storage_is_taken_during_its_opening_refuses_all_initiators) {
    VolumeOptions options;
    options.name = "a";
    options.backend = "any";
    std::optional<Status> result;
    set_->create_async(options, [&](Status status) { result = std::move(status); });
    ASSERT_FALSE(result);
    shared_.changed(shared_.size, 0);
    while (!result) reactor_.step();
    ASSERT_TRUE(*result);
    EXPECT_EQ(set_->table(0).find(0)->access().of("anybody"), Permission::kNone);
}

}  // namespace
}  // namespace wss::volume
