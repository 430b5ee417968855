// SPDX-License-Identifier: Apache-2.0
// Rights of clients (--kv-access): every kind of message, greetings, changes of the rules.
#include "lib/kv/service/access.h"

#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "tests/unit/kv/access_fixture.h"

namespace wss::kv::test {
namespace {

// --- every kind of message

struct Sample {
    const char* what;
    KvKind kind;
    std::function<KvStatus(RawClient&)> send;  // concerns the key "b/x", which bob may not access
};

KvStatus prepare(RawClient& client, uint8_t flags, const char* written, const char* condition = nullptr) {
    wire::KvPrepare body;
    body.timestamp = client.transaction(Random::entropy() % 1000);
    body.participants = {0};
    if (written != nullptr) body.items.emplace_back().key = written;
    if (condition != nullptr) body.conditions.push_back({.key = condition});
    return client.ask(KvKind::kPrepare, flags, body);
}

std::vector<Sample> samples() {
    using Client = RawClient&;
    const auto get = [](const char* key, uint8_t flags, wire::KvSelect select) {
        return [=](Client client) {
            wire::KvGet body{.owner = client.transaction(0)};
            body.items.push_back({.key = "a/x"});
            body.items.push_back({.key = key, .select = select, .timestamp = client.transaction(0)});
            return client.ask(KvKind::kGet, flags, body);
        };
    };
    const auto lock = [](bool exclusive) {
        return [=](Client client) {
            return client.ask(
                KvKind::kLock, 0,
                wire::KvLock{.owner = client.transaction(0), .exclusive = exclusive, .keys = {"a/x", "b/x"}});
        };
    };
    return {
        {"get", KvKind::kGet, get("b/x", wire::kKvGetValues, wire::KvSelect::kLatest)},
        {"get of timestamps", KvKind::kGet, get("b/x", 0, wire::KvSelect::kLatest)},
        {"get by a timestamp", KvKind::kGet, get("b/x", wire::kKvGetValues, wire::KvSelect::kExact)},
        {"get under locks", KvKind::kGet, get("b/x", wire::kKvGetLocked, wire::KvSelect::kLatest)},
        {"put", KvKind::kPrepare, [](Client c) { return prepare(c, wire::kKvPrepareCommit, "b/x"); }},
        {"prepare", KvKind::kPrepare, [](Client c) { return prepare(c, 0, "b/x"); }},
        {"prepare with a condition", KvKind::kPrepare,
         [](Client c) { return prepare(c, wire::kKvPrepareIf | wire::kKvPrepareCommit, "a/y", "b/x2"); }},
        {"condition alone", KvKind::kPrepare,
         [](Client c) { return prepare(c, wire::kKvPrepareIf | wire::kKvPrepareCommit, nullptr, "b/x2"); }},
        {"inquire", KvKind::kInquire,
         [](Client c) {
             return c.ask(KvKind::kInquire, 0, wire::KvDecision{.timestamp = c.transaction(5000)});
         }},
        {"put-if", KvKind::kPutIf,
         [](Client c) {
             wire::KvPutIf body{.timestamp = c.transaction(Random::entropy() % 1000)};
             body.item.key = "b/new";
             return c.ask(KvKind::kPutIf, 0, body);
         }},
        {"scan", KvKind::kScan,
         [](Client c) { return c.ask(KvKind::kScan, 0, wire::KvScan{.prefix = "b/", .limit = 1}); }},
        {"scan of everything", KvKind::kScan,
         [](Client c) { return c.ask(KvKind::kScan, 0, wire::KvScan{.prefix = "", .limit = 1}); }},
        {"scan that continues in it", KvKind::kScan,
         [](Client c) {
             return c.ask(KvKind::kScan, 0, wire::KvScan{.prefix = "", .cursor = "a/z", .limit = 1});
         }},
        {"shared lock", KvKind::kLock, lock(false)},
        {"exclusive lock", KvKind::kLock, lock(true)},
        {"info", KvKind::kInfo, [](Client c) { return c.ask(KvKind::kInfo, 0, wire::KvText{}); }},
        {"snapshot", KvKind::kSnapshot,
         [](Client c) {
             return c.ask(KvKind::kSnapshot, 0, wire::KvText{.text = "s", .timestamp = c.transaction(0)});
         }},
    };
}

// Messages without a sample, because they concern only the sender; other tests are about hello and decisions.
bool has_no_sample(KvKind kind) {
    using Need = Access::Need;
    const Need need = Access::kind_of(kind).need;
    return need == Need::kNothing || need == Need::kGreeting || kind == KvKind::kCommit ||
           kind == KvKind::kAbort;
}

TEST_F(AccessControl, refuses_every_kind_of_message_to_a_client_without_the_right) {
    begin(kRules);
    const auto bob = raw("bob");
    for (const Sample& sample : samples()) EXPECT_EQ(sample.send(*bob), KvStatus::kPermission) << sample.what;
    EXPECT_EQ(bob->ask(KvKind::kPing, 0, wire::KvDecision{}), KvStatus::kOk) << "the connection continues";
    cluster->on(0, [](Service& service) {
        const store::Statistics kept = service.store().statistics();
        EXPECT_EQ(kept.keys, 0u);
        EXPECT_EQ(kept.prepared, 0u);
        EXPECT_EQ(kept.decisions, 0u) << "not even an abort is remembered";
    });
    for (uint8_t kind = 1; kind <= wire::kKvKindMax; ++kind) {
        const auto all = samples();
        const bool has_sample = std::any_of(all.begin(), all.end(), [&](const Sample& sample) {
            return sample.kind == static_cast<KvKind>(kind);
        });
        EXPECT_TRUE(has_sample || has_no_sample(static_cast<KvKind>(kind)))
            << "add a sample of kind " << int{kind} << " that a client without the right sends";
        EXPECT_NE(Access::kind_of(static_cast<KvKind>(kind)).name, "unknown") << int{kind};
    }
}

// Shows that the lack of rights is the only reason for the refusals of the test above.
TEST_F(AccessControl, lets_a_client_with_all_rights_send_everything_but_inquiries) {
    begin(kRules);
    for (const Sample& sample : samples()) {
        const auto alice = raw("alice");
        EXPECT_EQ(sample.send(*alice) == KvStatus::kPermission, sample.kind == KvKind::kInquire)
            << sample.what;
    }
}

TEST_F(AccessControl, without_rules_lets_every_client_do_everything) {
    begin({});
    for (const Sample& sample : samples()) {
        const auto bob = raw("bob");
        EXPECT_NE(sample.send(*bob), KvStatus::kPermission) << sample.what;
    }
}

TEST_F(AccessControl, lets_a_client_do_everything_with_keys_of_its_prefix) {
    begin(kRules);
    const auto bob = client("bob");
    EXPECT_TRUE(put(*bob, {{"a/x", "one"}, {"a/y", "two"}}));
    EXPECT_EQ(get(*bob, {"a/x", "a/y", "a/none"}), (std::vector<std::string>{"one", "two", "(none)"}));
    EXPECT_TRUE(scan(*bob, "a/").is_ok());
    PutIf put_if;
    put_if.key = "a/z";
    bob->run(put_if);
    EXPECT_TRUE(put_if.status) << put_if.status.to_string();
    for (Algorithm algorithm : {Algorithm::kLockSequential, Algorithm::kLockParallel}) {
        const auto locking = client("bob", {.algorithm = algorithm});
        EXPECT_TRUE(put(*locking, {{"a/x", "three"}}));
        EXPECT_EQ(get(*locking, {"a/x"}), (std::vector<std::string>{"three"}));
    }
}

TEST_F(AccessControl, names_the_missing_right_in_the_errors_of_clients) {
    begin({"alice=rw", "bob=w:a/", "bob=r:b/"});
    for (Algorithm algorithm : {Algorithm::kRampFast, Algorithm::kRampSmall, Algorithm::kLockSequential,
                                Algorithm::kLockParallel, Algorithm::kNone}) {
        const auto bob = client("bob", {.algorithm = algorithm, .timeout = from_s(60)});
        expect_denied(read(*bob, {"b/x", "a/x"}), "client 'bob' has no right to read 'a/x'");
        expect_denied(put(*bob, {{"a/x", ""}, {"b/x", ""}}), "client 'bob' has no right to write 'b/x'");
    }
    const auto bob = client("bob");
    expect_denied(scan(*bob, "a/"), "read all keys with the prefix 'a/'");
    expect_denied(read(*bob, {"\x1b[31m"}), "read '\\x1b[31m'");
    PutIf put_if;
    put_if.key = "a/x";
    bob->run(put_if);
    expect_denied(put_if.status, "read 'a/x'");
    EXPECT_FALSE(put_if.outcome_unknown);
    put_if.key = "b/x";
    bob->run(put_if);
    expect_denied(put_if.status, "write 'b/x'");
    PutAll conditional;
    conditional.items.push_back({.key = "a/x", .value = ""});
    conditional.conditions.push_back({.key = "a/y"});
    bob->run(conditional);
    expect_denied(conditional.status, "read 'a/y'");
    conditional.conditions = {{.key = "b/y"}};
    bob->run(conditional);
    EXPECT_TRUE(conditional.status) << conditional.status.to_string();
}

TEST_F(AccessControl, lets_a_transaction_with_one_forbidden_key_write_nothing_on_any_partition) {
    begin({"alice=rw", "bob=rw:key", "p=partition"}, 2);
    std::string forbidden = "b";
    while (partition_of(fingerprint(forbidden), 2) != 1) forbidden += 'b';
    const auto bob = client("bob");
    PutAll request;
    request.items.push_back({.key = key_on(0, 2), .value = "new"});
    request.items.push_back({.key = forbidden, .value = "new"});
    bob->run(request);
    expect_denied(request.status, "write '" + forbidden + "'");
    EXPECT_FALSE(request.outcome_unknown);
    const auto alice = client("alice");
    EXPECT_EQ(get(*alice, {key_on(0, 2), forbidden}), (std::vector<std::string>{"(none)", "(none)"}));
    for (uint32_t p = 0; p < 2; ++p)
        cluster->on(p, [](Service& service) { EXPECT_EQ(service.store().statistics().prepared, 0u); });
}

// --- greetings

class Greeter final : public LinkHandler {
  public:
    void on_ready(Link&) noexcept override { ready = true; }
    void on_lost(Link&, const Status&) noexcept override {}
    bool ready = false;
};

// The refusal of a greeting, or ok if it was accepted.
Status greet(const std::string& address, const std::string& name, uint64_t nonce) {
    SystemClock clock;
    reactor::Reactor reactor(clock);
    const auto where = *fabric::Address::parse(address, kDefaultPort);
    const auto fabric = std::move(*fabric::open(where, credentials_of(name)));
    const auto lane = std::move(*Lane::create(reactor, *fabric));
    Greeter greeter;
    Link link(*lane, {.address = where, .nonce = nonce}, greeter);
    link.want();
    const Nanoseconds limit = clock.now() + from_s(60);
    while (!greeter.ready && link.refusal() && clock.now() < limit) reactor.turn();
    const Status refusal = link.refusal();
    EXPECT_TRUE(greeter.ready || !refusal);
    link.close();
    while (!lane->empty() && clock.now() < limit) reactor.turn();
    return refusal;
}

TEST_F(AccessControl, requires_a_right_for_a_greeting) {
    begin(kRules);
    const std::string& address = cluster->addresses()[0];
    EXPECT_TRUE(greet(address, "bob", 1).is_ok());
    EXPECT_TRUE(greet(address, "p", 0).is_ok());
    expect_denied(greet(address, "carol", 1), "client 'carol' has no right to read or write any key");
    expect_denied(greet(address, "p", 1), "client 'p' has no right to read or write any key");
    expect_denied(greet(address, "alice", 0), "client 'alice' has no right to connect as a partition");
    EXPECT_EQ(refusal("carol").code(), Code::kPermission) << "a client does not wait for its deadline";
    cluster->on(0, [](Service& service) {
        EXPECT_GE(service.counters().refused_permission, 4u);
        EXPECT_NE(service.info_json().find("\"client_ids_leased\":1"), std::string::npos) << "bob's";
    });
}

TEST_F(AccessControl, lets_a_partition_inquire_and_do_nothing_else) {
    begin(kRules);
    const auto partition = raw("p", 0);
    EXPECT_EQ(partition->ask(KvKind::kInquire, 0, wire::KvDecision{.timestamp = partition->transaction(5)}),
              KvStatus::kAborted);
    for (const Sample& sample : samples()) {
        if (sample.kind == KvKind::kInquire) continue;
        const KvStatus status = sample.send(*partition);
        EXPECT_TRUE(status == KvStatus::kPermission || status == KvStatus::kNotLeased) << sample.what;
    }
}

TEST_F(AccessControl, lets_partitions_decide_transactions_of_silent_clients_only_with_their_right) {
    begin({"alice=rw"}, 2);
    const auto alice = client("alice");
    PutAll request;
    request.items.push_back({.key = key_on(0, 2), .value = "new"});
    request.items.push_back({.key = key_on(1, 2), .value = "new"});
    request.fault.die_after_prepare = true;
    alice->run(request);
    const auto prepared = [&] {
        uint64_t count = 0;
        for (uint32_t p = 0; p < 2; ++p)
            cluster->on(p, [&](Service& service) { count += service.store().statistics().prepared; });
        return count;
    };
    usleep(1'000'000);  // five times what the partitions wait for the client
    EXPECT_EQ(prepared(), 2u);
    cluster->set_access({"alice=rw", "p=partition"});
    for (int i = 0; i < 1000 && prepared() > 0; ++i) usleep(10'000);
    EXPECT_EQ(prepared(), 0u);
    EXPECT_EQ(get(*alice, {key_on(0, 2), key_on(1, 2)}), (std::vector<std::string>{"new", "new"}));
}

// --- changes

TEST_F(AccessControl, applies_changed_rules_to_the_next_request_of_a_connected_client) {
    begin(kRules);
    const auto bob = client("bob");
    EXPECT_TRUE(put(*bob, {{"a/x", "value"}}));
    cluster->set_access({"bob=r:a/", "bob=w:b/"});
    EXPECT_EQ(get(*bob, {"a/x"}), (std::vector<std::string>{"value"}));
    expect_denied(put(*bob, {{"a/x", "other"}}), "write 'a/x'");
    EXPECT_TRUE(put(*bob, {{"b/x", "value"}}));
    cluster->set_access({"alice=rw"});
    expect_denied(read(*bob, {"a/x"}), "read 'a/x'");
    cluster->set_access(kRules);
    EXPECT_EQ(get(*bob, {"a/x"}), (std::vector<std::string>{"value"}));
}

TEST_F(AccessControl, applies_to_clients_that_connected_before_there_were_rules) {
    begin({});
    const auto bob = raw("bob");
    const fabric::RemoteAddress arena = bob->link().facts().arena;
    EXPECT_EQ(prepare(*bob, wire::kKvPrepareCommit, "b/x"), KvStatus::kCommitted);
    cluster->set_access(kRules);
    EXPECT_EQ(prepare(*bob, wire::kKvPrepareCommit, "b/x"), KvStatus::kPermission);
    ASSERT_TRUE(bob->read(arena, 64));
    bob->turn_until([&] { return !bob->reads_done().empty(); });
    EXPECT_EQ(bob->reads_done()[0], fabric::CompletionStatus::kRemoteAccess);
}

TEST_F(AccessControl, grants_no_lock_to_a_waiting_client_that_has_lost_the_right) {
    begin(kRules);
    const auto alice = raw("alice"), bob = raw("bob");
    const uint64_t hers = alice->transaction(0), his = bob->transaction(0);
    ASSERT_EQ(alice->ask(KvKind::kLock, 0, wire::KvLock{.owner = hers, .exclusive = true, .keys = {"a/x"}}),
              KvStatus::kOk);
    RecordedCall waiting;
    ASSERT_TRUE(
        bob->link().call(waiting, KvKind::kLock, 0,
                         wire::KvLock{.owner = his, .exclusive = true, .wait = true, .keys = {"a/x"}}));
    EXPECT_EQ(bob->ask(KvKind::kPing, 0, wire::KvDecision{}), KvStatus::kOk) << "the request has arrived";
    cluster->set_access({"alice=rw", "bob=r:a/"});
    alice->send_only(KvKind::kUnlock, wire::KvLock{.owner = hers, .keys = {}});
    alice->ask(KvKind::kPing, 0, wire::KvDecision{});
    bob->turn_until([&] { return waiting.here; });
    EXPECT_EQ(waiting.status, KvStatus::kLockConflict);
    EXPECT_EQ(alice->ask(KvKind::kLock, 0, wire::KvLock{.owner = hers, .exclusive = true, .keys = {"a/x"}}),
              KvStatus::kOk)
        << "nobody holds the lock";
}

TEST_F(AccessControl, shows_its_rules_and_the_refusals_of_each_client_in_the_status) {
    begin({"alice=rw", R"(bob=rw:"a\)", "p=partition"});
    const auto bob = raw("bob");
    for (int i = 0; i < 3; ++i) prepare(*bob, wire::kKvPrepareCommit, "b/x");
    raw("alice")->ask(KvKind::kInquire, 0, wire::KvDecision{.timestamp = 1});
    const nlohmann::json shown = info();
    EXPECT_EQ(shown["access"]["restricted"], 1);
    EXPECT_EQ(shown["access"]["rules"], (nlohmann::json{"alice=rw", R"(bob=rw:"a\)", "p=partition"}));
    EXPECT_EQ(shown["access"]["refused"], (nlohmann::json{{"alice", 1}, {"bob", 3}}));
    EXPECT_EQ(shown["traffic"]["refused_permission"], 4);
}

}  // namespace
}  // namespace wss::kv::test
