// SPDX-License-Identifier: Apache-2.0
// Access lists: which volumes an initiator sees, may read and may write. Changes take effect at once.
#include "target/volume/access.h"

#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using volume::AccessList;
using volume::Permission;

constexpr const char* kFirst = "0x01000000000000000000000000000000";  // the port ids that World uses
constexpr const char* kSecond = "0x02000000000000000000000000000000";

TEST(AccessLists, give_an_unnamed_initiator_the_permission_of_the_star_or_none) {
    EXPECT_EQ(AccessList().of("anyone"), Permission::kWrite);
    auto list = *AccessList::parse({"a=rw", "b=ro", "c=none"});
    EXPECT_EQ(list.of("a"), Permission::kWrite);
    EXPECT_EQ(list.of("b"), Permission::kRead);
    EXPECT_EQ(list.of("c"), Permission::kNone);
    EXPECT_EQ(list.of("d"), Permission::kNone);
    auto with_star = *AccessList::parse({"*=ro", "a=rw", "c=none"});
    EXPECT_EQ(with_star.of("a"), Permission::kWrite);
    EXPECT_EQ(with_star.of("c"), Permission::kNone);
    EXPECT_EQ(with_star.of("d"), Permission::kRead);
}

TEST(AccessLists, with_invalid_rules_are_refused) {
    for (const char* word : {"a", "a=", "a=RW", "=rw", "a b=rw", "*"})
        EXPECT_FALSE(AccessList::parse({word}).is_ok()) << word;
    EXPECT_FALSE(AccessList::parse({"a=rw", "a=ro"}).is_ok());
}

class Access : public ::testing::Test {
  protected:
    void SetUp() override {
        world.add_volume("v0", "ram:4M", 4 << 20);
        world.add_volume("v1", "ram:4M", 4 << 20);
    }
    void allow(const std::string& name, const std::vector<std::string>& words) {
        bool done = false;
        world.volumes().set_access_async(name, words, [&](Status status) {
            EXPECT_TRUE(status.is_ok()) << status.to_string();
            done = true;
        });
        ASSERT_TRUE(world.until([&] { return done; }));
    }
    std::vector<uint64_t> luns(RawClient& client) {
        auto answer = world.run(client, 0, cdb({0xa0, 0, 0, 0, 0, 0, 0, 0, 16, 0}),
                                wire::CommandRequest::Direction::kIn, {client.remote(0, 4096)});
        EXPECT_EQ(answer.response.status, wire::kGood);
        std::vector<uint64_t> found;
        for (uint32_t at = 0; at < wire::get32(client.memory()); at += 8)
            found.push_back(wire::decode_lun(client.memory() + 8 + at));
        return found;
    }
    wire::AdditionalSense failure_of(const Answer& answer) {
        EXPECT_EQ(answer.response.status, wire::kCheckCondition);
        return answer.parsed_sense().code;
    }
    World world;
};

TEST_F(Access, limited_to_others_makes_a_volume_invisible) {
    allow("v1", {std::string(kSecond) + "=rw"});
    auto first = world.client(1, WSS_CAP_ALL), second = world.client(2, WSS_CAP_ALL);
    EXPECT_EQ(luns(*first), (std::vector<uint64_t>{0}));
    EXPECT_EQ(luns(*second), (std::vector<uint64_t>{0, 1}));
    EXPECT_EQ(failure_of(world.read(*first, 1, 0, 1, 0, 512)), wire::AdditionalSense::kLunNotSupported);
    EXPECT_EQ(failure_of(world.write(*first, 1, 0, 1, 0, 512)), wire::AdditionalSense::kLunNotSupported);
    EXPECT_EQ(world.write(*second, 1, 0, 1, 0, 512).response.status, wire::kGood);
}

TEST_F(Access, that_is_read_only_answers_every_kind_of_write_with_data_protect) {
    allow("v0", {"*=ro", std::string(kSecond) + "=rw"});
    auto first = world.client(1, WSS_CAP_ALL), second = world.client(2, WSS_CAP_ALL);
    fill(second->memory(), 4096, 5);
    ASSERT_EQ(world.write(*second, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    auto answer = world.write(*first, 0, 0, 8, 0, 4096);
    EXPECT_EQ(answer.parsed_sense().key, wire::SenseKey::kDataProtect);
    EXPECT_EQ(failure_of(answer), wire::AdditionalSense::kWriteProtected);
    std::vector<byte> data(512);
    uint64_t tag = first->start_immediate(0, cdb_write16(0, 1), data);
    ASSERT_TRUE(world.until([&] { return first->answered(tag); }));
    EXPECT_EQ(failure_of(first->take(tag)), wire::AdditionalSense::kWriteProtected);
    for (auto words :
         {cdb({0x42, 0, 0, 0, 0, 0, 0, 0, 24}), cdb({0x93, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}),
          cdb({0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1})})
        EXPECT_EQ(failure_of(world.run(*first, 0, words, wire::CommandRequest::Direction::kOut,
                                       {first->remote(0, 4096)})),
                  wire::AdditionalSense::kWriteProtected);
    EXPECT_EQ(world.read(*first, 0, 0, 8, 0, 4096).response.status, wire::kGood);
    EXPECT_TRUE(holds(first->memory(), 4096, 5));
}

TEST_F(Access, that_changes_applies_to_the_next_command_and_initiators_are_notified) {
    auto ours = world.client(1, WSS_CAP_NOTIFY), stock = world.client(2);
    EXPECT_EQ(world.write(*ours, 0, 0, 1, 0, 512).response.status, wire::kGood);
    allow("v0", {"*=ro"});
    EXPECT_EQ(failure_of(world.write(*ours, 0, 0, 1, 0, 512)), wire::AdditionalSense::kWriteProtected);
    ASSERT_TRUE(world.until([&] { return ours->others.size() == 1; }));
    wire::Notify notify;
    EXPECT_EQ(wire::parse_notify(ours->others[0], notify), wire::ParseError::kNone);
    auto attention = failure_of(world.read(*stock, 0, 0, 1, 0, 512));
    EXPECT_TRUE(attention == wire::AdditionalSense::kReportedLunsChanged ||
                attention == wire::AdditionalSense::kModeParametersChanged);
    allow("v0", {"nobody=rw"});
    EXPECT_EQ(failure_of(world.read(*ours, 0, 0, 1, 0, 512)), wire::AdditionalSense::kLunNotSupported);
    allow("v0", {});
    EXPECT_EQ(world.write(*ours, 0, 0, 1, 0, 512).response.status, wire::kGood);
}

// Only initiators with access to a volume are notified when it is created, changed or deleted.
TEST_F(Access, limited_to_others_prevents_notifications_of_any_kind_about_a_volume) {
    allow("v1", {std::string(kSecond) + "=rw"});
    auto first = world.client(1, WSS_CAP_NOTIFY), stock = world.client(3);
    auto second = world.client(2, WSS_CAP_NOTIFY);
    auto finish = [&](auto&& start) {
        bool done = false;
        start([&](Status status) {
            EXPECT_TRUE(status.is_ok()) << status.to_string();
            done = true;
        });
        ASSERT_TRUE(world.until([&] { return done; }));
    };
    finish([&](auto done) { world.volumes().resize_async("v1", 2 << 20, done); });
    finish([&](auto done) { world.volumes().set_read_only_async("v1", true, done); });
    allow("v1", {std::string(kSecond) + "=ro"});
    finish([&](auto done) { world.volumes().remove_async("v1", done); });
    finish([&](auto done) {
        world.volumes().create_async({.name = "v2",
                                      .backend = "ram:1M",
                                      .size = 1 << 20,
                                      .block_size = 512,
                                      .access = {std::string(kSecond) + "=rw"}},
                                     done);
    });
    ASSERT_TRUE(world.until([&] { return second->others.size() == 5; })) << "the owner receives each one";
    EXPECT_EQ(world.read(*first, 0, 0, 1, 0, 512).response.status, wire::kGood);
    EXPECT_TRUE(first->others.empty());
    EXPECT_EQ(world.read(*stock, 0, 0, 1, 0, 512).response.status, wire::kGood) << "no unit attention";
}

TEST_F(Access, that_is_given_or_withdrawn_is_notified_to_the_affected_initiators) {
    auto first = world.client(1, WSS_CAP_NOTIFY), second = world.client(2, WSS_CAP_NOTIFY);
    auto stock = world.client(3);
    allow("v1", {std::string(kSecond) + "=rw"});
    ASSERT_TRUE(world.until([&] { return first->others.size() == 1; })) << "it had access before";
    EXPECT_TRUE(second->others.empty()) << "its access did not change";
    EXPECT_EQ(failure_of(world.read(*stock, 0, 0, 1, 0, 512)), wire::AdditionalSense::kReportedLunsChanged);
    allow("v1", {});
    ASSERT_TRUE(world.until([&] { return first->others.size() == 2; })) << "it has access again";
    EXPECT_EQ(failure_of(world.read(*stock, 0, 0, 1, 0, 512)), wire::AdditionalSense::kReportedLunsChanged);
}

TEST_F(Access, that_is_read_only_permits_resets_of_own_commands_only) {
    world.add_volume("slow", "delay:us=500000:ram:4M", 4 << 20);
    allow("slow", {"*=ro", std::string(kSecond) + "=rw"});
    auto reader = world.client(1), writer = world.client(2);
    const uint64_t write =
        writer->start(2, cdb_write16(0, 8), wire::CommandRequest::Direction::kOut, {writer->remote(0, 4096)});
    const uint64_t read =
        reader->start(2, cdb_read16(0, 8), wire::CommandRequest::Direction::kIn, {reader->remote(0, 4096)});
    ASSERT_TRUE(world.until([&] { return world.totals().commands == 2; }));
    for (uint8_t function : {WSS_SRP_TSK_LUN_RESET, WSS_SRP_TSK_CLEAR_TASK_SET, WSS_SRP_TSK_ABORT_TASK_SET}) {
        std::array<byte, 48> message;
        const uint64_t tag = 1000u + function;
        wire::encode_task_management({.tag = tag, .lun = 2, .function = function}, message);
        reader->send(message);
        ASSERT_TRUE(world.until([&] { return reader->answered(tag); }));
        EXPECT_EQ(reader->take(tag).response.task_status, WSS_SRP_TSK_MGMT_SUCCESS);
    }
    EXPECT_FALSE(reader->answered(read));
    ASSERT_TRUE(world.until([&] { return writer->answered(write); }));
    EXPECT_EQ(writer->take(write).response.status, wire::kGood);
    EXPECT_EQ(world.read(*writer, 2, 0, 8, 0, 4096).response.status, wire::kGood) << "no unit attention";
}

TEST_F(Access, that_changes_is_notified_on_another_channel_when_the_first_is_lost) {
    auto first = world.client(1, WSS_CAP_NOTIFY), second = world.client(1, WSS_CAP_NOTIFY, true);
    allow("v0", {"*=ro"});
    ASSERT_TRUE(world.until([&] { return first->others.size() == 1; }));
    EXPECT_TRUE(second->others.empty()) << "one channel notifies for all";
    first->close();
    ASSERT_TRUE(world.until([&] { return second->others.size() == 1; })) << "it must rescan everything";
    wire::Notify notify;
    EXPECT_EQ(wire::parse_notify(second->others[0], notify), wire::ParseError::kNone);
    EXPECT_EQ(notify.event, 0);
    allow("v0", {});
    EXPECT_TRUE(world.until([&] { return second->others.size() == 2; }));
}

}  // namespace
}  // namespace wss::block::testing
