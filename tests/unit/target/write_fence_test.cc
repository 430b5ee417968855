// SPDX-License-Identifier: Apache-2.0
// After a change of the write permissions of a volume has returned, no write that the change forbids may take
// effect.
#include <atomic>
#include <thread>

#include "tests/unit/target/volume_fixture.h"

namespace wss::block::testing {
namespace {

class WriteFences : public VolumeFixture {
  protected:
    void use(WorldOptions options) {
        VolumeFixture::use(std::move(options));
        world_->add_volume("queue", "delay:us=1000000,op=write:ram:8M", kSize);
        world_->add_volume("memory", "ram:8M", kSize);
    }
    void SetUp() override { use({}); }
    void TearDown() override { clock_.advance(from_s(1)); }

    size_t in_storage() {
        size_t count = 0;
        for (size_t i = 0; i < world_->volumes().tables(); ++i)
            count += world_->volumes().table(i).find(0)->queue().in_flight();
        return count;
    }
    // Begins a write and returns when the target has requested its data, which does not arrive.
    uint64_t write_without_data(RawClient& client, uint64_t lun) {
        const uint64_t before = world_->service().sessions().totals().writes;
        const uint64_t tag = write(client, lun);
        EXPECT_TRUE(world_->until([&] {
            world_->clients_sleep = true;
            for (int i = 0; i < 50; ++i) world_->step();
            if (world_->service().sessions().totals().writes > before) return true;
            world_->clients_sleep = false;
            return false;
        }));
        return tag;
    }
    bool holds_write(RawClient& client, uint64_t lun) {
        EXPECT_EQ(world_->read(client, lun, 0, 8, 1 << 20, 4096).response.status, wire::kGood);
        return holds(client.memory() + (1 << 20), 4096, 1);
    }

    std::optional<Status> done_;
};

TEST_F(WriteFences, for_read_only_wait_for_writes_in_storage) {
    auto client = world_->client();
    const uint64_t tag = write(*client);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    world_->volumes().set_read_only_async("queue", true, into(done_));
    settle();
    EXPECT_FALSE(done_.has_value()) << "a write may still take effect";
    clock_.advance(from_s(1));
    ASSERT_TRUE(world_->until([&] { return done_.has_value(); }));
    EXPECT_TRUE(*done_);
    ASSERT_TRUE(world_->until([&] { return client->answered(tag); }));
    EXPECT_EQ(client->take(tag).response.status, wire::kGood) << "it was permitted when it began";
}

TEST_F(WriteFences, for_an_access_list_wait_only_for_writes_of_initiators_that_it_excludes) {
    use({.reactors = 2});
    // Without WSS_CAP_NOTIFY the next command would return a unit attention.
    auto refused = world_->client(1, WSS_CAP_NOTIFY), allowed = world_->client(2, WSS_CAP_NOTIFY);
    // The port id is the initiator's name.
    const std::string name = "0x02000000000000000000000000000000";
    write(*allowed);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    world_->volumes().set_access_async("queue", {name + "=rw", "*=ro"}, into(done_));
    ASSERT_TRUE(world_->until([&] { return done_.has_value(); })) << "no initiator is excluded";
    std::optional<Status> open, closed;
    world_->volumes().set_access_async("queue", {}, into(open));
    ASSERT_TRUE(world_->until([&] { return open.has_value(); }));
    write(*refused);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 2; }));
    world_->volumes().set_access_async("queue", {name + "=rw", "*=none"}, into(closed));
    settle();
    EXPECT_FALSE(closed.has_value());
    clock_.advance(from_s(1));
    ASSERT_TRUE(world_->until([&] { return closed.has_value(); }));
}

TEST_F(WriteFences, keep_a_write_that_has_not_begun_from_beginning) {
    auto client = world_->client(1, WSS_CAP_NOTIFY);
    const uint64_t tag = write_without_data(*client, 0);
    ASSERT_EQ(in_storage(), 0u);
    world_->volumes().set_read_only_async("queue", true, into(done_));
    ASSERT_TRUE(world_->until([&] { return done_.has_value(); })) << "there is nothing to wait for";
    world_->clients_sleep = false;
    ASSERT_TRUE(world_->until([&] { return client->answered(tag); }));
    EXPECT_EQ(client->take(tag).response.status, wire::kCheckCondition);
    EXPECT_FALSE(holds_write(*client, 0));
}

TEST_F(WriteFences, wait_for_a_write_into_memory_while_its_data_arrives) {
    auto client = world_->client(1, WSS_CAP_NOTIFY);
    const uint64_t tag = write_without_data(*client, 1);
    world_->volumes().set_read_only_async("memory", true, into(done_));
    settle();
    EXPECT_FALSE(done_.has_value());
    world_->clients_sleep = false;
    ASSERT_TRUE(world_->until([&] { return done_.has_value() && client->answered(tag); }));
    EXPECT_TRUE(holds_write(*client, 1));
}

TEST_F(WriteFences, end_a_command_of_several_writes_after_the_write_in_storage) {
    auto client = world_->client();
    const uint64_t tag = write_same(*client, 0, (1 << 20) / 512);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    world_->volumes().set_read_only_async("queue", true, into(done_));
    settle();
    EXPECT_FALSE(done_.has_value());
    clock_.advance(from_s(1));
    ASSERT_TRUE(world_->until([&] { return done_.has_value() && client->answered(tag); }));
    EXPECT_EQ(client->take(tag).response.status, wire::kCheckCondition);
}

TEST_F(WriteFences, each_wait_for_their_own_writes) {
    auto first = world_->client(1, WSS_CAP_NOTIFY), second = world_->client(2, WSS_CAP_NOTIFY);
    auto writes_of = [] { return std::make_shared<std::atomic<uint64_t>>(0); };
    const auto of_access = writes_of(), of_read_only = writes_of();
    const uint64_t early = write(*first, 0);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    world_->volumes().set_access_async("queue", {"0x02000000000000000000000000000000=rw", "*=ro"},
                                       into(done_), of_access);
    settle();
    advance(from_ms(500));
    const uint64_t late = write(*second, 0);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 2; }));
    std::optional<Status> read_only;
    world_->volumes().set_read_only_async("queue", true, into(read_only), of_read_only);
    settle();
    EXPECT_EQ(*of_access, 1u);
    EXPECT_EQ(*of_read_only, 2u) << "the writes that an earlier fence awaits too";
    EXPECT_FALSE(done_.has_value() || read_only.has_value());
    advance(from_ms(500));
    EXPECT_TRUE(world_->until([&] { return done_.has_value() && first->answered(early); }));
    settle();
    EXPECT_EQ(*of_access, 0u);
    EXPECT_EQ(*of_read_only, 1u);
    EXPECT_FALSE(read_only.has_value());
    advance(from_ms(500));
    EXPECT_TRUE(world_->until([&] { return read_only.has_value() && second->answered(late); }));
}

TEST_F(WriteFences, wait_for_the_last_write_even_if_the_volume_is_removed) {
    auto client = world_->client();
    write(*client);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    world_->volumes().set_read_only_async("queue", true, into(done_));
    settle();
    std::optional<Status> removed;
    world_->volumes().remove_async("queue", into(removed));
    settle();
    EXPECT_FALSE(done_.has_value());
    clock_.advance(from_s(1));
    ASSERT_TRUE(world_->until([&] { return done_.has_value() && removed.has_value(); }));
}

TEST_F(WriteFences, still_count_the_writes_in_storage_of_a_lost_connection) {
    auto client = world_->client();
    write(*client);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 1; }));
    client->close();
    ASSERT_TRUE(world_->until([&] { return client->closed(); }));
    settle();
    world_->volumes().set_read_only_async("queue", true, into(done_));
    settle();
    EXPECT_FALSE(done_.has_value());
    clock_.advance(from_s(1));
    ASSERT_TRUE(world_->until([&] { return done_.has_value(); }));
}

TEST_F(WriteFences, end_their_wait_for_silent_storage_with_the_number_of_writes) {
    use({.volumes = {.wait = from_ms(300)}});
    auto client = world_->client();
    write(*client);
    write(*client);
    ASSERT_TRUE(world_->until([&] { return in_storage() == 2; }));
    std::atomic<bool> over{false};
    Status result;
    std::thread operator_thread([&] {
        result = world_->volumes().set_read_only("queue", true);
        over = true;
    });
    EXPECT_TRUE(world_->until([&] { return over.load(); }));
    operator_thread.join();
    EXPECT_EQ(result.code(), Code::kTimedOut);
    EXPECT_NE(result.text().find("2 earlier writes are still in flight"), std::string::npos) << result.text();
    EXPECT_TRUE(world_->volumes().find("queue")->read_only) << "the change remains";
    clock_.advance(from_s(1));
    settle();
}

}  // namespace
}  // namespace wss::block::testing
