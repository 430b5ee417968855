// SPDX-License-Identifier: Apache-2.0
// Clients that find keys through the partitions' indexes: clients without an address cache, and new clients.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {
namespace {

constexpr uint32_t kKeys = 2000;

std::string key_name(uint32_t key) {
    return "key" + std::to_string(key);
}

std::unique_ptr<LocalClient> connect(const Cluster& cluster, OneSided mode, uint32_t address_cache) {
    kv::Options options = cluster.client_options();
    options.one_sided = mode;
    options.address_cache = address_cache;
    auto client = LocalClient::connect(options);
    EXPECT_TRUE(client) << client.status().to_string();
    return client ? std::move(*client) : nullptr;
}

void fill(LocalClient& client) {
    for (uint32_t key = 0; key < kKeys; key += 8) {
        std::vector<std::pair<std::string, std::string>> items;
        for (uint32_t i = key; i < key + 8; ++i) items.emplace_back(key_name(i), std::to_string(i));
        ASSERT_TRUE(put(client, items));
    }
}

// Reads all keys once, eight at a time.
void read_all(LocalClient& client) {
    for (uint32_t key = 0; key < kKeys; key += 8) {
        std::vector<std::string> keys, expected;
        for (uint32_t i = key; i < key + 8; ++i) {
            keys.push_back(key_name(i * 7 % kKeys));
            expected.push_back(std::to_string(i * 7 % kKeys));
        }
        ASSERT_EQ(get(client, keys), expected);
    }
}

// Keys written before the first one-sided reader connected get their slots gradually.
void wait_for_slots(Cluster& cluster) {
    for (uint32_t p = 0; p < cluster.addresses().size(); ++p) {
        bool all = false;
        for (int i = 0; i < 1000 && !all; ++i, usleep(5000))
            cluster.on(p, [&](Service& service) {
                const store::Statistics kept = service.store().statistics();
                all = kept.indexed * 100 >= kept.keys * 98;
            });
        EXPECT_TRUE(all) << p;
    }
}

class IndexRead : public testing::TestWithParam<const char*> {
  protected:
    Cluster cluster{{.partitions = 3, .scheme = GetParam()}};
};

std::string scheme_of(const testing::TestParamInfo<const char*>& info) {
    return info.param;
}

}  // namespace

TEST_P(IndexRead, by_a_new_client_needs_no_server_for_keys_in_memory) {
    fill(*connect(cluster, OneSided::kOff, 0));
    connect(cluster, OneSided::kOn, 0);
    auto first = connect(cluster, OneSided::kOn, 0);
    get(*first, {key_name(0), key_name(1), key_name(2), key_name(3), key_name(4), key_name(5)});
    wait_for_slots(cluster);
    for (uint32_t address_cache : {0u, 1u << 16}) {
        auto client = connect(cluster, OneSided::kOn, address_cache);
        read_all(*client);
        const Statistics& counts = client->statistics();
        EXPECT_GE(counts.reads_one_sided, kKeys * 98 / 100) << counts.reads_by_message;
        EXPECT_GE(counts.index_reads, kKeys * 98 / 100);
        const uint64_t before = counts.index_reads;
        read_all(*client);
        EXPECT_EQ(client->statistics().index_reads > before + kKeys / 10, address_cache == 0)
            << "a cache remembers the addresses that were found";
    }
}

TEST_P(IndexRead, sees_each_acknowledged_write_and_each_delete) {
    auto writer = connect(cluster, OneSided::kOff, 0);
    auto reader = connect(cluster, OneSided::kOn, 0);
    for (int round = 0; round < 200; ++round) {
        const std::string value = std::to_string(round);
        ASSERT_TRUE(put(*writer, {{"x", value}, {"y", value}}));
        ASSERT_EQ(get(*reader, {"x", "y", "none"}), (std::vector<std::string>{value, value, "(none)"}));
    }
    PutAll erase;
    erase.items.push_back({.key = "x", .value = "", .remove = true});
    writer->run(erase);
    ASSERT_TRUE(erase.status);
    EXPECT_EQ(get(*reader, {"x", "y"}), (std::vector<std::string>{"(none)", "199"}));
    EXPECT_GT(reader->statistics().reads_one_sided, 200u);
}

TEST_P(IndexRead, follows_the_index_while_it_grows) {
    auto reader = connect(cluster, OneSided::kOn, 0);
    std::atomic<uint32_t> written{0};
    std::thread thread([&] {
        auto writer = connect(cluster, OneSided::kOff, 0);
        for (uint32_t key = 0; key < kKeys; ++key) {
            if (!put(*writer, {{key_name(key), std::to_string(key)}})) break;
            written = key + 1;
        }
    });
    SystemClock clock;
    const Nanoseconds limit = clock.now() + from_s(60);
    uint32_t seen = 0;
    for (uint32_t turn = 0; seen < kKeys && clock.now() < limit; ++turn) {
        seen = written;
        if (seen == 0) continue;
        const uint32_t key = turn * 31 % seen;
        const std::vector<std::string> values = get(*reader, {key_name(key), key_name(seen - 1)});
        ASSERT_EQ(values, (std::vector<std::string>{std::to_string(key), std::to_string(seen - 1)}));
    }
    thread.join();
    EXPECT_EQ(seen, kKeys);
    read_all(*reader);
}

TEST_P(IndexRead, of_slots_that_are_reused_for_other_keys_returns_no_old_keys) {
    auto writer = connect(cluster, OneSided::kOff, 0);
    auto reader = connect(cluster, OneSided::kOn, 1 << 16);
    fill(*writer);
    read_all(*reader);
    cluster.stop(0);
    cluster.start(0);  // it has no contents now
    uint32_t lost = 0;
    for (uint32_t key = 0; key < kKeys; ++key) {
        const std::string value = get(*reader, {key_name(key)})[0];
        lost += value == "(none)";
        ASSERT_TRUE(value == "(none)" || value == std::to_string(key)) << value;
    }
    EXPECT_GT(lost, kKeys / 6);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, IndexRead, testing::Values("shm", "tcp"), scheme_of);

// --- clients without support for the index

TEST(IndexGreeting, names_the_index_only_to_clients_that_request_it) {
    Cluster cluster({.partitions = 1});
    const auto indexed = [&](OneSided mode) {
        auto client = connect(cluster, mode, 0);
        EXPECT_TRUE(put(*client, {{"key", "value"}}));
        uint64_t keys = 0;
        cluster.on(0, [&](Service& service) { keys = service.store().statistics().indexed; });
        return keys;
    };
    EXPECT_EQ(indexed(OneSided::kOff), 0u) << "writes of stores without one-sided readers need no slots";
    EXPECT_EQ(indexed(OneSided::kOn), 1u);
}

}  // namespace wss::kv::test
