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

TEST_F(KvSpilling, writes_a_bounded_number_of_bytes_in_a_turn) {
    for (int turn = 0; turn < 3; turn++) {
        log.bytes = 0;
        bench.store->maintain({});
        EXPECT_GT(log.bytes, 0u);
        EXPECT_LE(log.bytes, (size_t{2} << 20) + kValue + 1000);
    }
}

TEST_F(KvSpilling, writes_nothing_while_the_log_is_congested) {
    log.congested = true;
    log.bytes = 0;
    bench.store->maintain({});
    EXPECT_EQ(log.bytes, 0u);
    log.congested = false;
    bench.store->maintain({});
    EXPECT_GT(log.bytes, 0u);
}

TEST_F(KvSpilling, refuses_no_write_while_the_log_is_congested) {
    log.congested = true;
    EXPECT_EQ(bench.put(next, {{"small", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.get("small"), "value");
}

TEST_F(KvSpilling, frees_the_memory_of_a_value_when_it_is_on_disk) {
    bench.store->maintain({});
    const uint64_t used = bench.store->statistics().arena_used;
    ASSERT_EQ(cold(), 0u);
    persist();
    EXPECT_GE(cold(), 10u);
    EXPECT_LT(bench.store->statistics().arena_used, used);
    EXPECT_EQ(bench.store->statistics().evicted, cold());
}

TEST_F(KvSpilling, keeps_a_value_in_memory_that_was_read_while_it_was_written) {
    bench.store->maintain({});
    for (uint64_t number = 1; number < next; number++) (void)bench.get(key(number));
    persist();
    EXPECT_EQ(cold(), 0u);
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

TEST_F(KvSpilling, that_failed_keeps_every_value_in_memory) {
    bench.store->maintain({});
    persist();
    const uint64_t on_disk = cold();
    log.log.fail();
    bench.store->maintain({});
    persist();
    const size_t batches = log.batches;
    for (int turn = 0; turn < 10; turn++) bench.store->maintain({}), persist();
    EXPECT_EQ(log.batches, batches) << "it has stopped";
    EXPECT_EQ(cold(), on_disk);
    for (uint64_t number = 1; number < next; number++)
        ASSERT_EQ(bench.value_of(bench.store->get(key(number))).size(), kValue) << number;
}

}  // namespace
}  // namespace wss::kv::store
