// SPDX-License-Identifier: Apache-2.0
// What volumes keep over a restart. Without reactors every change is over when its call returns.
#include <gtest/gtest.h>

#include "lib/io/backend.h"
#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"

namespace wss::volume {
namespace {

class Restarts : public testing::Test {
  protected:
    void start(VolumeSet::Options options) {
        options_ = options;
        set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>(), std::move(options));
        ASSERT_TRUE(set_->restore());
    }
    void stop() {
        EXPECT_TRUE(set_->close_all());
        set_.reset();
    }
    void restart() {
        stop();
        start(options_);
    }
    void TearDown() override {
        if (set_) stop();
    }
    Status create(const std::string& name, const std::string& backend, VolumeOptions more = {}) {
        more.name = name;
        more.backend = backend;
        return set_->create(more);
    }

    io::test::TemporaryFolder folder_;
    VolumeSet::Options options_;
    std::unique_ptr<VolumeSet> set_;
};

TEST_F(Restarts, a_declared_volume_that_cannot_be_opened_keeps_its_lun) {
    const std::vector<VolumeOptions> declared{{.name = "refused", .backend = "refused", .declared = true},
                                              {.name = "served", .backend = "ram:1M", .declared = true}};
    for (const std::string& state : {std::string(), folder_.file("state.json")}) {
        bool refuses = true;
        start({.state_path = state, .open = [&](const std::string& what, const io::OpenOptions& options) {
                   if (what != "refused") return io::open_backend(what, options);
                   if (!refuses) return io::open_backend("ram:1M", options);
                   return Result<std::unique_ptr<io::Backend>>(Status(Code::kRefused, "its owner lives"));
               }});
        auto start_volumes = [&] {
            ASSERT_TRUE(set_->declare(declared));
            for (const VolumeOptions& volume : declared)
                EXPECT_EQ(set_->create(volume).is_ok(), volume.name == "served" || !refuses);
            EXPECT_EQ(set_->find("served")->identity.lun, 1u);
        };
        start_volumes();
        ASSERT_TRUE(create("more", "ram:1M"));
        EXPECT_EQ(set_->find("more")->identity.lun, 2u);
        refuses = false;
        restart();
        start_volumes();
        EXPECT_EQ(set_->find("refused")->identity.lun, 0u);
        stop();
    }
}

TEST_F(Restarts, limits_survive_a_restart) {
    start({.state_path = folder_.file("state.json")});
    const RateLimits configured{.iops = 100, .bandwidth = 1 << 20};
    auto create_declared = [&](const char* name) {
        return create(name, "ram:1M", {.limits = configured, .declared = true});
    };
    ASSERT_TRUE(create("kept", "ram:1M", {.limits = configured}));
    ASSERT_TRUE(create("changed", "ram:1M", {.limits = configured}));
    ASSERT_TRUE(create_declared("declared"));
    ASSERT_TRUE(create_declared("untouched"));
    ASSERT_TRUE(set_->set_limits("changed", {.iops = 7}));
    ASSERT_TRUE(set_->set_limits("declared", {.iops = 0, .bandwidth = 0}));
    EXPECT_FALSE(set_->set_limits("declared", {.bandwidth = 1})) << "too low for a command";
    EXPECT_FALSE(create("bad", "ram:1M", {.limits = {.bandwidth = 1}}));
    restart();
    ASSERT_TRUE(create_declared("declared"));
    ASSERT_TRUE(create_declared("untouched"));
    EXPECT_EQ(set_->find("kept")->limits, configured);
    EXPECT_EQ(set_->find("changed")->limits, (RateLimits{.iops = 7, .bandwidth = 1 << 20}));
    EXPECT_EQ(set_->find("declared")->limits, RateLimits{}) << "changed at run time";
    EXPECT_EQ(set_->find("untouched")->limits, configured);
    ASSERT_TRUE(set_->set_limits("kept", {.iops = 0, .bandwidth = 0}));
    restart();
    EXPECT_EQ(set_->find("kept")->limits, RateLimits{});
}

}  // namespace
}  // namespace wss::volume
