// SPDX-License-Identifier: Apache-2.0
// A whole store in one process: every algorithm over every transport and one-sided mode.
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

struct Mode {
    std::string scheme;
    Algorithm algorithm;
    Transport transport;
    OneSided one_sided;
};

void PrintTo(const Mode& mode, std::ostream* out) {
    *out << mode.scheme << " " << to_string(mode.algorithm) << " " << to_string(mode.transport) << " "
         << to_string(mode.one_sided);
}

class EveryMode : public testing::TestWithParam<Mode> {
  protected:
    kv::Options options(const Cluster& cluster) {
        kv::Options made = cluster.client_options();
        made.algorithm = GetParam().algorithm;
        made.transport = GetParam().transport;
        made.one_sided = GetParam().one_sided;
        return made;
    }
};

TEST_P(EveryMode, lets_clients_read_the_values_that_others_have_written) {
    Cluster cluster({.scheme = GetParam().scheme});
    auto writer = LocalClient::connect(options(cluster));
    ASSERT_TRUE(writer) << writer.status().to_string();
    auto reader = LocalClient::connect(options(cluster));
    ASSERT_TRUE(reader) << reader.status().to_string();
    std::vector<std::string> keys;
    for (int round = 0; round < 20; ++round) {
        std::vector<std::pair<std::string, std::string>> items;
        keys.clear();
        for (int i = 0; i < 8; ++i) {
            keys.push_back("key" + std::to_string(i));
            items.emplace_back(keys.back(), "value" + std::to_string(round) + std::string(1000, 'x'));
        }
        Status status = put(**writer, items);
        ASSERT_TRUE(status) << status.to_string();
        for (const std::string& value : get(**reader, keys)) EXPECT_EQ(value, items[0].second);
    }
    EXPECT_EQ(get(**reader, {"never written"})[0], "(none)");
    if (GetParam().one_sided != OneSided::kOff) {
        EXPECT_GT((*reader)->statistics().reads_one_sided, 100u);
    }
}

TEST_P(EveryMode, reads_long_values_back_complete) {
    Cluster cluster({.scheme = GetParam().scheme, .arena_bytes = 64u << 20});
    auto client = LocalClient::connect(options(cluster));
    ASSERT_TRUE(client) << client.status().to_string();
    for (size_t size :
         {size_t{0}, size_t{1}, size_t{2000}, size_t{5000}, size_t{100'000}, size_t{kValueMax}}) {
        std::string value(size, 'v');
        for (size_t i = 0; i < size; i += 97) value[i] = static_cast<char>('a' + i % 26);
        Status status = put(**client, {{"a", value}, {"b", value}, {"c", value}});
        ASSERT_TRUE(status) << status.to_string();
        for (int again = 0; again < 2; ++again)
            for (const std::string& found : get(**client, {"a", "b", "c"}))
                EXPECT_TRUE(found == value) << size;
    }
}

// Returns a key of each of two partitions.
std::pair<std::string, std::string> keys_apart(const LocalClient& client) {
    std::string first = "a", second = "b";
    while (client.partition_of(second) == client.partition_of(first)) second += "b";
    return {first, second};
}

class SessionOrder : public testing::TestWithParam<OneSided> {};

// The writer has committed on one partition only. A client that has read this write must not read an older
// version of the other key.
TEST_P(SessionOrder, lets_later_transactions_read_the_versions_named_by_a_sibling) {
    Cluster cluster({.partitions = 2, .terminate_after = from_s(60)});
    auto writer = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(writer) << writer.status().to_string();
    auto [a, b] = keys_apart(**writer);
    ASSERT_TRUE(put(**writer, {{a, "old"}, {b, "old"}}));
    kv::Options options = cluster.client_options();
    options.one_sided = GetParam();
    auto without = LocalClient::connect(options);
    options.session_order = true;
    auto with = LocalClient::connect(options);
    ASSERT_TRUE(without && with);
    for (auto* client : {&without, &with}) ASSERT_EQ(get(***client, {a, b})[0], "old");
    PutAll half;
    half.items.push_back({.key = a, .value = "new"});
    half.items.push_back({.key = b, .value = "new"});
    half.fault.skip_commit = 2;  // the second participant: b's partition
    (*writer)->run(half);
    EXPECT_EQ(get(**without, {a})[0], "new");
    EXPECT_EQ(get(**without, {b})[0], "old") << "permitted by Read Atomic, and required by this test";
    EXPECT_EQ(get(**with, {a})[0], "new");
    EXPECT_EQ(get(**with, {b})[0], "new");
}
INSTANTIATE_TEST_SUITE_P(Kv, SessionOrder, testing::Values(OneSided::kOff, OneSided::kOn));

TEST(SessionOrder, is_refused_where_versions_do_not_name_their_siblings) {
    Cluster cluster({.partitions = 1});
    kv::Options options = cluster.client_options();
    options.session_order = true;
    options.algorithm = Algorithm::kRampSmall;
    EXPECT_EQ(LocalClient::connect(options).status().code(), Code::kInvalid);
}

class OneSidedFaults : public testing::TestWithParam<const char*> {
  protected:
    static std::vector<std::string> names(const std::string& prefix) {
        std::vector<std::string> keys;
        for (int i = 0; i < 100; ++i) keys.push_back(prefix + std::to_string(i));
        return keys;
    }
    static void write(LocalClient& client, const std::vector<std::string>& keys, bool remove) {
        PutAll request;
        for (const std::string& key : keys)
            request.items.push_back({.key = key, .value = remove ? "" : "value of " + key, .remove = remove});
        client.run(request);
        ASSERT_TRUE(request.status) << request.status.to_string();
    }
};
INSTANTIATE_TEST_SUITE_P(Kv, OneSidedFaults, testing::Values("tcp", "shm"));

TEST_P(OneSidedFaults, at_an_address_whose_slot_was_reused_for_another_key_return_no_data_of_that_key) {
    Cluster cluster(
        {.partitions = 1, .scheme = GetParam(), .window = from_ms(20), .decision_window = from_ms(50)});
    kv::Options options = cluster.client_options();
    auto writer = LocalClient::connect(options);
    options.one_sided = OneSided::kOn;
    auto reader = LocalClient::connect(options);
    ASSERT_TRUE(writer && reader);
    const auto old_keys = names("old"), new_keys = names("new");
    write(**writer, old_keys, false);
    for (int i = 0; i < 2; ++i) get(**reader, old_keys);
    ASSERT_GE((*reader)->statistics().reads_one_sided, 100u) << "addresses are cached";
    write(**writer, old_keys, true);
    // Wait until the slots are free, that is, until the deleted keys are forgotten.
    auto keys_left = [&] {
        uint64_t keys = 0;
        cluster.on(0, [&](Service& service) { keys = service.store().statistics().keys; });
        return keys;
    };
    for (int i = 0; i < 1000 && keys_left() > 0; ++i) usleep(10'000);
    ASSERT_EQ(keys_left(), 0u);
    write(**writer, new_keys, false);
    for (const std::string& value : get(**reader, old_keys)) EXPECT_EQ(value, "(none)");
    EXPECT_GT((*reader)->statistics().fallback_stale, 0u) << "this test needs reused slots";
    for (int i = 0; i < 2; ++i) {
        auto values = get(**reader, new_keys);
        for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k], "value of " + new_keys[k]);
    }
}

TEST_P(OneSidedFaults, that_cut_a_connection_during_a_read_end_the_transaction_and_not_the_client) {
    Cluster cluster({.partitions = 2, .scheme = GetParam()});
    kv::Options options = cluster.client_options();
    options.one_sided = OneSided::kOn;
    options.timeout = from_ms(500);
    auto client = LocalClient::connect(options);
    ASSERT_TRUE(client);
    const auto keys = names("key");
    write(**client, keys, false);
    for (int i = 0; i < 2; ++i) get(**client, keys);
    // With tcp READs are in flight when the connection is lost, as the partition that would answer them
    // stands still. With shm a READ completes at once, before or after the loss.
    GetAll lost;
    for (const std::string& key : keys) lost.items.emplace_back().key = key;
    static bool over;
    over = false;
    lost.done = [](Request&) noexcept { over = true; };
    const bool posts = std::string(GetParam()) == "tcp";
    cluster.stop(1, [&] {
        if (!posts) return;
        (*client)->submit(lost);
        for (int i = 0; i < 100; ++i) (*client)->poll();
        EXPECT_FALSE(over);
    });
    if (!posts) {
        for (int i = 0; i < 100; ++i) (*client)->poll();
        (*client)->submit(lost);
    }
    while (!over) (*client)->turn();
    EXPECT_FALSE(lost.status);
    cluster.start(1);  // it has no contents and a new arena
    for (int i = 0; i < 500; ++i) {
        PutAll again;
        again.items.push_back({.key = keys[0], .value = "again"});
        again.items.push_back({.key = keys[1], .value = "again"});
        (*client)->run(again);
        if (again.status) break;
        usleep(10'000);
    }
    write(**client, keys, false);
    auto values = get(**client, keys);
    for (size_t k = 0; k < values.size(); ++k) EXPECT_EQ(values[k], "value of " + keys[k]);
}

// The transaction is prepared on one partition. The other one never received it, and has forgotten all
// decisions of that time.
class Forgotten : public testing::TestWithParam<bool> {};
TEST_P(Forgotten, by_the_other_partition_a_transaction_does_not_stay_undecided) {
    const bool waited_too_long = GetParam();
    Cluster cluster({.partitions = 2,
                     .window = from_ms(20),
                     .decision_window = waited_too_long ? from_ms(50) : from_s(600)});
    auto writer = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(writer) << writer.status().to_string();
    auto [a, b] = keys_apart(**writer);
    ASSERT_TRUE(put(**writer, {{a, "old"}, {b, "old"}}));
    cluster.on((*writer)->partition_of(b), [](Service& service) {
        SystemWallClock wall;
        service.store().raise_floor(Timestamp::make(wall.ticks() + 3'600'000'000, 0));
    });
    PutAll half;
    half.items.push_back({.key = a, .value = "new"});
    half.items.push_back({.key = b, .value = "new"});
    half.fault.skip_prepare = 2;  // the second participant: b's partition
    half.fault.die_after_prepare = true;
    (*writer)->run(half);
    const uint32_t partition = (*writer)->partition_of(a);
    for (int i = 0; i < 2000 && cluster.counters(partition).terminated_abort == 0; ++i) usleep(10'000);
    const ServiceCounters counters = cluster.counters(partition);
    EXPECT_EQ(counters.terminated_abort, 1u);
    EXPECT_EQ(counters.terminated_guess, waited_too_long ? 1u : 0u);
    EXPECT_EQ(get(**writer, {a})[0], "old");
}
INSTANTIATE_TEST_SUITE_P(Kv, Forgotten, testing::Bool());

TEST(LocalClient, has_one_transaction_in_flight_in_each_of_several_sessions) {
    for (const char* scheme : {"tcp", "shm"}) {
        Cluster cluster({.partitions = 2, .scheme = scheme});
        kv::Options options = cluster.client_options();
        options.sessions = 3;
        auto client = LocalClient::connect(options);
        ASSERT_TRUE(client) << client.status().to_string();
        ASSERT_EQ((*client)->sessions(), 3u);
        PutAll writes[3];
        static int over;
        over = 0;
        for (uint32_t i = 0; i < 3; ++i) {
            writes[i].items.push_back({.key = "key" + std::to_string(i), .value = "value"});
            writes[i].done = [](Request& request) noexcept { over += request.status ? 1 : 100; };
            (*client)->submit(writes[i], i);
        }
        while (over < 3) (*client)->turn();
        EXPECT_EQ(over, 3);
        // Each client has an id of its own, so no timestamp is issued twice.
        EXPECT_NE(writes[0].timestamp.client(), writes[1].timestamp.client());
        EXPECT_EQ(get(**client, {"key0", "key1", "key2"}), (std::vector<std::string>(3, "value")));
    }
}

TEST(Service, reports_the_latency_of_gets_and_the_reads_that_bypass_it) {
    Cluster cluster({.partitions = 1});
    kv::Options options = cluster.client_options();
    options.one_sided = OneSided::kOn;
    auto client = LocalClient::connect(options);
    ASSERT_TRUE(client);
    std::vector<std::string> keys;
    std::vector<std::pair<std::string, std::string>> items;
    for (int i = 0; i < 100; ++i) {
        keys.push_back("key" + std::to_string(i));
        items.emplace_back(keys.back(), std::string(100'000, 'v'));  // too large for one READ
    }
    ASSERT_TRUE(put(**client, {items.begin(), items.begin() + 50}));
    uint64_t total_us = 0;
    EXPECT_EQ(get(**client, {"nobody's"})[0], "(none)");
    for (int i = 0; i < 20; ++i) get(**client, {keys.begin(), keys.begin() + 50});
    uint64_t one_sided = (*client)->statistics().reads_one_sided;
    EXPECT_EQ(one_sided, 0u);
    cluster.on(0, [&](Service& service) { total_us = service.slow_log().total_us(); });
    EXPECT_GT(total_us, 100u) << "twenty answers of five megabytes";
    EXPECT_GT(cluster.counters(0).fallbacks[size_t(Fallback::kNoAddress)], 0u);
    EXPECT_GT(cluster.counters(0).fallbacks[size_t(Fallback::kLarge)], 0u);
    // The client reports these reads with its next ping, a second later.
    ASSERT_TRUE(put(**client, {{"small", "value"}}));
    for (int i = 0; i < 10; ++i) get(**client, {"small"});
    for (int i = 0; i < 400 && cluster.counters(0).one_sided_keys == 0; ++i) {
        usleep(10'000);
        (*client)->poll();
    }
    EXPECT_GE(cluster.counters(0).one_sided_keys, 9u);
}

std::vector<Mode> modes() {
    std::vector<Mode> all;
    for (const char* scheme : {"tcp", "shm"})
        for (Transport transport : {Transport::kMessage, Transport::kRing, Transport::kRingAnnounced}) {
            for (int a = 0; a <= static_cast<int>(Algorithm::kNone); ++a)
                all.push_back({scheme, static_cast<Algorithm>(a), transport, OneSided::kOff});
            for (OneSided one_sided : {OneSided::kPaper, OneSided::kOn})
                for (Algorithm algorithm : {Algorithm::kRampFast, Algorithm::kRampHybrid})
                    all.push_back({scheme, algorithm, transport, one_sided});
        }
    return all;
}
INSTANTIATE_TEST_SUITE_P(Kv, EveryMode, testing::ValuesIn(modes()));

}  // namespace wss::kv::test
