// SPDX-License-Identifier: Apache-2.0
// A target that was started before its storage process has joined. It cannot detect whether another owner had
// the disk meanwhile.
#include <algorithm>

#include "tests/sim/tests/storage_elsewhere.h"

namespace wss::sim {
namespace {

using initiator::Operation;
using initiator::Outcome;

class VolumeWithUnjoinedStorage : public WithStorageElsewhere {
  protected:
    void restart_without_storage() {
        storage_node_.crash();
        retire(std::move(storage_));
        ASSERT_TRUE(until([&] { return !joined(); }));
        restart_target();
        ASSERT_TRUE(until([&] {
            const auto engines = target_->cache().info().engines;
            return std::ranges::count(engines, "live", &cache::EngineInfo::state) == 2;
        }));
    }
    void start_storage_again() {
        storage_node_.restart();
        start_storage();
    }
};

// The volume is not recorded as dirty, so its owner is not known.
TEST_F(VolumeWithUnjoinedStorage, acknowledges_no_write_by_engines_alone) {
    start_engines(2);
    restart_without_storage();
    set_policy(cache::Policy::kBack);
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kMediumError);
    EXPECT_EQ(dirty(), 0u);
    start_storage_again();
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kOk);
}

TEST_F(VolumeWithUnjoinedStorage, acknowledges_no_write_by_engines_alone_for_a_known_owner) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    ASSERT_EQ(run(0, Operation::kFlush), Outcome::kOk);
    ASSERT_TRUE(until([&] { return dirty() == 0; }));
    restart_without_storage();
    EXPECT_EQ(run(0, Operation::kWrite), Outcome::kMediumError);
    EXPECT_EQ(dirty(), 0u);
}

// The process had reported that Ceph does not answer it.
TEST_F(VolumeWithUnjoinedStorage, answers_no_read_from_dirty_lines) {
    start_engines(2);
    set_policy(cache::Policy::kBack);
    disk_.refuse(true);
    ASSERT_EQ(run(0, Operation::kWrite), Outcome::kOk);
    disk_.suspend(true);
    world_.run_for(from_s(1));
    restart_without_storage();
    ASSERT_TRUE(until([&] { return dirty() > 0; }));
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kMediumError);
    disk_.suspend(false);
    disk_.refuse(false);
    start_storage_again();
    EXPECT_EQ(run(0, Operation::kRead), Outcome::kOk);
}

}  // namespace
}  // namespace wss::sim
