// SPDX-License-Identifier: Apache-2.0
// The simulated world: every run ends.
#include "lib/reactor/sim/world.h"

#include <gtest/gtest.h>

namespace wss::sim {
namespace {

// Reports work in each of its first `turns` turns.
class Busy final : public reactor::Source {
  public:
    explicit Busy(uint32_t turns) : turns_(turns) {}
    size_t poll() noexcept override { return turns_ > 0 ? turns_-- : 0; }

  private:
    uint32_t turns_;
};

void run(uint32_t turns) {
    World world(1);
    Node& node = world.add_node("spinner");
    reactor::Reactor reactor(node.clock());
    Busy busy(turns);
    reactor.add(busy);
    node.run(reactor);
    world.run_for(from_s(1));
    node.forget(reactor);
    reactor.remove(busy);
}

TEST(WorldDeathTest, ends_a_run_with_an_error_that_names_a_reactor_that_never_becomes_idle) {
    EXPECT_DEATH(run(World::kTurnsMax + 10), "livelock: .* busy: spinner");
}

TEST(World, does_not_take_much_work_at_one_instant_for_a_livelock) {
    run(World::kTurnsMax - 10);
}

TEST(World, counts_turns_from_zero_when_time_advances) {
    World world(1);
    uint32_t ran = 0;
    for (uint32_t i = 0; i < 2 * World::kTurnsMax; i += 1000)
        world.schedule(from_ms(i), [&world, &ran] {
            for (uint32_t turn = 0; turn < 1000; ++turn) world.schedule(world.now(), [&ran] { ++ran; });
        });
    world.run_for(from_s(1000));
    EXPECT_EQ(ran, 2 * World::kTurnsMax);
}

}  // namespace
}  // namespace wss::sim
