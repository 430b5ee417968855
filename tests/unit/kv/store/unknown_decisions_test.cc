// SPDX-License-Identifier: Apache-2.0
// Commits and aborts of transactions that the store does not know. It must remember them, and a client can
// send any number.
#include <gtest/gtest.h>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

Answer decide(Store& store, bool commits, uint64_t number) {
    const Timestamp timestamp = Timestamp::make(1000 + number, 1);
    return commits ? store.commit(timestamp) : store.withdraw(timestamp, {});
}

class UnknownDecision : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kv, UnknownDecision, testing::Bool(),
                         [](const auto& param) { return param.param ? "commit" : "abort"; });

TEST_P(UnknownDecision, is_refused_when_memory_is_full_but_inquiries_are_answered) {
    constexpr uint64_t kMany = 5000;
    Bench bench({.heap_limit = 256u << 10});
    Answer last = Answer::kOk;
    for (uint64_t i = 0; i < kMany; ++i) last = decide(*bench.store, GetParam(), i);
    EXPECT_EQ(last, Answer::kBusy);
    EXPECT_LT(bench.store->statistics().decisions, kMany);
    EXPECT_EQ(bench.store->inquire(Timestamp::make(1, 1), {}), Answer::kAborted);
}

class CongestedLog final : public Log {
  public:
    Status load(LogVisitor&) override { return Status::ok(); }
    void append(LogBatch, uint64_t) override { ++appended; }
    void fetch(std::string_view, Timestamp, uint64_t) override {}
    Result<bool> find_transaction(Timestamp, LoggedTransaction&) override { return false; }
    size_t poll(std::vector<LogCompletion>&) override { return 0; }
    bool is_congested() const noexcept override { return true; }
    size_t appended = 0;
};

TEST_P(UnknownDecision, is_refused_when_the_log_is_congested) {
    CongestedLog log;
    Bench bench({.durability = Durability::kAsync}, Bench::kArena, &log);
    EXPECT_EQ(decide(*bench.store, GetParam(), 0), Answer::kBusy);
    EXPECT_EQ(log.appended, 0u);
}

}  // namespace
}  // namespace wss::kv::store
