// SPDX-License-Identifier: Apache-2.0
// The datapath allocates no memory. The test program's operator new counts calls while the target's reactors
// run. This test is not built with a sanitizer, which has its own operator new.
#include "tests/unit/target/world.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

#include <cstdlib>
#include <new>

namespace {
thread_local bool forbidden = false;
thread_local size_t allocations = 0;

void* allocate(size_t bytes, size_t alignment) {
    if (forbidden) ++allocations;
    void* made = alignment > alignof(std::max_align_t)
                     ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                     : std::malloc(bytes);
    if (made == nullptr) std::abort();
    return made;
}
}  // namespace

void* operator new(size_t bytes) {
    return allocate(bytes, 1);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
    return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
    std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
    std::free(memory);
}

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

class NoAllocation : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Storage, NoAllocation, ::testing::Values("ram:8M", "delay:us=1:ram:8M"),
                         [](const auto& each) { return each.param[0] == 'r' ? "memory" : "queue"; });

TEST_P(NoAllocation, takes_place_in_reads_writes_and_errors) {
    World world;
    world.add_volume("v0", GetParam(), 8 << 20);
    auto client = world.client(1, WSS_CAP_ALL);
    world.before_target_steps = [] { forbidden = true; };
    world.after_target_steps = [] { forbidden = false; };
    std::vector<byte> data(16384);
    auto round = [&] {
        for (int i = 0; i < 30; ++i) {
            client->start(0, cdb_read16(i * 8, 8), Direction::kIn, {client->remote(0, 4096)});
            client->start(0, cdb_write16(i * 8, 256), Direction::kOut, {client->remote(0, 131072)});
            client->start_immediate(0, cdb_write16(i * 8, 32), data);
            client->start(0, cdb_read16(1 << 30, 8), Direction::kIn, {client->remote(0, 4096)});
        }
        ASSERT_TRUE(world.until([&] { return client->credits() == kCreditsDefault; }));
    };
    round();  // queues reach their final size
    allocations = 0;
    round();
    EXPECT_EQ(allocations, 0u) << "in " << 120 << " commands";
}

TEST(NoAllocation, takes_place_in_commands_delayed_by_a_limit) {
    HandClock clock;
    World world({.clock = &clock});
    world.add_volume("v0", "ram:8M", 8 << 20);
    auto client = world.client(1, WSS_CAP_ALL);
    std::optional<Status> limited;
    world.volumes().set_limits_async("v0", {.iops = 100, .bandwidth = 1 << 20},
                                     [&](Status status) { limited = status; });
    ASSERT_TRUE(world.until([&] { return limited.has_value(); }));
    world.before_target_steps = [] { forbidden = true; };
    world.after_target_steps = [] { forbidden = false; };
    auto round = [&] {
        for (int i = 0; i < 30; ++i)
            client->start(0, cdb_read16(i * 8, 8), Direction::kIn, {client->remote(0, 4096)});
        ASSERT_TRUE(world.until([&] {
            clock.advance(from_ms(1));
            return client->credits() == kCreditsDefault;
        }));
    };
    round();
    allocations = 0;
    round();
    EXPECT_EQ(allocations, 0u);
    EXPECT_GT(world.volumes().find("v0")->totals.delayed, 20u);
}

TEST(NoAllocationCheck, detects_an_allocation) {
    forbidden = true;
    allocations = 0;
    delete new int(1);
    void* raw = operator new(10);
    forbidden = false;
    operator delete(raw);
    EXPECT_GE(allocations, 1u);
}

}  // namespace
}  // namespace wss::block::testing

#endif
