// SPDX-License-Identifier: Apache-2.0
// A volume on storage that others resize while a shrink of the volume is incomplete, with and without a
// restart.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "lib/base/file.h"
#include "tests/unit/volume/closed.h"
#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

// Holds data: it keeps shrinks while it is away, and may refuse volumes.
class Engines : public Observer {
  public:
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept override {
        if (away)
            kept = std::move(shrink);
        else
            shrink->done();
    }
    Status may_open(const Volume&) override {
        return refuse ? failure(Code::kRefused, "engines hold data") : Status::ok();
    }
    bool away = false, refuse = false;
    std::shared_ptr<Shrink> kept;
};

// The target stops while engines hold data beyond the end of a volume that became smaller.
class ShrinkCutOff : public OnSharedStorage {
  protected:
    void start(uint64_t size = 0, Nanoseconds wait = from_ms(100)) {
        set_.reset();
        make_set({.state = locked(folder_.file("state.json")), .wait = wait});
        set_->table(0).add_observer(engines_);
        ASSERT_TRUE(set_->restore());
        EXPECT_EQ(create("disk", size, true).is_ok(), !engines_.refuse);
    }
    void stop() {
        EXPECT_TRUE(control([&] { return closed(*set_); }));
        set_->table(0).remove_observer(engines_);
        engines_.kept.reset();
        engines_.away = false;
        set_.reset();
    }
    void TearDown() override {
        if (!set_) make_set({});
    }
    // Others shrink the storage of a volume that covers all of it.
    void cut_off(uint64_t from, uint64_t to) {
        shared_.size = from;
        start();
        engines_.away = true;
        shared_.size = to;
        EXPECT_FALSE(follows(from, to));
        stop();
    }
    void operators_shrink_is_cut_off(uint64_t to) {
        engines_.away = true;
        // An earlier change has saved its end, but may not have returned yet.
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        Status resized = resize("disk", to);
        while (resized.code() == Code::kBusy && clock_.now() < deadline) resized = resize("disk", to);
        EXPECT_EQ(resized.code(), Code::kTimedOut) << resized.to_string();
    }
    const Volume& volume() { return set_->table(0).find(0)->volume(); }
    uint64_t size() { return set_->find("disk")->size; }
    RecordedSizes sizes() {
        return parse_state(*read_file(folder_.file("state.json"), 1 << 20), "state.json")->front().sizes;
    }
    void expect_ended() {
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        while (sizes().is_shrinking() && clock_.now() < deadline) reactor_.step();
        EXPECT_FALSE(sizes().is_shrinking());
    }
    // The storage reports a size to a volume that may still be ending its shrink.
    void report(uint64_t before, uint64_t after) {
        shared_.at_most = 0;
        while (!follows(before, after)) {
        }
    }
    // A shrink from 4 to 1 MiB is cut off, and the storage has 4 MiB again at the next start.
    void start_after_a_growth() {
        cut_off(4 << 20, 1 << 20);
        shared_.size = 4 << 20;
        start();
        EXPECT_EQ(volume().drops_from(), uint64_t{1 << 20});
        EXPECT_EQ(size(), uint64_t{1 << 20}) << "data beyond that is served before it is dropped";
        report(1 << 20, 4 << 20);
        EXPECT_EQ(size(), uint64_t{4 << 20});
    }
    Engines engines_;
};

TEST_F(ShrinkCutOff, lets_a_configured_volume_take_all_of_the_storage_after_the_next_start) {
    cut_off(2 << 20, 1 << 20);
    for (const uint64_t bytes : {1 << 20, 3 << 20, 1 << 19}) {
        shared_.size = bytes;
        start();
        if (size() < bytes) report(size(), bytes);
        expect_ended();
        EXPECT_EQ(size(), bytes);
        EXPECT_EQ(sizes(), RecordedSizes{});
        stop();
    }
}

TEST_F(ShrinkCutOff, drops_data_that_the_storage_no_longer_had_even_if_it_has_grown_since) {
    start_after_a_growth();
    stop();
    start();
    EXPECT_EQ(volume().drops_from(), 0u);
    EXPECT_EQ(size(), uint64_t{4 << 20});
    stop();
}

TEST_F(ShrinkCutOff, ends_even_if_the_storage_reports_its_growth_before_the_volume_is_made) {
    shared_.offers = true;
    start_after_a_growth();
    stop();
}

TEST_F(ShrinkCutOff, makes_later_starts_drop_no_data_beyond_the_end_of_storage_that_is_smaller_again) {
    cut_off(4 << 20, 2 << 20);
    start();
    expect_ended();
    stop();
    shared_.size = 1 << 20;
    start();
    EXPECT_EQ(volume().drops_from(), 0u);
    stop();
}

TEST_F(ShrinkCutOff, keeps_its_end_at_a_start_with_storage_that_is_smaller_than_that) {
    cut_off(4 << 20, 2 << 20);
    shared_.size = 1 << 20;
    start();
    EXPECT_EQ(size(), uint64_t{1 << 20});
    EXPECT_EQ(volume().drops_from(), uint64_t{2 << 20}) << "data before that is not to be dropped";
    stop();
}

TEST_F(ShrinkCutOff, does_not_follow_storage_that_is_offered_but_not_accepted_when_it_ends) {
    shared_.size = 4 << 20;
    start(4 << 20);
    engines_.away = true;
    shared_.size = 1 << 20;
    EXPECT_FALSE(follows(4 << 20, 1 << 20));
    stop();
    engines_.away = true;
    start(4 << 20);
    while (!engines_.kept) reactor_.step();
    shared_.offered = 512 << 10;
    engines_.away = false;
    engines_.kept->done();
    engines_.kept.reset();
    expect_ended();
    EXPECT_EQ(size(), uint64_t{1 << 20});
    shared_.offered = 0;
    stop();
}

TEST_F(ShrinkCutOff, does_not_make_a_stop_wait_for_engines) {
    cut_off(4 << 20, 1 << 20);
    engines_.away = true;
    start(0, from_s(3600));
    stop();
}

TEST_F(ShrinkCutOff, that_the_storage_completed_leaves_the_volume_on_all_of_it) {
    for (const char* next_owner : {"1", "2"}) {
        shared_.owner = "1";
        shared_.size = 4 << 20;
        start();
        operators_shrink_is_cut_off(2 << 20);
        stop();
        shared_.owner = next_owner;
        for (const uint64_t bytes : {2 << 20, 1 << 20, 8 << 20}) {
            shared_.size = bytes;
            start();
            expect_ended();
            EXPECT_EQ(size(), bytes);
            EXPECT_EQ(sizes(), RecordedSizes{});
            stop();
        }
    }
}

TEST_F(ShrinkCutOff, that_is_abandoned_leaves_the_volume_on_a_part) {
    shared_.size = 4 << 20;
    start();
    operators_shrink_is_cut_off(2 << 20);
    shared_.taken = true;
    EXPECT_TRUE(follows(4 << 20, 0));
    shared_.taken = false;
    stop();
    for (const uint64_t bytes : {4 << 20, 8 << 20, 8 << 20}) {
        shared_.size = bytes;
        start();
        expect_ended();
        EXPECT_EQ(size(), uint64_t{2 << 20});
        stop();
    }
}

TEST_F(ShrinkCutOff, whose_storage_others_resized_leaves_the_volume_on_a_part) {
    shared_.size = 4 << 20;
    start();
    operators_shrink_is_cut_off(2 << 20);
    stop();
    shared_.size = 8 << 20;
    for (const bool away : {true, false}) {
        engines_.away = away;
        start();
        EXPECT_EQ(size(), uint64_t{2 << 20});
        stop();
    }
    start();
    expect_ended();
    operators_shrink_is_cut_off(1 << 20);
    stop();
    start();
    expect_ended();
    EXPECT_EQ(size(), uint64_t{1 << 20});
    stop();
}

TEST_F(ShrinkCutOff, that_storage_refused_leaves_the_volume_on_a_part_when_others_enlarge_it) {
    shared_.size = 4 << 20;
    start();
    shared_.refuses_resizes = true;
    EXPECT_FALSE(resize("disk", 2 << 20));
    shared_.refuses_resizes = false;
    shared_.size = 8 << 20;
    report(4 << 20, 8 << 20);
    for (int starts = 0; starts < 2; ++starts) {
        EXPECT_EQ(size(), uint64_t{2 << 20}) << "the engines' data beyond that is gone";
        EXPECT_EQ(sizes().part(), uint64_t{2 << 20});
        stop();
        start();
        expect_ended();
    }
    stop();
}

// While the outcome is unknown, storage reports the requested size at most.
TEST_F(ShrinkCutOff, of_unknown_outcome_leaves_the_volume_on_a_part_when_others_resize_the_storage) {
    shared_.size = 4 << 20;
    start();
    shared_.refuses_resizes = true;
    EXPECT_FALSE(resize("disk", 2 << 20));
    shared_.refuses_resizes = false;
    shared_.offered = 2 << 20;
    EXPECT_TRUE(follows(4 << 20, 3 << 20));
    shared_.offered = 0;
    shared_.size = 3 << 20;
    stop();
    start();
    expect_ended();
    EXPECT_EQ(size(), uint64_t{2 << 20}) << "the engines' data beyond that is gone";
    stop();
}

// The volume follows the storage when the change in progress is over.
TEST_F(ShrinkCutOff, during_which_others_shrink_the_storage_leaves_the_volume_on_all_of_it) {
    shared_.size = 4 << 20;
    start();
    operators_shrink_is_cut_off(3 << 20);
    shared_.size = 1 << 20;
    EXPECT_FALSE(follows(4 << 20, 1 << 20));
    std::exchange(engines_.kept, nullptr)->done();
    expect_ended();
    engines_.away = false;
    report(4 << 20, 1 << 20);
    EXPECT_EQ(size(), uint64_t{1 << 20});
    others_resize(4 << 20);
    EXPECT_EQ(size(), uint64_t{4 << 20});
    stop();
}

// The volume has the new size already, and engines are to drop the data beyond it.
TEST_F(ShrinkCutOff, by_a_loss_while_engines_are_away_leaves_the_volume_on_all_of_the_storage) {
    shared_.size = 4 << 20;
    start();
    engines_.away = true;
    shared_.size = 1 << 20;
    EXPECT_FALSE(follows(4 << 20, 1 << 20));
    shared_.taken = true;
    follows(4 << 20, 0);
    std::exchange(engines_.kept, nullptr)->done();
    engines_.away = false;
    shared_.taken = false;
    shared_.size = 2 << 20;
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (!reopen("disk") && clock_.now() < deadline) reactor_.step();
    EXPECT_EQ(size(), uint64_t{2 << 20});
    stop();
}

// The storage repeats its notice a second after the volume could not follow it.
TEST_F(ShrinkCutOff, by_a_loss_before_the_notice_is_repeated_leaves_the_volume_on_all_of_the_storage) {
    shared_.size = 2 << 20;
    start();
    engines_.away = true;
    shared_.size = 1 << 20;
    EXPECT_FALSE(follows(2 << 20, 1 << 20));
    engines_.away = false;
    std::exchange(engines_.kept, nullptr)->done();
    expect_ended();
    EXPECT_EQ(size(), uint64_t{1 << 20});
    EXPECT_TRUE(follows(2 << 20, 0));
    shared_.left = 512 << 10;
    Status reopened = reopen("disk");
    EXPECT_TRUE(reopened) << reopened.to_string();
    EXPECT_EQ(size(), uint64_t{512 << 10});
    stop();
}

TEST_F(ShrinkCutOff, that_overtakes_one_by_others_shrinks_the_storage) {
    shared_.size = 4 << 20;
    start();
    shared_.size = 3 << 20;
    EXPECT_EQ(resize("disk", (3 << 20) + (1 << 19)).code(), Code::kRefused);
    EXPECT_TRUE(resize("disk", 2 << 20));
    EXPECT_EQ(shared_.size, uint64_t{2 << 20});
    EXPECT_FALSE(follows(4 << 20, 3 << 20)) << "the resize has overtaken it, and it is not repeated";
    EXPECT_EQ(size(), uint64_t{2 << 20});
    others_resize(4 << 20);
    EXPECT_EQ(size(), uint64_t{4 << 20});
    stop();
}

TEST_F(ShrinkCutOff, of_a_part_keeps_the_size_that_the_operator_set) {
    shared_.size = 1 << 20;
    start(512 << 10);
    operators_shrink_is_cut_off(256 << 10);
    stop();
    start(512 << 10);
    expect_ended();
    shared_.at_most = 0;
    others_resize(128 << 10);
    others_resize(1 << 20);
    EXPECT_EQ(size(), uint64_t{256 << 10});
    stop();
}

TEST_F(ShrinkCutOff, of_a_part_that_is_refused_at_a_start_keeps_its_configured_size) {
    shared_.size = 1 << 20;
    start(512 << 10);
    others_resize(128 << 10);
    stop();
    engines_.refuse = true;
    start(512 << 10);
    EXPECT_EQ(size(), uint64_t{128 << 10});
    engines_.refuse = false;
    ASSERT_TRUE(reopen("disk"));
    EXPECT_EQ(size(), uint64_t{128 << 10});
    others_resize(1 << 20);
    EXPECT_EQ(size(), uint64_t{512 << 10});
    stop();
}

}  // namespace
}  // namespace wss::volume
