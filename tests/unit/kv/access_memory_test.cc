// SPDX-License-Identifier: Apache-2.0
// Clients that may not read every key cannot reach the memory of a partition by any means.
#include <unistd.h>

#include "tests/unit/kv/access_fixture.h"

namespace wss::kv::test {
namespace {

TEST_F(AccessControl, gives_no_address_of_the_memory_to_a_client_that_may_not_read_every_key) {
    begin({"alice=rw", "bob=rw:a/", "carol=w"});
    const auto alice = raw("alice");
    EXPECT_NE(alice->link().facts().arena.rkey, 0u);
    EXPECT_NE(alice->link().facts().arena_bytes, 0u);
    EXPECT_TRUE(put(*client("alice"), {{"a/x", "value"}}));
    for (const char* name : {"bob", "carol"}) {
        const auto peer = raw(name);
        const PartitionFacts& facts = peer->link().facts();
        EXPECT_EQ(facts.arena.rkey, 0u) << name;
        EXPECT_EQ(facts.arena.address, 0u) << name;
        EXPECT_EQ(facts.arena_bytes, 0u) << name;
        EXPECT_EQ(facts.arena_epoch, 0u) << name;
    }
    struct Slot : Call {
        bool here = false;
        uint32_t bytes = 0;
    } slot;
    slot.done = [](Call& call, const wire::KvHeader*, wire::Bytes message) noexcept {
        wire::KvGetReply reply;
        auto& mine = static_cast<Slot&>(call);
        mine.here = wire::parse(message, reply) && reply.items.size() == 1;
        if (mine.here) mine.bytes = reply.items[0].slot_bytes;
    };
    wire::KvGet get;
    get.items.push_back({.key = "a/x"});
    const auto bob = raw("bob");
    ASSERT_TRUE(bob->link().call(slot, KvKind::kGet, wire::kKvGetAddresses | wire::kKvGetValues, get));
    bob->turn_until([&] { return slot.here; });
    EXPECT_EQ(slot.bytes, 0u);
}

TEST_F(AccessControl, counts_only_one_sided_reads_of_clients_with_access_to_the_memory) {
    begin(kRules);
    const wire::KvDecision reads{.timestamp = 1000};
    EXPECT_EQ(raw("bob")->ask(wire::KvKind::kPing, 0, reads), wire::KvStatus::kOk);
    EXPECT_EQ(cluster->counters(0).one_sided_keys, 0u);
    EXPECT_EQ(raw("alice")->ask(wire::KvKind::kPing, 0, reads), wire::KvStatus::kOk);
    EXPECT_EQ(cluster->counters(0).one_sided_keys, 1000u);
}

TEST_F(AccessControl, makes_a_key_of_the_memory_useless_to_a_client_that_may_not_read_every_key) {
    begin(kRules);
    const auto alice = raw("alice");
    const fabric::RemoteAddress arena = alice->link().facts().arena;
    ASSERT_TRUE(alice->read(arena, 64));
    alice->turn_until([&] { return !alice->reads_done().empty(); });
    EXPECT_EQ(alice->reads_done()[0], fabric::CompletionStatus::kOk);
    const auto bob = raw("bob");
    ASSERT_TRUE(bob->read(arena, 64));
    bob->turn_until([&] { return !bob->reads_done().empty(); });
    EXPECT_EQ(bob->reads_done()[0], fabric::CompletionStatus::kRemoteAccess);
}

TEST_F(AccessControl, withdraws_the_memory_at_once_from_a_client_that_loses_the_right_to_read_every_key) {
    begin(kRules);
    const auto alice = raw("alice");
    const fabric::RemoteAddress arena = alice->link().facts().arena;
    cluster->set_access({"alice=r:a/"});
    ASSERT_TRUE(alice->read(arena, 64));
    alice->turn_until([&] { return !alice->reads_done().empty(); });
    EXPECT_EQ(alice->reads_done()[0], fabric::CompletionStatus::kRemoteAccess);
    // It connects again, and the address that it knows is still useless.
    alice->turn_until([&] { return alice->link().ready(); });
    EXPECT_EQ(alice->link().facts().arena.rkey, 0u);
    ASSERT_TRUE(alice->read(arena, 64));
    alice->turn_until([&] { return alice->reads_done().size() == 2; });
    EXPECT_EQ(alice->reads_done()[1], fabric::CompletionStatus::kRemoteAccess);
}

TEST_F(AccessControl, permits_one_sided_reads_only_to_clients_that_may_read_every_key) {
    begin({"alice=r", "bob=r:a/", "carol=rw"});
    EXPECT_TRUE(put(*client("carol"), {{"a/x", "value"}}));
    const auto alice = client("alice", {.one_sided = OneSided::kOn});
    EXPECT_EQ(get(*alice, {"a/x"}), (std::vector<std::string>{"value"}));
    for (int i = 0; i < 500 && alice->statistics().reads_one_sided == 0; ++i, usleep(10'000))
        get(*alice, {"a/x"});
    EXPECT_GT(alice->statistics().reads_one_sided, 0u);
    expect_denied(refusal("bob", {.one_sided = OneSided::kOn}), "--one-sided off");
    expect_denied(refusal("bob", {.transport = Transport::kRing}), "--transport message");
    EXPECT_EQ(get(*client("bob"), {"a/x"}), (std::vector<std::string>{"value"}));
    EXPECT_EQ(get(*client("carol", {.transport = Transport::kRing}), {"a/x"}),
              (std::vector<std::string>{"value"}));
    cluster->set_access({"alice=r:a/", "carol=rw"});
    expect_denied(read(*alice, {"a/x"}), "--one-sided off");
}

}  // namespace
}  // namespace wss::kv::test
