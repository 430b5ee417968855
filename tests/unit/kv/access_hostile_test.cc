// SPDX-License-Identifier: Apache-2.0
// Hostile clients with few rights: transactions of other clients, random messages.
#include <unistd.h>

#include "tests/unit/kv/access_fixture.h"

namespace wss::kv::test {
namespace {

// An id becomes free when its client has been gone for a long time. The next client with the id could decide
// what the former one left undecided.
TEST_F(AccessControl, lets_no_client_decide_a_transaction_with_keys_that_it_may_not_write) {
    begin({"alice=rw", "bob=rw:a/", "p=partition"}, 2);
    std::string key = "b";
    while (partition_of(fingerprint(key), 2) != 0) key += 'b';
    std::string own = "a/";
    while (partition_of(fingerprint(own), 2) != 0) own += 'a';
    cluster->stop(1);  // the transaction stays undecided without this partition's answer
    wire::KvPrepare body;
    body.participants = {0, 1};
    body.items.emplace_back().key = key;
    uint32_t id = 0;
    {
        const auto alice = raw("alice");
        body.timestamp = alice->transaction(0);
        id = alice->link().facts().client_id;
        ASSERT_EQ(alice->ask(KvKind::kPrepare, 0, body), KvStatus::kPrepared);
    }
    cluster->pass(0, from_s(70));  // longer than a lease
    for (int i = 0; i < 500; ++i, usleep(10'000)) {
        bool alone = false;
        cluster->on(0, [&](Service& service) {
            alone = service.info_json().find("\"connections\":0") != std::string::npos;
        });
        if (alone) break;
    }
    cluster->pass(0, from_s(70));
    const auto bob = raw("bob", 77, id);
    ASSERT_EQ(bob->link().facts().client_id, id);
    const wire::KvDecision decision{.timestamp = body.timestamp};
    EXPECT_EQ(bob->ask(KvKind::kCommit, 0, decision), KvStatus::kPermission);
    EXPECT_EQ(bob->ask(KvKind::kAbort, 0, decision), KvStatus::kPermission);
    body.items[0].key = own;
    EXPECT_EQ(bob->ask(KvKind::kPrepare, wire::kKvPrepareCommit, body), KvStatus::kPermission);
    wire::KvPutIf put{.timestamp = body.timestamp};
    put.item.key = own;
    EXPECT_EQ(bob->ask(KvKind::kPutIf, 0, put), KvStatus::kPermission);
    cluster->on(0, [](Service& service) { EXPECT_EQ(service.store().statistics().prepared, 1u); });
}

TEST_F(AccessControl, reveals_nothing_to_a_client_about_transactions_of_other_ids) {
    begin({"alice=rw", "bob=rw:a/", "p=partition"}, 2);
    std::string key = "b", own = "a/";
    while (partition_of(fingerprint(key), 2) != 0) key += 'b';
    while (partition_of(fingerprint(own), 2) != 0) own += 'a';
    cluster->stop(1);
    const auto alice = raw("alice"), bob = raw("bob");
    wire::KvPrepare body;
    body.participants = {0, 1};
    body.items.emplace_back().key = key;
    body.timestamp = alice->transaction(0);
    ASSERT_EQ(alice->ask(KvKind::kPrepare, 0, body), KvStatus::kPrepared);
    for (uint64_t timestamp : {body.timestamp, body.timestamp + (1u << Timestamp::kClientBits)}) {
        const wire::KvDecision decision{.timestamp = timestamp};
        EXPECT_EQ(bob->ask(KvKind::kCommit, 0, decision), KvStatus::kNotLeased);
        EXPECT_EQ(bob->ask(KvKind::kAbort, 0, decision), KvStatus::kNotLeased);
        wire::KvPrepare mine;
        mine.timestamp = timestamp;
        mine.participants = {0};
        mine.items.emplace_back().key = own;
        EXPECT_EQ(bob->ask(KvKind::kPrepare, wire::kKvPrepareCommit, mine), KvStatus::kNotLeased);
    }
}

// A call that keeps the whole reply.
struct KeptReply : Call {
    KeptReply() {
        done = [](Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
            auto& mine = static_cast<KeptReply&>(call);
            mine.here = true;
            if (header != nullptr)
                mine.bytes.assign(reinterpret_cast<const char*>(message.data()), message.size());
        };
    }
    bool here = false;
    std::string bytes;
};

// Random messages of a client, with keys that it may touch and others.
class HostileClient {
  public:
    HostileClient(RawClient& client, uint64_t seed, std::vector<uint64_t> foreign)
        : client_(client), random_(seed), foreign_(std::move(foreign)) {}

    bool send(KeptReply& reply) {
        switch (random_.below(9)) {
            case 0:
                return call(reply, KvKind::kGet, get());
            case 1:
            case 2:
                return call(reply, KvKind::kPrepare, prepare());
            case 3:
                return call(reply, KvKind::kPutIf, put_if());
            case 4:
                return call(
                    reply, KvKind::kScan,
                    wire::KvScan{
                        .prefix = key(), .cursor = key(), .limit = 100, .with_values = random_.chance(2)});
            case 5:
                return call(
                    reply, KvKind::kLock,
                    wire::KvLock{.owner = timestamp(), .exclusive = random_.chance(2), .keys = {key()}});
            case 6:
                return call(reply, random_.chance(2) ? KvKind::kCommit : KvKind::kAbort,
                            wire::KvDecision{.timestamp = timestamp()});
            case 7:
                return call(reply, KvKind::kInquire, wire::KvDecision{.timestamp = timestamp()});
            default:
                return call(reply, random_.chance(2) ? KvKind::kInfo : KvKind::kSnapshot,
                            wire::KvText{.text = "s", .timestamp = timestamp()});
        }
    }

  private:
    template <typename Body>
    bool call(KeptReply& reply, KvKind kind, const Body& body) {
        // A prepare contains conditions only if it has their flag.
        uint8_t flags = random_.chance(2) ? static_cast<uint8_t>(random_.next()) : uint8_t{0};
        return client_.link().call(reply, kind, flags, body);
    }
    std::string_view key() {
        static constexpr std::string_view kKeys[] = {"a/0", "a/1", "b/0", "b/1", "b/2", "b/", "a/", "a", "b"};
        return kKeys[random_.below(std::size(kKeys))];
    }
    uint64_t timestamp() {
        if (random_.chance(3)) return foreign_[random_.below(foreign_.size())];
        if (!used_.empty() && random_.chance(2)) return used_[random_.below(used_.size())];
        used_.push_back(client_.transaction(random_.below(10'000'000)));
        return used_.back();
    }
    wire::KvGet get() {
        wire::KvGet body{.owner = timestamp()};
        for (uint64_t i = 1 + random_.below(3); i > 0; --i)
            body.items.push_back({.key = key(),
                                  .select = static_cast<wire::KvSelect>(random_.below(3)),
                                  .timestamp = timestamp()});
        body.among = foreign_;
        return body;
    }
    wire::KvPrepare prepare() {
        wire::KvPrepare body;
        body.timestamp = timestamp();
        body.owner = timestamp();
        body.participants = {0};
        for (uint64_t i = 1 + random_.below(2); i > 0; --i) body.items.push_back({.key = key()});
        for (uint64_t i = random_.below(3); i > 0; --i)
            body.conditions.push_back({.key = key(), .expected = random_.chance(2) ? 0 : timestamp()});
        return body;
    }
    wire::KvPutIf put_if() {
        wire::KvPutIf body{.timestamp = timestamp(), .expected = random_.chance(2) ? 0 : timestamp()};
        body.item.key = key();
        return body;
    }

    RawClient& client_;
    Random random_;
    const std::vector<uint64_t> foreign_;
    std::vector<uint64_t> used_;
};

TEST_F(AccessControl, lets_hostile_messages_reveal_and_change_nothing_outside_the_prefix_of_the_client) {
    begin(kRules);
    const auto alice = client("alice");
    std::vector<uint64_t> foreign;
    for (const char* key : {"b/0", "b/1", "b/2"}) {
        PutAll write;
        write.items.push_back({.key = key, .value = "secret"});
        write.items.push_back({.key = std::string("a/") + key, .value = "known"});
        alice->run(write);
        ASSERT_TRUE(write.status) << write.status.to_string();
        foreign.push_back(write.timestamp.value);
    }
    const auto bob = raw("bob");
    HostileClient hostile(*bob, 42, foreign);
    uint64_t replies = 0;
    for (int i = 0; i < 5000; ++i) {
        bob->turn_until([&] { return bob->link().ready(); });
        KeptReply reply;
        ASSERT_TRUE(hostile.send(reply));
        bob->turn_until([&] { return reply.here; });
        replies += !reply.bytes.empty();
        ASSERT_EQ(reply.bytes.find("secret"), std::string::npos) << "message " << i;
    }
    EXPECT_GT(replies, 4000u);
    EXPECT_EQ(get(*alice, {"b/0", "b/1", "b/2"}), (std::vector<std::string>(3, "secret")));
    EXPECT_TRUE(put(*alice, {{"b/0", ""}, {"b/1", ""}, {"b/2", ""}})) << "nothing holds or locks them";
    cluster->on(0, [](Service& service) {
        EXPECT_GT(service.counters().refused_permission, 1000u);
        EXPECT_GT(service.store().statistics().commits, 10u) << "some of the messages were carried out";
    });
}

// Each such decision would be remembered for a minute, and be a row of the log for a day.
TEST_F(AccessControl, lets_no_client_without_a_right_to_write_decide_unknown_transactions) {
    begin({"alice=rw", "bob=r:a/", "carol=w:c/", "p=partition"});
    const auto bob = raw("bob"), carol = raw("carol");
    for (const KvKind kind : {KvKind::kAbort, KvKind::kCommit})
        for (uint64_t i = 0; i < 100; ++i)
            EXPECT_EQ(bob->ask(kind, 0, wire::KvDecision{.timestamp = bob->transaction(i)}),
                      KvStatus::kPermission);
    cluster->on(0, [](Service& service) { EXPECT_EQ(service.store().statistics().decisions, 0u); });
    EXPECT_EQ(carol->ask(KvKind::kAbort, 0, wire::KvDecision{.timestamp = carol->transaction(0)}),
              KvStatus::kAborted);
}

TEST_F(AccessControl, lets_a_client_that_may_only_read_decide_its_transactions) {
    begin({"alice=rw", "bob=r:a/", "p=partition"});
    const auto bob = raw("bob");
    for (const KvKind kind : {KvKind::kCommit, KvKind::kAbort})
        for (uint64_t again = 0; again < 2; ++again) {
            wire::KvPrepare body;
            body.timestamp = bob->transaction(static_cast<uint64_t>(kind));
            body.participants = {0};
            body.conditions.push_back({.key = "a/key"});
            if (again == 0) {
                ASSERT_EQ(bob->ask(KvKind::kPrepare, wire::kKvPrepareIf, body), KvStatus::kPrepared);
            }
            EXPECT_EQ(bob->ask(kind, 0, wire::KvDecision{.timestamp = body.timestamp}),
                      kind == KvKind::kCommit ? KvStatus::kCommitted : KvStatus::kAborted);
        }
}

}  // namespace
}  // namespace wss::kv::test
