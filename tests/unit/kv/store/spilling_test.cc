// SPDX-License-Identifier: Apache-2.0
// Durability `memory` with a disk: values leave a full arena, but the disk must not disturb the store.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

class CountingLog final : public Log {
  public:
    Status load(LogVisitor& visitor) override { return log.load(visitor); }
    void append(LogBatch batch, uint64_t ticket) override {
        bytes += batch.bytes();
        batches++;
        log.append(std::move(batch), ticket);
    }
    void fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) override {
        log.fetch(key, timestamp, ticket);
    }
    Result<bool> find_transaction(Timestamp timestamp, LoggedTransaction& found) override {
        return log.find_transaction(timestamp, found);
    }
    size_t poll(std::vector<LogCompletion>& done) override { return log.poll(done); }
    bool is_congested() const noexcept override { return congested; }

    MemoryLog log{MemoryLog::Persist::kByHand};
    size_t bytes = 0, batches = 0;
    bool congested = false;
};

struct KvSpilling : ::testing::Test {
    static constexpr size_t kValue = 100'000;

    KvSpilling() {
        while (bench.store->statistics().arena_used < bench.store->statistics().arena_bytes / 100 * 88) {
            EXPECT_EQ(bench.put(next, {{key(next), std::string(kValue, 'v')}}), Answer::kOk) << next;
            next++;
        }
    }
    static std::string key(uint64_t number) { return "key" + std::to_string(number); }
    void persist() {
        log.log.persist(log.log.unpersisted());
        bench.store->poll();
    }
    uint64_t cold() const { return bench.store->statistics().cold_versions; }

    CountingLog log;
    Bench bench{{.durability = Durability::kMemory}, size_t{16} << 20, &log};
    uint64_t next = 1;
};

TEST_F(KvSpilling, refuses_no_write_while_the_log_is_congested) {
    log.congested = true;
    EXPECT_EQ(bench.put(next, {{"small", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.get("small"), "value");
}

TEST_F(KvSpilling, that_failed_refuses_no_write) {
    EXPECT_EQ(bench.prepare(next, {{"undecided", "value"}}), Answer::kOk);
    log.log.fail();
    bench.store->maintain({});
    persist();
    ASSERT_GT(bench.store->statistics().log_failures, 0u);
    EXPECT_EQ(bench.store->abort({next++}, {}), Answer::kAborted);
    EXPECT_EQ(bench.store->inquire({next++}, {}), Answer::kAborted);
    EXPECT_EQ(bench.put(next++, {{"small", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.get("small"), "value");
    EXPECT_EQ(bench.erase(next++, "small"), Answer::kOk);
    EXPECT_EQ(bench.get("small"), "(deleted)");
}

}  // namespace
}  // namespace wss::kv::store
