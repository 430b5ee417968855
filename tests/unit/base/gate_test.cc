// SPDX-License-Identifier: Apache-2.0
#include "lib/base/gate.h"

#include <gtest/gtest.h>

#include <memory>

namespace wss {
namespace {

TEST(Gate, admits_nobody_once_it_is_closed) {
    Gate gate;
    EXPECT_TRUE(gate.enter());
    gate.close([] {});
    EXPECT_TRUE(gate.closed());
    EXPECT_FALSE(gate.enter());
    EXPECT_EQ(gate.count(), 0u);
}

TEST(Gate, reports_at_once_when_nobody_is_inside) {
    Gate gate;
    bool drained = false;
    gate.close([&] { drained = true; });
    EXPECT_TRUE(drained);
}

TEST(Gate, reports_once_when_the_last_holder_leaves) {
    Gate gate;
    int drained = 0;
    Gate::Holder first = gate.enter(), second = gate.enter();
    gate.close([&] { ++drained; });
    first.release();
    first.release();
    EXPECT_EQ(drained, 0);
    second.release();
    EXPECT_EQ(drained, 1);
}

TEST(Gate, holder_leaves_when_it_dies_and_moves_its_place) {
    Gate gate;
    {
        Gate::Holder one = gate.enter();
        Gate::Holder other = std::move(one);
        EXPECT_FALSE(one);
        EXPECT_TRUE(other);
        EXPECT_EQ(gate.count(), 1u);
        other = gate.enter();
        EXPECT_EQ(gate.count(), 1u) << "the place that was overwritten is left";
    }
    EXPECT_EQ(gate.count(), 0u);
}

TEST(Gate, holder_shares_its_place_although_the_gate_is_closed) {
    Gate gate;
    bool drained = false;
    Gate::Holder first = gate.enter();
    gate.close([&] { drained = true; });
    Gate::Holder second = first.share();
    first.release();
    EXPECT_FALSE(drained);
    second.release();
    EXPECT_TRUE(drained);
}

TEST(Gate, may_be_destroyed_by_what_it_reports_to) {
    auto gate = std::make_unique<Gate>();
    Gate::Holder holder = gate->enter();
    gate->close([&gate] { gate.reset(); });
    holder.release();
    EXPECT_EQ(gate, nullptr);
}

TEST(GateDeathTest, asserts_that_nobody_is_inside_when_it_dies) {
    EXPECT_DEATH(
        {
            auto gate = std::make_unique<Gate>();
            Gate::Holder holder = gate->enter();
            gate.reset();
        },
        "a gate has no holder");
}

TEST(GateDeathTest, is_closed_once) {
    EXPECT_DEATH(
        {
            Gate gate;
            gate.close([] {});
            gate.close([] {});
        },
        "closed once");
}

}  // namespace
}  // namespace wss
