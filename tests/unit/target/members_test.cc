// SPDX-License-Identifier: Apache-2.0
// Members: which membership a restart may find.
#include "target/cache/members.h"

#include <gtest/gtest.h>

namespace wss::cache {
namespace {

// The test decides when saves end, and with which status.
class SlowStore final : public MembershipStore {
  public:
    explicit SlowStore(std::string& text) : text_(text) {}
    Result<std::string> load() override { return text_; }
    void save(std::string text, std::function<void(Status)> done) override {
        saving = std::move(text);
        done_ = std::move(done);
    }
    bool is_stable() const noexcept override { return true; }
    bool busy() const noexcept { return done_ != nullptr; }
    void end(Status status) {
        if (status) text_ = saving;
        std::exchange(done_, nullptr)(std::move(status));
    }

    std::string saving;

  private:
    std::string& text_;
    std::function<void(Status)> done_;
};

class MembersRecord : public ::testing::Test, private MembersObserver {
  protected:
    void membership_saved() override { ++saved_; }
    void end_turn() { members_.turn(); }
    Membership saving() const { return *Membership::parse(store_->saving); }
    void save(Status how = Status::ok()) {
        members_.save();
        end_turn();
        store_->end(std::move(how));
    }
    static Status full() { return Status::from_errno(ENOSPC, "save"); }

    std::string text_;
    Turn turn_;
    SlowStore* store_ = new SlowStore(text_);
    int saved_ = 0;
    Members members_{std::unique_ptr<MembershipStore>(store_), turn_, *this};
};

TEST_F(MembersRecord, saves_all_changes_of_a_turn_together) {
    members_.edit().dirty[1] = {.name = "a"};
    members_.save();
    EXPECT_FALSE(store_->busy());
    EXPECT_TRUE(members_.pending());
    EXPECT_TRUE(turn_.wanted());
    members_.edit().given_up.insert(1);
    members_.save();
    end_turn();
    ASSERT_TRUE(store_->busy());
    EXPECT_TRUE(saving() == members_.now());
    store_->end(Status::ok());
    EXPECT_FALSE(members_.pending());
    EXPECT_EQ(saved_, 1);
}

TEST_F(MembersRecord, saves_a_change_during_a_save_in_the_next_turn) {
    members_.edit().dirty[1] = {.name = "a"};
    members_.save();
    end_turn();
    members_.edit().dirty[2] = {.name = "b"};
    members_.save();
    store_->end(Status::ok());
    EXPECT_TRUE(members_.pending());
    EXPECT_EQ(saved_, 0);
    end_turn();
    EXPECT_EQ(saving().dirty.size(), 2u);
    store_->end(Status::ok());
    EXPECT_FALSE(members_.pending());
    EXPECT_EQ(saved_, 1);
}

class MembersEnd : public MembersRecord, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Fails, MembersEnd, ::testing::Bool());

TEST_P(MembersEnd, is_saved_after_a_save_that_was_in_progress) {
    members_.edit().dirty[1] = {.name = "a"};
    members_.save();
    end_turn();
    members_.edit().dirty[2] = {.name = "b"};
    members_.save();
    members_.conclude();
    store_->end(GetParam() ? full() : Status::ok());
    members_.retry();
    EXPECT_TRUE(members_.pending());
    end_turn();
    ASSERT_TRUE(store_->busy());
    EXPECT_EQ(saving().dirty.size(), 2u);
    store_->end(Status::ok());
    EXPECT_FALSE(members_.pending());
}

TEST_F(MembersRecord, saves_no_change_after_the_final_save) {
    CachedVolume volume{.wwid = 1};
    members_.edit().dirty[1] = {.name = "a"};
    save();
    members_.conclude();
    members_.edit().dirty.erase(1);
    members_.save();
    end_turn();
    EXPECT_FALSE(store_->busy());
    EXPECT_FALSE(members_.pending());
    EXPECT_EQ(members_.now().dirty.size(), 1u);
    int refused = 0;
    auto busy = [&](const Status& status) { refused += status.code() == Code::kBusy; };
    members_.record(busy);
    members_.probe(volume, busy);
    EXPECT_EQ(refused, 2);
}

// The file may have been replaced although the sync of its folder failed.
TEST_F(MembersRecord, that_could_not_be_saved_delays_writes_until_another_save_succeeds) {
    CachedVolume volume{.wwid = 1};
    members_.edit().dirty[1] = {.name = "a"};
    members_.edit().engines[7] = 3;
    save(full());
    members_.edit().dirty.clear();
    members_.edit().engines.clear();
    save(full());
    EXPECT_TRUE(members_.delays(volume));
    EXPECT_TRUE(members_.counts_when_saved(7, 3));
    save();
    EXPECT_FALSE(members_.delays(volume));
    EXPECT_FALSE(members_.counts_when_saved(7, 3));
}

TEST_F(MembersRecord, that_is_being_saved_delays_writes_that_it_would_undo) {
    CachedVolume volume{.wwid = 1};
    members_.edit().dirty[1] = {.name = "a"};
    members_.save();
    end_turn();
    members_.edit().dirty.clear();
    members_.save();
    EXPECT_TRUE(members_.delays(volume));
    store_->end(Status::ok());
    EXPECT_TRUE(members_.delays(volume)) << "a restart would find it";
    end_turn();
    store_->end(Status::ok());
    EXPECT_FALSE(members_.delays(volume));
}

TEST_F(MembersRecord, is_left_unchanged_by_a_failed_probe) {
    CachedVolume volume;
    save();
    Status told;
    members_.probe(volume, [&](const Status& status) { told = status; });
    store_->end(full());
    EXPECT_FALSE(told);
    EXPECT_FALSE(members_.pending());
}

TEST_F(MembersRecord, ends_a_probe_with_its_volume) {
    CachedVolume volume;
    save();
    int told = 0;
    members_.probe(volume, [&](const Status& status) { told += status ? 100 : 1; });
    bool gone = false;
    volume.gate.close([&] { gone = true; });
    EXPECT_FALSE(gone);
    members_.wait_no_more(volume);
    EXPECT_TRUE(gone);
    store_->end(Status::ok());
    EXPECT_EQ(told, 1);
}

}  // namespace
}  // namespace wss::cache
