// SPDX-License-Identifier: Apache-2.0
// Writes that begin after others were acknowledged have later timestamps, whatever the clocks of their
// clients show.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

class WriteOrder : public testing::TestWithParam<Algorithm> {
  protected:
    Cluster cluster{{.partitions = 2}};
    std::unique_ptr<LocalClient> client = connect();
    const std::vector<std::string> keys = {"key0", "key1", "key2", "key3", "key4"};

    std::unique_ptr<LocalClient> connect() {
        Options options = cluster.client_options();
        options.algorithm = GetParam();
        return std::move(*LocalClient::connect(options));
    }
    // Writes as a client whose clock is `ticks` ahead of the true time.
    void write_ahead(const std::string& key, uint64_t ticks) {
        cluster.on(client->partition_of(key), [&](Service& service) {
            SystemWallClock wall;
            const std::string text = "theirs";
            const store::Write write{.key = key, .value = std::as_bytes(std::span(text))};
            ASSERT_EQ(service.store().put({.timestamp = Timestamp::make(wall.ticks() + ticks, 77),
                                           .writes = {&write, 1},
                                           .alone = true},
                                          {}),
                      store::Answer::kOk);
        });
    }
};
INSTANTIATE_TEST_SUITE_P(Kv, WriteOrder,
                         testing::Values(Algorithm::kRampFast, Algorithm::kRampSmall, Algorithm::kRampHybrid,
                                         Algorithm::kLockSequential, Algorithm::kLockParallel));

TEST_P(WriteOrder, lets_a_write_of_one_key_replace_a_version_written_by_a_clock_far_ahead) {
    write_ahead("key0", 50'000'000);
    ASSERT_TRUE(put(*client, {{"key0", "mine"}}));
    EXPECT_EQ(get(*client, {"key0"})[0], "mine");
    EXPECT_EQ(get(*connect(), {"key0"})[0], "mine");
}

TEST_P(WriteOrder, lets_a_write_of_many_keys_replace_versions_written_by_a_clock_far_ahead) {
    for (size_t i = 0; i < keys.size(); ++i) write_ahead(keys[i], 10'000'000 * i);
    std::vector<std::pair<std::string, std::string>> items;
    for (const std::string& key : keys) items.emplace_back(key, "mine");
    ASSERT_TRUE(put(*client, items));
    for (const std::string& value : get(*connect(), keys)) EXPECT_EQ(value, "mine");
}

TEST_P(WriteOrder, keeps_a_deleted_key_deleted) {
    write_ahead("key0", 50'000'000);
    PutAll remove;
    remove.items.push_back({.key = "key0", .remove = true});
    client->run(remove);
    ASSERT_TRUE(remove.status) << remove.status.to_string();
    EXPECT_EQ(get(*connect(), {"key0"})[0], "(none)");
}

}  // namespace wss::kv::test
