// SPDX-License-Identifier: Apache-2.0
// Runs: adjacent dirty lines that are destaged together, and events that disturb a run.
#include "tests/sim/tests/cluster_operator.h"

namespace wss::sim {
namespace {

// Dirty lines are destaged at once and have one copy.
class Runs : public ClusterOperator {
  protected:
    Runs() { options_.destage.dirty_high_percent = options_.destage.dirty_low_percent = 0; }
    void SetUp() override {
        ClusterOperator::SetUp();
        create("a", a_);
        attach("a", a_);
        std::optional<Status> set;
        target_->cache().set_policy("a", {.policy = Policy::kBack, .unsafe = true},
                                    [&](Status status) { set = std::move(status); });
        ASSERT_TRUE(until([&] { return set.has_value(); }));
        ASSERT_TRUE(*set) << set->to_string();
    }
    size_t engine_of(uint64_t line) {
        EXPECT_TRUE(drain("a"));
        EXPECT_EQ(run(a_, Operation::kWrite, line * kLine), Outcome::kOk);
        for (const auto& engine : target_->cache().info().engines)
            if (engine.dirty_lines > 0) return engine.peer.starts_with(engines_[0].node->name()) ? 0 : 1;
        ADD_FAILURE() << "no engine holds the line";
        return 0;
    }
    // Returns the first of four lines. It is in the engine `alone`; the other three are in the other engine.
    uint64_t find_lines(size_t& alone) {
        std::vector<size_t> engines;
        for (uint64_t line = 0; line < 56; ++line) {
            engines.push_back(engine_of(line));
            if (line < 3) continue;
            const size_t* const four = &engines[line - 3];
            if (four[0] == four[1] || four[1] != four[2] || four[2] != four[3]) continue;
            alone = four[0];
            return line - 3;
        }
        return UINT64_MAX;
    }
};

// The jobs of the run are released before it is written, and are reused for lines with the same numbers.
TEST_F(Runs, that_lose_one_of_their_lines_write_no_data_of_another_run) {
    size_t lost = 0;
    const uint64_t base = find_lines(lost);
    ASSERT_NE(base, UINT64_MAX);
    ASSERT_TRUE(drain("a"));
    const auto micros = [this] { return world_.now().count / 1000 % 100'000; };
    while (micros() < 2000 || micros() > 4000) world_.run_for(from_us(500));  // between two ticks
    const uint64_t a = base * kLine, c = a + kLine, d = c + kLine, e = d + kLine;
    for (uint64_t at : {d, c, a}) ASSERT_EQ(run(a_, Operation::kWrite, at), Outcome::kOk);
    // A write uses `d` when the run begins, so `d` is destaged without the others.
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, d, kLine));
    world_.run_for(from_us(30));
    world_.cut(node_, *engines_[lost].node);
    target_->cache().drain("a", [](const Status&) {});
    ASSERT_TRUE(until([&] { return a_.client->under_way() == 0; }));
    ASSERT_TRUE(until([&] { return dirty() <= 2; }, from_ms(90)));
    for (uint64_t at : {d, e}) ASSERT_EQ(run(a_, Operation::kWrite, at), Outcome::kOk);
    world_.heal_all();
    engines_[lost].process->stop();
    world_.run_for(from_s(3));
    retire(std::move(engines_[lost].process));
    for (uint64_t at : {c, d, e}) EXPECT_EQ(run(a_, Operation::kRead, at), Outcome::kOk) << at / kLine;
}

// If a line waited, its writers would wait until the silent engine's line is stored.
TEST_F(Runs, do_not_make_a_line_wait_for_the_silent_engine_of_another_line) {
    size_t silent = 0;
    const uint64_t base = find_lines(silent);
    ASSERT_NE(base, UINT64_MAX);
    ASSERT_TRUE(drain("a"));
    const uint64_t a = base * kLine, c = a + kLine, d = c + kLine;
    for (uint64_t at : {d, c, a}) ASSERT_EQ(run(a_, Operation::kWrite, at), Outcome::kOk);
    world_.cut(node_, *engines_[silent].node);
    target_->cache().drain("a", [](const Status&) {});
    world_.run_for(from_ms(2));
    ASSERT_TRUE(a_.client->begin(Operation::kWrite, c, kLine));
    EXPECT_TRUE(until([&] { return a_.client->under_way() == 0; }, from_ms(100)));
    world_.heal_all();
}

}  // namespace
}  // namespace wss::sim
