// SPDX-License-Identifier: Apache-2.0
// The result that a writer gets when a failing log refuses its write.
#include <gtest/gtest.h>

#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

// The log fails after it has accepted the write, so a restart may find the write.
class FailedLog : public testing::Test {
  protected:
    store::MemoryLog logs[2];
    Cluster cluster{{.partitions = 2, .logs = {&logs[0], &logs[1]}}};
    std::unique_ptr<LocalClient> client = *LocalClient::connect(cluster.client_options());

    void fail(uint32_t partition) {
        cluster.on(partition, [&](Service&) { logs[partition].fail(); });
    }
    std::string key_of(uint32_t partition) {
        std::string key = "key";
        while (client->partition_of(key) != partition) key += "y";
        return key;
    }
    void write(PutAll& put, std::vector<std::string> keys) {
        for (std::string& key : keys) put.items.push_back({.key = std::move(key), .value = "value"});
        client->run(put);
        EXPECT_EQ(put.status.code(), Code::kIo) << put.status.to_string();
    }
};

TEST_F(FailedLog, leaves_the_outcome_of_a_write_on_one_partition_unknown) {
    fail(0);
    PutAll put;
    write(put, {key_of(0)});
    EXPECT_TRUE(put.outcome_unknown);
}

TEST_F(FailedLog, leaves_the_outcome_of_a_conditional_write_unknown) {
    fail(0);
    PutIf put;
    put.key = key_of(0);
    put.value = "value";
    client->run(put);
    EXPECT_EQ(put.status.code(), Code::kIo);
    EXPECT_TRUE(put.outcome_unknown);
}

// The partition that did not fail records the abort, and reports it to the other one after its restart.
TEST_F(FailedLog, on_one_of_two_partitions_aborts_the_write) {
    fail(0);
    PutAll put;
    write(put, {key_of(0), key_of(1)});
    EXPECT_FALSE(put.outcome_unknown);
}

// Both partitions may find the write prepared when they restart, and then commit it.
TEST_F(FailedLog, on_all_partitions_leaves_the_outcome_unknown) {
    fail(0), fail(1);
    PutAll put;
    write(put, {key_of(0), key_of(1)});
    EXPECT_TRUE(put.outcome_unknown);
}

}  // namespace wss::kv::test
