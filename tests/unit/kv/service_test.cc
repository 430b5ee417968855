// SPDX-License-Identifier: Apache-2.0
// A whole store in one process: every algorithm over every transport and one-sided mode.
#include <gtest/gtest.h>

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

TEST_P(EveryMode, what_is_written_is_read_by_others) {
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

TEST_P(EveryMode, long_values_come_back_whole) {
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

std::vector<Mode> modes() {
    std::vector<Mode> all;
    for (const char* scheme : {"tcp", "shm"})
        for (Transport transport : {Transport::kMessage, Transport::kRing}) {
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
