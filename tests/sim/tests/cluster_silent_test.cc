// SPDX-License-Identifier: Apache-2.0
// The storage of one volume is silent, wholly or in part: its writes fail after a minute. Other volumes, and
// the other parts of this one, must still be destaged.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

constexpr Nanoseconds kSoon = from_s(2);

class Silent : public ClusterOperator {
  protected:
    static constexpr uint64_t kBig = 32ULL << 20;  // bytes
    static constexpr uint64_t kSilentLines = 40, kHealthyLines = 8;
    Silent() { options_.lost_grace = from_s(15); }

    void open(const std::string& name, Volume& volume) {
        create(name, volume);
        attach(name, volume);
        set_policy(name, Policy::kBack);
    }
    void dirty_lines_of(Volume& volume, uint64_t first_byte, uint64_t count, uint64_t step = kLineBytes) {
        for (uint64_t i = 0; i < count; ++i)
            ASSERT_EQ(run(volume, Operation::kWrite, (first_byte + i * step) / io::SimDisk::kSector),
                      Outcome::kOk);
    }
    // "big" has more dirty lines in its silent part than there are destages, so all its destages are in use.
    void fall_silent(uint64_t silent_bytes = kBig, uint64_t step = kLineBytes) {
        open("big", big_);
        big_.faults.silent_end = silent_bytes;
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 0, kSilentLines, step));
        target_->cache().drain("big", [this](const Status&) { drained_ = true; });
    }
    void dirty_healthy_volume() {
        open("a", a_);
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(a_, 0, kHealthyLines));
    }
    cache::CachedVolumeInfo volume(const std::string& name) {
        for (const auto& one : target_->cache().info().volumes)
            if (one.name == name) return one;
        return {};
    }
    Nanoseconds time_of(const std::function<bool()>& done) {
        const Nanoseconds begin = world_.now();
        EXPECT_TRUE(until(done, from_s(300)));
        return world_.now() - begin;
    }
    Nanoseconds time_of_flush(Volume& of) {
        EXPECT_TRUE(of.client->begin(Operation::kFlush, 0, kLine));
        const Nanoseconds took = time_of([&] { return of.client->under_way() == 0; });
        EXPECT_EQ(of.client->last_outcome(), Outcome::kOk);
        return took;
    }
    void TearDown() override {
        EXPECT_EQ(big_.shared.failure, "");
        retire(std::move(big_.client));
        ClusterOperator::TearDown();
    }

    Volume big_{world_, kBig / io::SimDisk::kSector};
    bool drained_ = false;
};

TEST_F(Silent, storage_does_not_hold_up_a_flush_of_another_volume) {
    dirty_healthy_volume();
    fall_silent();
    world_.run_for(from_ms(100));
    EXPECT_LT(time_of_flush(a_), kSoon) << "at once";
    for (int i = 0; i < 20; ++i) {
        world_.run_for(from_s(9));
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(a_, 0, kHealthyLines));
        EXPECT_LT(time_of_flush(a_), kSoon) << "in the " << i << "th interval";
    }
}

TEST_F(Silent, storage_does_not_keep_other_volumes_dirty_when_the_target_stops) {
    dirty_healthy_volume();
    fall_silent();
    world_.run_for(from_s(10));
    for (Volume* one : {&a_, &big_}) one->client->close();
    ASSERT_TRUE(until([&] { return a_.client->closed() && big_.client->closed(); }));
    target_->stop(from_s(30));
    EXPECT_LT(time_of([&] { return volume("a").dirty_lines == 0; }), kSoon);
    EXPECT_EQ(volume("a").counters.destaged_lines, kHealthyLines);
    EXPECT_TRUE(until([&] { return target_->stopped(); }));
    EXPECT_FALSE(target_->cache_stopped()) << "lines of the silent volume stay in engines";
}

TEST_F(Silent, storage_does_not_keep_other_volumes_dirty_when_the_engines_leave) {
    dirty_healthy_volume();
    fall_silent();
    world_.run_for(from_s(10));
    for (EngineNode& engine : engines_) engine.process->leave();
    EXPECT_LT(time_of([&] { return volume("a").dirty_lines == 0; }), kSoon);
    EXPECT_EQ(volume("a").counters.destaged_lines, kHealthyLines);
}

TEST_F(Silent, part_of_a_volume_does_not_keep_the_other_parts_dirty) {
    fall_silent(16 << 20, 256 << 10);
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 16 << 20, kHealthyLines, 2 << 20));
    target_->cache().drain("big", [](const Status&) {});
    EXPECT_LT(time_of([&] { return volume("big").counters.destaged_lines == kHealthyLines; }), from_s(10));
    // This must also hold after the silent lines have failed and while they are retried.
    for (int i = 0; i < 10; ++i) {
        world_.run_for(from_s(23));
        const uint64_t before = volume("big").counters.destaged_lines;
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 16 << 20, kHealthyLines, 2 << 20));
        target_->cache().drain("big", [](const Status&) {});
        EXPECT_LT(time_of([&] { return volume("big").counters.destaged_lines == before + kHealthyLines; }),
                  from_s(12))
            << "in the " << i << "th interval";
    }
}

TEST_F(Silent, part_of_a_volume_that_is_scattered_does_not_keep_the_other_parts_dirty) {
    open("big", big_);
    big_.faults.silent_end = 16 << 20;
    // One silent line in each 4 MiB; these are the oldest.
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 0, 4, 4 << 20));
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 16 << 20, 32));
    target_->cache().drain("big", [](const Status&) {});
    EXPECT_LT(time_of([&] { return volume("big").counters.destaged_lines == 32; }), kSoon);
}

TEST_F(Silent, storage_that_answers_again_gets_all_lines_that_it_missed) {
    fall_silent();
    world_.run_for(from_s(200));
    EXPECT_EQ(volume("big").dirty_lines, kSilentLines);
    big_.faults.silent_end = 0;
    EXPECT_LT(time_of([&] {
                  target_->cache().drain("big", [](const Status&) {});
                  return volume("big").dirty_lines == 0;
              }),
              from_s(75))
        << "the last requests fail after a minute, and the pause takes 10 s";
    EXPECT_LT(time_of_flush(big_), kSoon);
}

TEST_F(Silent, storage_of_many_volumes_does_not_hold_up_the_remaining_one) {
    options_.destages = 2;
    restart_target_alone();
    ASSERT_TRUE(until([&] { return recovered(); }));
    dirty_healthy_volume();
    open("b", b_);
    b_.faults.silent_end = UINT64_MAX;
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(b_, 0, 6));
    target_->cache().drain("b", [](const Status&) {});
    fall_silent();
    for (int i = 0; i < 20; ++i) {
        world_.run_for(from_s(9));
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(a_, 0, kHealthyLines));
        EXPECT_LT(time_of_flush(a_), kSoon) << "in the " << i << "th interval";
    }
}

// One job is left. A volume that has used this job must leave it to the other volumes before its next use.
TEST_F(Silent, storage_of_many_volumes_does_not_reserve_the_last_job_for_one_of_the_others) {
    options_.destages = 1;
    restart_target_alone();
    ASSERT_TRUE(until([&] { return recovered(); }));
    Volume c{world_, 4096};
    open("a", a_);
    open("c", c);
    open("b", b_);
    b_.faults.silent_end = UINT64_MAX;
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(b_, 0, 1));
    fall_silent();
    target_->cache().drain("b", [](const Status&) {});
    world_.run_for(from_s(10));
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(a_, 0, 4 * kHealthyLines));
    ASSERT_NO_FATAL_FAILURE(dirty_lines_of(c, 0, kHealthyLines));
    target_->cache().drain("a", [](const Status&) {});
    target_->cache().drain("c", [](const Status&) {});
    EXPECT_TRUE(until([&] { return volume("c").dirty_lines == 0; }));
    EXPECT_GT(volume("a").dirty_lines, kHealthyLines);
    EXPECT_TRUE(until([&] { return volume("a").dirty_lines == 0; }));
    retire(std::move(c.client));
}

TEST_F(Silent, part_of_a_volume_is_reported_while_the_other_parts_are_destaged) {
    fall_silent(16 << 20, 256 << 10);
    ASSERT_TRUE(until([&] { return !volume("big").last_error.empty(); }, from_s(300)));
    for (int i = 0; i < 20; ++i) {
        world_.run_for(from_s(1));
        const uint64_t before = volume("big").counters.destaged_lines;
        ASSERT_NO_FATAL_FAILURE(dirty_lines_of(big_, 16 << 20, 1));
        // A line that fails ends the drain, so it is started again.
        const auto is_home = [&] {
            target_->cache().drain("big", [](const Status&) {});
            return volume("big").counters.destaged_lines > before;
        };
        ASSERT_TRUE(until(is_home, from_s(60)));
        EXPECT_NE(volume("big").last_error, "");
    }
    big_.faults.silent_end = 0;
    const auto all_is_home = [&] {
        target_->cache().drain("big", [](const Status&) {});
        return volume("big").dirty_lines == 0;
    };
    ASSERT_TRUE(until(all_is_home, from_s(300)));
    EXPECT_EQ(volume("big").last_error, "");
}

}  // namespace
}  // namespace wss::sim
