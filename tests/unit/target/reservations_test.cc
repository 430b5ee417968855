// SPDX-License-Identifier: Apache-2.0
// Persistent reservations over SRP: several initiators, channels and reactors.
#include <filesystem>
#include <fstream>

#include "tests/unit/io/harness.h"
#include "tests/unit/target/volume_fixture.h"
#include "tests/unit/volume/locked.h"

namespace wss::block::testing {
namespace {

constexpr uint8_t kWriteExclusiveRegistrants = 5, kExclusiveAccess = 3;

class Reservations : public VolumeFixture {
  protected:
    void start(WorldOptions options = {}, const std::string& backend = "ram:8M") {
        use(std::move(options), Time::kReal);
        world_->add_volume("v", backend, kSize);
    }
    static std::vector<byte> order(uint8_t action, uint8_t type = 0) {
        return cdb({0x5f, action, type, 0, 0, 0, 0, 0, 24, 0});
    }
    static std::array<byte, 24> list(uint64_t key, uint64_t action_key, uint8_t flags = 0) {
        std::array<byte, 24> list{};
        wire::put64(list.data(), key);
        wire::put64(list.data() + 8, action_key);
        list[20] = byte{flags};
        return list;
    }
    uint64_t begin(RawClient& client, uint8_t action, uint64_t key, uint64_t action_key, uint8_t type,
                   uint8_t flags = 0) {
        const auto bytes = list(key, action_key, flags);
        std::ranges::copy(bytes, client.memory() + kListAt);
        return client.start(0, order(action, type), Direction::kOut, {client.remote(kListAt, 24)});
    }
    Answer end(RawClient& client, uint64_t tag) {
        EXPECT_TRUE(world_->until([&] { return client.answered(tag); }));
        return client.take(tag);
    }
    uint8_t reserve(RawClient& client, uint8_t action, uint64_t key, uint64_t action_key = 0,
                    uint8_t type = 0, uint8_t flags = 0) {
        return end(client, begin(client, action, key, action_key, type, flags)).response.status;
    }
    void enroll(RawClient& client, uint64_t key) {
        ASSERT_EQ(reserve(client, wire::kRegister, 0, key), wire::kGood);
    }
    uint8_t try_write(RawClient& client) { return world_->write(client, 0, 0, 8, 0, 4096).response.status; }
    uint8_t try_read(RawClient& client) { return world_->read(client, 0, 0, 8, 0, 4096).response.status; }
    // Returns text such as "06/2a/05", or "" if the command succeeds.
    std::string attention(RawClient& client) {
        Answer answer = world_->run(client, 0, cdb({0}), Direction::kNone, {});
        if (answer.response.status != wire::kCheckCondition) return "";
        const wire::Sense sense = answer.parsed_sense();
        return fmt::format("{:02x}/{:02x}/{:02x}", static_cast<uint8_t>(sense.key), wire::asc(sense.code),
                           wire::ascq(sense.code));
    }
    size_t keys(RawClient& client, uint64_t lun = 0) {
        Answer answer = world_->run(client, lun, cdb({0x5e, 0, 0, 0, 0, 0, 0, 4, 0, 0}), Direction::kIn,
                                    {client.remote(kListAt, 1024)});
        EXPECT_EQ(answer.response.status, wire::kGood);
        return wire::get32(client.memory() + kListAt + 4) / 8;
    }
    std::string file() {
        const std::string path = folder_.file("disk");
        std::ofstream(path).put('\0');
        std::filesystem::resize_file(path, kSize);
        return "aio:" + path;
    }

    static constexpr size_t kListAt = 2 << 20;
    io::test::TemporaryFolder folder_;
};

TEST_F(Reservations, exclude_unregistered_initiators_on_every_reactor) {
    start({.reactors = 2});
    auto holder = world_->client(1, WSS_CAP_NOTIFY);
    auto holder_too = world_->client(1, WSS_CAP_NOTIFY, true);
    auto member = world_->client(2);
    auto unregistered = world_->client(3);
    auto unregistered_too = world_->client(3, 0, true);
    EXPECT_EQ(try_write(*unregistered), wire::kGood);
    enroll(*holder, 1);
    enroll(*member, 2);
    ASSERT_EQ(reserve(*holder_too, wire::kReserve, 1, 0, kWriteExclusiveRegistrants), wire::kGood);
    for (RawClient* client : {holder.get(), holder_too.get(), member.get()})
        EXPECT_EQ(try_write(*client), wire::kGood);
    for (RawClient* client : {unregistered.get(), unregistered_too.get()}) {
        EXPECT_EQ(try_write(*client), wire::kReservationConflict);
        EXPECT_EQ(try_read(*client), wire::kGood);
    }
    // This also holds for initiators that log in later.
    EXPECT_EQ(try_write(*world_->client(4)), wire::kReservationConflict);
    ASSERT_EQ(reserve(*holder, wire::kRelease, 1, 0, kWriteExclusiveRegistrants), wire::kGood);
    EXPECT_EQ(try_write(*unregistered), wire::kGood);
    EXPECT_EQ(attention(*member), "06/2a/04");
    EXPECT_EQ(attention(*member), "");
    EXPECT_EQ(attention(*unregistered), "");
}

TEST_F(Reservations, persist_across_the_next_login_of_the_initiator) {
    start();
    auto holder = world_->client(1);
    enroll(*holder, 1);
    ASSERT_EQ(reserve(*holder, wire::kReserve, 1, 0, kExclusiveAccess), wire::kGood);
    holder->close();
    ASSERT_TRUE(world_->until([&] { return holder->closed(); }));
    auto unregistered = world_->client(2);
    EXPECT_EQ(try_read(*unregistered), wire::kReservationConflict);
    auto again = world_->client(1);
    EXPECT_EQ(try_write(*again), wire::kGood);
    EXPECT_EQ(reserve(*again, wire::kRelease, 1, 0, kExclusiveAccess), wire::kGood);
}

TEST_F(Reservations, can_be_made_with_immediate_data) {
    start();
    auto client = world_->client(1);
    const auto bytes = list(0, 1);
    const uint64_t tag = client->start_immediate(0, order(wire::kRegister), bytes);
    EXPECT_EQ(end(*client, tag).response.status, wire::kGood);
    EXPECT_EQ(keys(*client), 1u);
}

TEST_F(Reservations, end_the_commands_of_the_victim_of_preempt_and_abort) {
    start({}, "delay:us=200000,op=read:ram:8M");
    auto victim = world_->client(1, WSS_CAP_NOTIFY);
    auto other = world_->client(2, WSS_CAP_NOTIFY);
    auto bystander = world_->client(3, WSS_CAP_NOTIFY);
    enroll(*victim, 1);
    enroll(*other, 2);
    ASSERT_EQ(reserve(*victim, wire::kReserve, 1, 0, kWriteExclusiveRegistrants), wire::kGood);
    const auto of_victim = reads(*victim, 0, 4);
    const auto of_bystander = reads(*bystander, 0, 1);
    arrived(8);
    EXPECT_EQ(reserve(*other, wire::kPreemptAndAbort, 2, 1, kWriteExclusiveRegistrants), wire::kGood);
    ASSERT_TRUE(world_->until([&] { return answered(*victim, of_victim) == 4; }));
    for (uint64_t tag : of_victim) EXPECT_EQ(victim->take(tag).response.status, wire::kTaskAborted);
    EXPECT_EQ(end(*bystander, of_bystander[0]).response.status, wire::kGood);
    EXPECT_EQ(try_write(*victim), wire::kReservationConflict);
    EXPECT_EQ(attention(*victim), "06/2a/05");
    EXPECT_EQ(keys(*victim), 1u);
}

TEST_F(Reservations, let_no_write_of_a_victim_take_effect_after_the_response_to_preempt) {
    start({}, "delay:us=50000,op=write:ram:8M");
    auto victim = world_->client(1);
    auto other = world_->client(2);
    enroll(*victim, 1);
    enroll(*other, 2);
    ASSERT_EQ(reserve(*victim, wire::kReserve, 1, 0, kWriteExclusiveRegistrants), wire::kGood);
    std::vector<uint64_t> writes;
    for (int i = 0; i < 8; ++i) writes.push_back(write(*victim));
    arrived(11);
    ASSERT_EQ(reserve(*other, wire::kPreempt, 2, 1, kWriteExclusiveRegistrants), wire::kGood);
    fill(other->memory(), 4096, 2);
    ASSERT_EQ(world_->write(*other, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    ASSERT_TRUE(world_->until([&] { return answered(*victim, writes) == writes.size(); }));
    settle();
    ASSERT_EQ(world_->read(*other, 0, 0, 8, 8192, 4096).response.status, wire::kGood);
    EXPECT_TRUE(holds(other->memory() + 8192, 4096, 2));
}

TEST_F(Reservations, take_effect_even_if_the_initiator_does_not_wait_for_the_response) {
    start({}, "delay:us=100000,op=write:ram:8M");
    auto victim = world_->client(1);
    auto other = world_->client(2);
    enroll(*victim, 1);
    enroll(*other, 2);
    write(*victim);
    arrived(3);
    settle();
    begin(*other, wire::kReserve, 2, 0, kExclusiveAccess);  // waits for the write
    settle();
    other->close();
    ASSERT_TRUE(world_->until([&] { return other->closed(); }));
    auto unregistered = world_->client(3);
    EXPECT_EQ(try_write(*unregistered), wire::kReservationConflict);
    ASSERT_TRUE(world_->until([&] { return world_->service().sessions().count() == 2; }));
}

TEST_F(Reservations, cannot_be_made_by_a_read_only_initiator) {
    start();
    auto client = world_->client(1);
    finish([&](auto done) { world_->volumes().set_access_async("v", {"*=ro"}, std::move(done)); });
    attention(*client);
    EXPECT_EQ(reserve(*client, wire::kRegister, 0, 1), wire::kCheckCondition);
    EXPECT_EQ(keys(*client), 0u);
}

TEST_F(Reservations, of_a_deleted_volume_are_forgotten) {
    const std::string backend = file();
    start({}, backend);
    auto client = world_->client(1, WSS_CAP_NOTIFY);
    enroll(*client, 1);
    finish([&](auto done) { world_->volumes().remove_async("v", std::move(done)); });
    settle();
    world_->add_volume("v", backend, kSize);  // the volume has the same WWID as before
    EXPECT_EQ(keys(*client, world_->volumes().find("v")->identity.lun), 0u);
}

TEST_F(Reservations, persist_across_a_restart_of_the_target) {
    const std::string backend = file();
    for (bool is_first : {true, false}) {
        WorldOptions options;
        options.volumes.state = volume::locked(folder_.file("state"));
        options.service.reservations = *volume::ReservationBook::open(options.volumes.state);
        use(std::move(options), Time::kReal);
        ASSERT_TRUE(world_->volumes().restore());
        const volume::VolumeOptions declared{
            .name = "v", .backend = backend, .size = kSize, .declared = true};
        ASSERT_TRUE(world_->volumes().declare({declared}));
        std::optional<Status> opened;
        world_->volumes().create_async(declared, into(opened));
        ASSERT_TRUE(world_->until([&] { return opened.has_value(); }));
        ASSERT_TRUE(*opened) << opened->to_string();
        auto holder = world_->client(1);
        if (is_first) {
            ASSERT_EQ(reserve(*holder, wire::kRegister, 0, 1, 0, 1), wire::kGood) << "APTPL";
            ASSERT_EQ(reserve(*holder, wire::kReserve, 1, 0, kExclusiveAccess), wire::kGood);
        }
        EXPECT_EQ(try_write(*holder), wire::kGood);
        EXPECT_EQ(try_read(*world_->client(2)), wire::kReservationConflict);
        holder.reset();
        world_.reset();
    }
}

TEST_F(Reservations, are_refused_with_aptpl_if_they_cannot_persist) {
    start({}, file());
    auto client = world_->client(1);
    EXPECT_EQ(reserve(*client, wire::kRegister, 0, 1, 0, 1), wire::kCheckCondition);
    EXPECT_EQ(reserve(*client, wire::kRegister, 0, 1), wire::kGood);
}

// With arbitrary parameters the target survives and rejects the command.
TEST_F(Reservations, cannot_be_made_by_hostile_commands) {
    start();
    auto client = world_->client(1);
    for (uint32_t length : {0u, 23u, 25u, 4096u, 0xffffffffu}) {
        std::vector<byte> bytes = order(wire::kRegister);
        wire::put32(bytes.data() + 5, length);
        const uint32_t sent = std::min(length, 4096u);
        Answer answer =
            world_->run(*client, 0, bytes, sent > 0 ? Direction::kOut : Direction::kNone,
                        sent > 0 ? std::vector{client->remote(0, sent)} : std::vector<wire::RemoteBuffer>());
        EXPECT_EQ(answer.response.status, wire::kCheckCondition) << length;
    }
    // The parameter list is shorter than the length in the CDB.
    Answer answer = world_->run(*client, 0, order(wire::kRegister), Direction::kOut, {client->remote(0, 8)});
    EXPECT_EQ(answer.response.status, wire::kCheckCondition);
    for (int action = 0; action < 32; ++action)
        for (int type = 0; type < 256; type += 5)
            reserve(*client, uint8_t(action), 1, 2, uint8_t(type), 0xff);
    EXPECT_EQ(keys(*client), 0u);
}

}  // namespace
}  // namespace wss::block::testing
