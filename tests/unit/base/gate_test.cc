// SPDX-License-Identifier: Apache-2.0
#include "lib/base/gate.h"

#include <gtest/gtest.h>

#include <memory>

namespace wss {
namespace {

TEST(Gate, admits_no_holder_once_it_is_closed) {
    Gate gate;
    EXPECT_TRUE(gate.enter());
    gate.close([] {});
    EXPECT_TRUE(gate.closed());
    EXPECT_FALSE(gate.enter());
    EXPECT_EQ(gate.count(), 0u);
}

TEST(Gate, reports_at_once_if_it_has_no_holder) {
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

TEST(Gate, lets_a_holder_leave_on_destruction_and_pass_on_its_place_when_moved) {
    Gate gate;
    {
        Gate::Holder one = gate.enter();
        Gate::Holder other = std::move(one);
        EXPECT_FALSE(one);
        EXPECT_TRUE(other);
        EXPECT_EQ(gate.count(), 1u);
        other = gate.enter();
        EXPECT_EQ(gate.count(), 1u) << "the overwritten holder has left";
    }
    EXPECT_EQ(gate.count(), 0u);
}

TEST(Gate, lets_a_holder_be_copied_after_it_is_closed) {
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

TEST(Gate, may_be_destroyed_by_its_report) {
    auto gate = std::make_unique<Gate>();
    Gate::Holder holder = gate->enter();
    gate->close([&gate] { gate.reset(); });
    holder.release();
    EXPECT_EQ(gate, nullptr);
}

TEST(GateDeathTest, asserts_on_destruction_that_it_has_no_holder) {
    EXPECT_DEATH(
        {
            auto gate = std::make_unique<Gate>();
            Gate::Holder holder = gate->enter();
            gate.reset();
        },
        "a gate has no holder");
}

TEST(GateDeathTest, asserts_that_it_is_closed_only_once) {
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
