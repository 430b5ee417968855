// SPDX-License-Identifier: Apache-2.0
// The reopening of a volume whose storage was lost, or that is given up.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/shared_storage.h"

namespace wss::volume {
namespace {

// An observer of the table that drops its data of a reopened volume.
class Forgetful final : public Observer {
  public:
    explicit Forgetful(VolumeTable& table) : table_(table) { table_.add_observer(*this); }
    ~Forgetful() override { table_.remove_observer(*this); }
    Status may_open(const Volume&) override {
        return refuses ? Status(Code::kRefused, "engines hold writes") : Status::ok();
    }
    void volume_changed(Change change, OpenVolume& volume) noexcept override {
        if (change == Change::kRemoved) replaced = volume.reopening();
        if (change == Change::kAccess) allowed.push_back(volume.access().of("anybody"));
    }
    void volume_reopens(OpenVolume&, std::shared_ptr<Reopening> reopening) noexcept override {
        if (dirty && !reopening->give_up_dirty()) return reopening->end(Status(Code::kRefused, "dirty"));
        if (fails && !reopening->look_only()) return reopening->end(Status(Code::kBusy, "recovering"));
        drops += !reopening->look_only();
        if (meanwhile && !reopening->look_only()) meanwhile();
        reopening->end(Status::ok());
    }
    bool dirty = false, fails = false, replaced = false, refuses = false;
    int drops = 0;
    std::vector<Permission> allowed;  // the permission after each change of access
    std::function<void()> meanwhile;  // called after the new backend was opened

  private:
    VolumeTable& table_;
};

TEST_F(OnSharedStorage, a_lost_volume_is_reopened_with_its_identity_and_settings) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(
        await([&](VolumeSet::Done done) { set_->set_access_async("a", {"anybody=ro"}, std::move(done)); }));
    const VolumeInfo before = *set_->find("a");
    shared_.changed(shared_.size, 0);
    while (permission() != Permission::kNone) reactor_.step();
    ASSERT_TRUE(reopen("a", {.steal = true}));
    EXPECT_EQ(permission(), Permission::kRead);
    EXPECT_EQ(set_->find("a")->identity, before.identity);
    EXPECT_EQ(set_->find("a")->size, before.size);
    EXPECT_TRUE(shared_.opened->steal && !shared_.opened->create);
    EXPECT_EQ(observer.drops, 1);
    EXPECT_TRUE(observer.replaced);
    // A later loss and the deletion work as for any volume.
    shared_.changed(shared_.size, 0);
    while (permission() != Permission::kNone) reactor_.step();
    ASSERT_TRUE(await([&](VolumeSet::Done done) { set_->remove_async("a", std::move(done)); }));
    EXPECT_FALSE(observer.replaced);
}

TEST_F(OnSharedStorage, a_reopened_volume_adopts_the_size_of_its_storage) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    ASSERT_TRUE(reopen("a"));
    others_resize(2 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20});
}

TEST_F(OnSharedStorage, a_volume_that_has_its_storage_is_not_reopened) {
    ASSERT_TRUE(create("a"));
    EXPECT_EQ(reopen("a").code(), Code::kInvalid);
    EXPECT_EQ(reopen("b").code(), Code::kNotFound);
    EXPECT_EQ(permission(), Permission::kWrite);
}

TEST_F(OnSharedStorage, a_refused_reopening_leaves_the_volume_unchanged) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    while (permission() != Permission::kNone) reactor_.step();
    shared_.refuses = true;
    EXPECT_EQ(reopen("a").code(), Code::kBusy);
    shared_.refuses = false;
    shared_.opened.reset();
    observer.dirty = true;
    EXPECT_EQ(reopen("a").code(), Code::kRefused);
    EXPECT_FALSE(shared_.opened) << "a refused reopening shuts out no owner";
    EXPECT_EQ(observer.drops, 0);
    EXPECT_EQ(permission(), Permission::kNone);
    ASSERT_TRUE(reopen("a", {.give_up_dirty = true}));
    EXPECT_EQ(observer.drops, 1);
    EXPECT_EQ(permission(), Permission::kWrite);
}

// Until all checks have passed, the owner may return.
TEST_F(OnSharedStorage, a_volume_that_waits_for_its_owner_is_given_up_after_all_checks_have_passed) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.awaits = true;
    EXPECT_EQ(reopen("a").code(), Code::kInvalid) << "the volume is not lost";
    shared_.elsewhere = true;
    EXPECT_FALSE(reopen("a", {.steal = true, .give_up_dirty = true}));
    shared_.elsewhere = false;
    shared_.refuses = true;
    EXPECT_EQ(reopen("a", {.give_up_dirty = true}).code(), Code::kBusy);
    shared_.refuses = false;
    EXPECT_FALSE(shared_.given_up);
    EXPECT_EQ(permission(), Permission::kWrite);
    shared_.left = 2 << 20;
    ASSERT_TRUE(reopen("a", {.give_up_dirty = true}));
    EXPECT_TRUE(shared_.given_up);
    EXPECT_EQ(observer.drops, 1);
    EXPECT_EQ(permission(), Permission::kWrite);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20}) << "not the size that the other owner has set";
}

// The size may be that of the wrong storage: without the operator's request the volume is not truncated.
TEST_F(OnSharedStorage, a_volume_that_is_given_up_does_not_adopt_a_size_that_was_never_accepted) {
    Forgetful observer(set_->table(0));
    observer.meanwhile = [this] {
        shared_.slow = true;
        shared_.offered = 512 << 10;
    };
    ASSERT_TRUE(create("a"));
    shared_.awaits = true;
    ASSERT_TRUE(reopen("a", {.give_up_dirty = true}));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

TEST_F(OnSharedStorage, a_volume_that_does_not_wait_for_its_owner_is_not_given_up) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    for (const bool slow : {false, true})
        for (const bool steal : {false, true}) {
            shared_.slow = slow;
            EXPECT_EQ(reopen("a", {.steal = steal, .give_up_dirty = true}).code(), Code::kInvalid);
        }
    EXPECT_EQ(observer.drops, 0);
    EXPECT_EQ(permission(), Permission::kWrite);
}

// The access list is on its way to the reactor when the storage is lost.
TEST_F(OnSharedStorage, an_access_list_does_not_open_a_volume_that_is_lost_before_it_arrives) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    std::optional<Status> set;
    set_->set_access_async("a", {"anybody=rw"}, [&](Status status) { set = std::move(status); });
    shared_.changed(shared_.size, 0);
    while (!set || permission() != Permission::kNone) reactor_.step();
    for (Permission allowed : observer.allowed) EXPECT_EQ(allowed, Permission::kNone);
}

// The loss is reported before the new volume replaces the old one in the table.
TEST_F(OnSharedStorage, a_volume_whose_new_client_is_shut_out_during_a_reopening_refuses_all_initiators) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    observer.meanwhile = [this] {
        shared_.taken = true;
        shared_.changed(shared_.size, 0);
    };
    EXPECT_EQ(reopen("a").code(), Code::kRefused);
    EXPECT_EQ(permission(), Permission::kNone);
    observer.meanwhile = {};
    shared_.taken = false;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(permission(), Permission::kWrite);
}

TEST_F(OnSharedStorage, a_volume_adopts_a_size_that_its_storage_gets_during_a_reopening) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    for (uint64_t bytes : {2 << 20, 512 << 10}) {
        shared_.changed(shared_.size, 0);
        const uint64_t before = shared_.size;
        observer.meanwhile = [this, before, bytes] {
            shared_.size = bytes;
            EXPECT_FALSE(shared_.changed(before, bytes)) << "the notice is not repeated";
        };
        ASSERT_TRUE(reopen("a"));
        EXPECT_TRUE(follows(before, bytes));
        EXPECT_EQ(set_->find("a")->size, bytes);
    }
}

// A command in flight delays the end of the old volume.
TEST_F(OnSharedStorage, a_reopening_that_outlasts_its_command_leaves_a_part_its_size) {
    make_set({.wait = from_ms(500)});
    ASSERT_TRUE(create("a", 512 << 10));
    others_resize(256 << 10);
    shared_.changed(256 << 10, 0);
    OpenVolume* old = set_->table(0).find(0);
    old->hold();
    shared_.left = 2 << 20;
    EXPECT_EQ(reopen("a").code(), Code::kTimedOut);
    old->release();
    const Nanoseconds deadline = clock_.now() + io::test::kPatience;
    while (set_->table(0).find(0) == nullptr && clock_.now() < deadline) reactor_.step();
    for (int i = 0; i < 10; ++i) reactor_.step();
    others_resize(3 << 20);
    EXPECT_EQ(set_->find("a")->size, uint64_t{256 << 10});
}

TEST_F(OnSharedStorage, settings_made_during_a_reopening_take_effect) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    observer.meanwhile = [this] {
        set_->set_access_async("a", {"anybody=ro"}, [](const Status&) {});
        set_->set_read_only_async("a", true, [](const Status&) {});
    };
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(permission(), Permission::kRead);
    EXPECT_EQ(set_->find("a")->access, std::vector<std::string>{"anybody=ro"});
    EXPECT_TRUE(set_->find("a")->read_only);
}

// The next start must not use the size in the configuration instead.
TEST_F(OnSharedStorage, a_start_uses_the_size_to_which_others_resized_a_lost_volume) {
    ASSERT_TRUE(create("a", 1 << 20, true));
    for (uint64_t bytes : {1 << 20, 512 << 10, 768 << 10}) {
        shared_.changed(shared_.size, 0);
        shared_.left = bytes;
        ASSERT_TRUE(reopen("a"));
        EXPECT_EQ(set_->find("a")->size, bytes);
    }
    ASSERT_TRUE(await([&](VolumeSet::Done done) { set_->remove_async("a", std::move(done)); }));
    ASSERT_TRUE(create("a", 1 << 20, true));
    EXPECT_EQ(set_->find("a")->size, uint64_t{768 << 10});
    EXPECT_FALSE(shared_.opened->grow);
}

// A client that lost only the lock, but is not shut out, still sees the size.
TEST_F(OnSharedStorage, a_lost_volume_that_covered_its_storage_is_reopened_with_the_new_size_of_the_storage) {
    ASSERT_TRUE(create("a"));
    for (uint64_t bytes : {512 << 10, 2 << 20}) {
        shared_.changed(shared_.size, 0);
        shared_.size = bytes;
        ASSERT_TRUE(reopen("a"));
        EXPECT_EQ(set_->find("a")->size, bytes);
    }
}

TEST_F(OnSharedStorage, a_lost_volume_that_was_a_part_of_its_storage_is_reopened_with_its_old_size) {
    ASSERT_TRUE(create("a", 512 << 10));
    shared_.changed(shared_.size, 0);
    shared_.size = 512 << 10;
    shared_.left = 2 << 20;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
}

// The operator's shrink got no answer, but it was performed.
TEST_F(OnSharedStorage, a_volume_that_adopts_a_growth_does_not_undo_it_for_an_unfinished_shrink) {
    ASSERT_TRUE(create("a"));
    shared_.silent = true;
    auto shrink = [&](VolumeSet::Done done) { set_->resize_async("a", 512 << 10, std::move(done)); };
    ASSERT_EQ(await(shrink).code(), Code::kTimedOut);
    shared_.silent = false;
    shared_.size = 512 << 10;
    const uint64_t before = std::exchange(shared_.size, 1 << 20);
    EXPECT_TRUE(follows(before, 1 << 20));
    EXPECT_EQ(shared_.size, uint64_t{1 << 20});
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
}

TEST_F(OnSharedStorage, a_volume_that_adopts_a_growth_does_not_undo_a_later_shrink) {
    ASSERT_TRUE(create("a"));
    shared_.size = 512 << 10;
    EXPECT_FALSE(shared_.changed(1 << 20, 2 << 20)) << "it is notified again";
    EXPECT_EQ(shared_.size, uint64_t{512 << 10}) << "others resized it";
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    others_resize(256 << 10);
}

TEST_F(OnSharedStorage, a_reopening_that_fails_to_drop_contents_shuts_out_no_owner) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    shared_.opened.reset();
    observer.fails = true;
    EXPECT_EQ(reopen("a", {.steal = true}).code(), Code::kBusy);
    EXPECT_FALSE(shared_.opened);
}

TEST_F(OnSharedStorage, a_reopening_that_cannot_shut_out_the_owner_drops_nothing) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    shared_.elsewhere = observer.dirty = true;
    EXPECT_EQ(reopen("a", {.steal = true, .give_up_dirty = true}).code(), Code::kInvalid);
    EXPECT_EQ(observer.drops, 0);
    ASSERT_TRUE(reopen("a", {.give_up_dirty = true}));
    EXPECT_EQ(observer.drops, 1);
}

// The size at the loss is not the one that the new volume was created with.
TEST_F(OnSharedStorage,
       a_volume_that_shrinks_and_is_lost_during_a_reopening_has_its_new_size_after_the_next_one) {
    Forgetful observer(set_->table(0));
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    observer.meanwhile = [this] {
        const uint64_t before = std::exchange(shared_.size, 512 << 10);
        shared_.taken = true;
        shared_.changed(before, 0);
    };
    EXPECT_EQ(reopen("a").code(), Code::kRefused);
    observer.meanwhile = {};
    shared_.taken = false;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
}

// If a file contained the shrink, a shrink after a start from it would truncate data that others have written
// since.
TEST_F(OnSharedStorage, a_reopening_saves_nothing_of_an_unfinished_shrink) {
    make_set(
        {.state = locked(folder_.file("state.json")), .write = [this](const StateLock&, const auto& volumes) {
             written_.push_back(volumes);
             return Status::ok();
         }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a"));
    shared_.silent = true;
    auto shrink = [&](VolumeSet::Done done) { set_->resize_async("a", 512 << 10, std::move(done)); };
    ASSERT_EQ(await(shrink).code(), Code::kTimedOut);
    ASSERT_EQ(written_.back().front().sizes.cut_from(), uint64_t{1 << 20});
    shared_.changed(shared_.size, 0);
    written_.clear();
    ASSERT_TRUE(reopen("a"));
    ASSERT_FALSE(written_.empty());
    for (const auto& volumes : written_) {
        EXPECT_FALSE(volumes.front().sizes.is_shrinking());
        EXPECT_EQ(volumes.front().sizes.cut_from(), 0u);
    }
}

// If the volume were reopened nevertheless, the next start would give the volume and the storage the size in
// the configuration.
TEST_F(OnSharedStorage, a_reopening_that_cannot_be_saved_leaves_the_volume_unchanged) {
    bool full = false;
    make_set({.state = locked(folder_.file("state.json")), .write = [&](const StateLock&, const auto&) {
                  return full ? Status::from_errno(ENOSPC, "state file") : Status::ok();
              }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a", 1 << 20, true));
    shared_.changed(shared_.size, 0);
    shared_.left = 512 << 10;
    full = true;
    EXPECT_EQ(reopen("a").sys_errno(), ENOSPC);
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    full = false;
    ASSERT_TRUE(reopen("a"));
    EXPECT_EQ(set_->find("a")->size, uint64_t{512 << 10});
}

// Earlier commands are still in progress, and the operator's command has stopped waiting.
TEST_F(OnSharedStorage, a_change_of_a_volume_that_is_being_reopened_is_refused_with_that_reason) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    OpenVolume* held = set_->table(0).find(0);
    held->hold();
    std::atomic<bool> over{false};
    std::thread control([&] {
        EXPECT_TRUE(set_->reopen("a", {}));
        over = true;
    });
    while (!held->closing()) reactor_.step();
    const Status again = set_->reopen("a", {});
    EXPECT_EQ(again.code(), Code::kBusy);
    EXPECT_NE(again.text().find("is being reopened"), std::string::npos) << again.text();
    EXPECT_FALSE(set_->find("a")->removing);
    held->release();
    while (!over) reactor_.step();
    control.join();
}

TEST_F(OnSharedStorage, a_removal_gives_up_a_reopening_that_waits_for_the_storage) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    shared_.meanwhile = [this] {
        EXPECT_FALSE(shared_.opened->given_up->load());
        set_->remove_async("a", [](const Status&) {});
        EXPECT_TRUE(shared_.opened->given_up->load());
    };
    EXPECT_EQ(reopen("a").code(), Code::kClosed);
}

// The reopening waits for a command of the old volume.
TEST_F(OnSharedStorage, a_stop_closes_a_volume_that_is_being_reopened) {
    ASSERT_TRUE(create("a"));
    shared_.changed(shared_.size, 0);
    OpenVolume* held = set_->table(0).find(0);
    held->hold();
    std::optional<Status> reopened;
    std::atomic<bool> over{false};
    std::thread control([&] {
        reopened = set_->reopen("a", {});
        over = true;
    });
    while (!held->closing()) reactor_.step();
    EXPECT_EQ(shared_.clients, 2);
    std::optional<Status> closed;
    set_->close_all_async([&](Status status) { closed = std::move(status); });
    for (int i = 0; i < 10; ++i) reactor_.step();
    EXPECT_FALSE(closed);
    held->release();
    while (!over || !closed) reactor_.step();
    control.join();
    EXPECT_EQ(reopened->code(), Code::kClosed);
    EXPECT_TRUE(*closed);
    EXPECT_EQ(set_->count(), 0u);
}

TEST_F(OnSharedStorage, a_stop_closes_a_volume_that_is_being_created) {
    VolumeOptions options;
    options.name = "a";
    options.backend = "any";
    std::optional<Status> created, closed;
    set_->create_async(options, [&](Status status) { created = std::move(status); });
    ASSERT_FALSE(created);
    set_->close_all_async([&](Status status) { closed = std::move(status); });
    while (!created || !closed) reactor_.step();
    EXPECT_EQ(created->code(), Code::kClosed);
    EXPECT_EQ(set_->count(), 0u);
    EXPECT_EQ(create("b").code(), Code::kClosed);
}

TEST_F(OnSharedStorage, a_stop_waits_for_a_volume_that_is_being_removed) {
    ASSERT_TRUE(create("a"));
    OpenVolume* held = set_->table(0).find(0);
    held->hold();
    std::optional<Status> removed, closed;
    set_->remove_async("a", [&](Status status) { removed = std::move(status); });
    set_->close_all_async([&](Status status) { closed = std::move(status); });
    for (int i = 0; i < 10; ++i) reactor_.step();
    EXPECT_FALSE(closed);
    held->release();
    while (!removed || !closed) reactor_.step();
    EXPECT_TRUE(*removed);
}

}  // namespace
}  // namespace wss::volume
