// SPDX-License-Identifier: Apache-2.0
// State that volumes keep across a restart. Without reactors every change is complete when its call returns.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <utility>

#include "lib/io/backend.h"
#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

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

TEST_F(Restarts, keep_the_lun_of_a_declared_volume_that_cannot_be_opened) {
    const std::vector<VolumeOptions> declared{{.name = "refused", .backend = "refused", .declared = true},
                                              {.name = "served", .backend = "ram:1M", .declared = true}};
    for (const std::string& state : {std::string(), folder_.file("state.json")}) {
        bool refuses = true;
        start({.state = state.empty() ? nullptr : locked(state),
               .open = [&](const std::string& what, const io::OpenOptions& options) {
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

class OnStorageOfOneVolume : public Restarts {
  protected:
    void start_with_shared_storage(bool refuses) {
        options_ = {};  // the options hold the lock
        VolumeSet::Options options;
        options.state = locked(folder_.file("state.json"));
        if (refuses) options.of_one_volume = [](const std::string& what) { return what == "ram:1M"; };
        start(options);
    }
    bool is_open(const std::string& name) {
        auto found = set_->find(name);
        return found && !found->closed;
    }
};

TEST_F(OnStorageOfOneVolume, of_two_volumes_in_the_state_file_the_same_one_is_open_after_each_start) {
    start_with_shared_storage(false);
    ASSERT_TRUE(create("z", "ram:1M"));
    ASSERT_TRUE(create("a", "ram:1M"));
    stop();
    for (int i = 0; i < 3; ++i) {
        start_with_shared_storage(true);
        EXPECT_TRUE(set_->declare({}));
        EXPECT_TRUE(is_open("z")) << i;
        EXPECT_FALSE(is_open("a")) << i;
        ASSERT_TRUE(set_->find("a"));
        EXPECT_NE(set_->find("a")->trouble.find("the storage of volume z"), std::string::npos);
        stop();
    }
}

TEST_F(OnStorageOfOneVolume, a_refused_declared_volume_is_listed_and_opened_when_the_other_one_is_deleted) {
    start_with_shared_storage(true);
    const std::vector<VolumeOptions> declared{{.name = "a", .backend = "ram:1M", .declared = true},
                                              {.name = "b", .backend = "ram:1M", .declared = true}};
    ASSERT_TRUE(set_->declare(declared));
    ASSERT_TRUE(set_->create(declared[0]));
    EXPECT_EQ(set_->create(declared[1]).code(), Code::kRefused);
    EXPECT_FALSE(is_open("b"));
    ASSERT_TRUE(set_->find("b"));
    ASSERT_TRUE(set_->remove("a"));
    EXPECT_TRUE(set_->reopen("b", {}));
    EXPECT_TRUE(is_open("b"));
}

// While the second volume is being opened, the first one is resized and the target crashes.
TEST_F(Restarts, keep_a_volume_in_the_file_while_it_is_still_being_opened) {
    const std::string file = folder_.file("state.json");
    std::function<void()> meanwhile;
    start({.state = locked(file), .open = [&](const std::string& what, const io::OpenOptions& options) {
               if (what.ends_with("slow") && meanwhile) meanwhile();
               return io::open_backend(what, options);
           }});
    const auto options = [&](const char* name) {
        return VolumeOptions{
            .name = name, .backend = "aio:" + folder_.file(name), .size = 1 << 20, .create = true};
    };
    ASSERT_TRUE(set_->create(options("quick")));
    ASSERT_TRUE(set_->create(options("slow")));
    stop();
    set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>(), options_);
    std::vector<StoredVolume> stored;
    meanwhile = [&] {
        EXPECT_TRUE(set_->resize("quick", 2 << 20));
        stored = *read_state_file(*options_.state);
    };
    ASSERT_TRUE(set_->restore());
    ASSERT_EQ(stored.size(), 2u);
    for (const StoredVolume& volume : stored) {
        EXPECT_FALSE(volume.options.declared) << volume.options.name;
        EXPECT_EQ(volume.options.backend, "aio:" + folder_.file(volume.options.name));
    }
    EXPECT_EQ(set_->find("quick")->size, uint64_t{2 << 20});
}

// The refused change is undone by another save when all volumes are closed.
TEST_F(Restarts, lose_no_volume_to_a_change_that_outlasts_the_stop) {
    bool stops = false;
    start(
        {.state = locked(folder_.file("state.json")), .write = [&](const StateLock& to, const auto& volumes) {
             if (std::exchange(stops, false)) set_->close_all_async([](const Status&) {});
             return write_state_file(to, volumes);
         }});
    ASSERT_TRUE(create("disk", "aio:" + folder_.file("disk"), {.size = 1 << 20, .create = true}));
    stops = true;
    EXPECT_FALSE(set_->set_read_only("disk", true)) << "the volume is closed";
    restart();
    ASSERT_TRUE(set_->find("disk"));
    EXPECT_FALSE(set_->find("disk")->read_only) << "the refused change";
}

TEST_F(Restarts, let_the_operator_reopen_a_volume_that_could_not_be_opened) {
    start({.state = locked(folder_.file("state.json"))});
    const std::string file = folder_.file("disk");
    ASSERT_TRUE(create("disk", "aio:" + file, {.size = 1 << 20, .create = true}));
    const VolumeInfo before = *set_->find("disk");
    std::filesystem::rename(file, file + ".away");
    restart();
    EXPECT_FALSE(set_->reopen("disk", {}));
    EXPECT_TRUE(set_->find("disk")->closed);
    std::filesystem::rename(file + ".away", file);
    EXPECT_EQ(set_->reopen("disk", {.give_up_dirty = true}).code(), Code::kInvalid) << "for caches only";
    ASSERT_TRUE(set_->reopen("disk", {}));
    EXPECT_EQ(set_->find("disk")->identity, before.identity);
    EXPECT_FALSE(set_->find("disk")->closed);
    EXPECT_EQ(set_->reopen("disk", {}).code(), Code::kInvalid) << "it is open";
    ASSERT_TRUE(set_->resize("disk", 2 << 20));
    restart();
    EXPECT_EQ(set_->find("disk")->size, uint64_t{2 << 20});
    ASSERT_TRUE(set_->remove("disk"));
    EXPECT_TRUE(set_->list().empty());
}

TEST_F(Restarts, let_the_operator_reopen_a_volume_of_the_configuration_that_was_refused) {
    bool refuses = true;
    start({.open = [&](const std::string&, const io::OpenOptions& options) {
        if (!refuses) return io::open_backend("ram:1M", options);
        return Result<std::unique_ptr<io::Backend>>(Status(Code::kRefused, "engines hold writes"));
    }});
    const VolumeOptions disk{.name = "disk", .backend = "any", .declared = true};
    ASSERT_TRUE(set_->declare({disk}));
    EXPECT_FALSE(set_->create(disk));
    EXPECT_EQ(set_->find("disk")->trouble, "engines hold writes");
    refuses = false;
    ASSERT_TRUE(set_->reopen("disk", {}));
    EXPECT_TRUE(set_->find("disk")->declared);
    EXPECT_FALSE(set_->find("disk")->closed);
}

TEST_F(Restarts, keep_the_rate_limits_of_volumes) {
    start({.state = locked(folder_.file("state.json"))});
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

TEST_F(Restarts, do_not_recreate_storage_that_is_gone) {
    start({.state = locked(folder_.file("state.json"))});
    const std::string file = folder_.file("disk");
    const VolumeOptions disk{
        .name = "disk", .backend = "aio:" + file, .size = 1 << 20, .create = true, .declared = true};
    auto start_disk = [&] {
        EXPECT_TRUE(set_->declare({disk}));
        return set_->create(disk);
    };
    ASSERT_TRUE(start_disk());
    const Identity identity = set_->find("disk")->identity;
    std::filesystem::rename(file, file + ".unmounted");
    for (int starts = 0; starts < 2; ++starts) {
        restart();
        const Status absent = start_disk();
        EXPECT_EQ(absent.code(), Code::kRefused) << absent.to_string();
        EXPECT_NE(absent.text().find(file + " is gone"), std::string::npos) << absent.text();
        EXPECT_FALSE(std::filesystem::exists(file));
    }
    std::filesystem::rename(file + ".unmounted", file);
    restart();
    ASSERT_TRUE(start_disk());
    EXPECT_EQ(set_->find("disk")->identity, identity);
    std::filesystem::remove(file);
    restart();
    ASSERT_FALSE(start_disk());
    ASSERT_TRUE(set_->remove("disk"));
    restart();
    ASSERT_TRUE(start_disk()) << "the operator deleted it";
    EXPECT_NE(set_->find("disk")->identity.wwid, identity.wwid);
}

TEST_F(Restarts, create_storage_that_could_not_be_created_before) {
    start({.state = locked(folder_.file("state.json"))});
    std::filesystem::create_directory(folder_.file("later"));
    const VolumeOptions disk{.name = "disk",
                             .backend = "aio:" + folder_.file("missing") + "/disk",
                             .size = 1 << 20,
                             .create = true,
                             .declared = true};
    ASSERT_TRUE(set_->declare({disk}));
    ASSERT_FALSE(set_->create(disk));
    std::filesystem::rename(folder_.file("later"), folder_.file("missing"));
    restart();
    ASSERT_TRUE(set_->declare({disk}));
    ASSERT_TRUE(set_->create(disk));
    ASSERT_TRUE(set_->remove("disk"));
    std::filesystem::remove(folder_.file("missing") + "/disk");
    EXPECT_TRUE(set_->create(disk)) << "the operator deleted it";
}

}  // namespace
}  // namespace wss::volume
