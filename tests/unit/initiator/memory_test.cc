// SPDX-License-Identifier: Apache-2.0
// The bounce arena and the table of registrations.
#include "lib/initiator/memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <map>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/open.h"
#include "lib/initiator/options.h"
#include "lib/initiator/payload.h"

namespace wss::initiator {
namespace {

std::unique_ptr<fabric::Fabric> any_fabric() {
    return *std::move(fabric::open({.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0}));
}

TEST(BouncePool, never_allocates_overlapping_runs_and_recovers_all_that_are_returned) {
    auto fabric = any_fabric();
    auto pool = *std::move(BouncePool::create(*fabric, 0));
    Random random(1);
    std::map<uint32_t, Bounce> taken;
    for (int i = 0; i < 20000; ++i) {
        if (random.chance(2) && !taken.empty()) {
            auto at = std::next(taken.begin(), static_cast<ptrdiff_t>(random.below(taken.size())));
            pool->give_back(at->second);
            taken.erase(at);
            continue;
        }
        auto got = pool->take(random.below(8) * kBounceChunk + 1);
        if (!got) continue;
        auto next = taken.lower_bound(got->first);
        if (next != taken.end()) {
            ASSERT_LE(got->first + got->chunks, next->first);
        }
        if (next != taken.begin()) {
            ASSERT_LE(std::prev(next)->second.first + std::prev(next)->second.chunks, got->first);
        }
        taken[got->first] = *got;
    }
    for (auto& [first, bounce] : taken) pool->give_back(bounce);
    EXPECT_EQ(pool->in_use(), 0u);
    EXPECT_TRUE(pool->take(pool->largest()).has_value()) << "the whole arena in one run";
}

TEST(BouncePool, that_is_full_returns_no_run) {
    auto fabric = any_fabric();
    auto pool = *std::move(BouncePool::create(*fabric, 0));
    ASSERT_TRUE(pool->take(pool->largest()).has_value());
    EXPECT_FALSE(pool->take(1).has_value());
}

struct PinnedRegions : ::testing::Test {
    static constexpr size_t kPage = 4096;
    PinnedRegions() {
        void* mapped = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory = {static_cast<std::byte*>(mapped), kBytes};
    }
    ~PinnedRegions() override { munmap(memory.data(), memory.size()); }
    std::span<std::byte> pages(size_t first, size_t count) {
        return memory.subspan(first * kPage, count * kPage);
    }

    static constexpr size_t kBytes = 64 * kPage;
    std::span<std::byte> memory;
    std::unique_ptr<fabric::Fabric> fabric = any_fabric();
    RegionTable table{*fabric, {.pins_max = 4, .pin_bytes_max = 16 * kPage}};
};

TEST_F(PinnedRegions, are_found_again_and_cover_whole_pages) {
    auto* entry = table.find_or_pin(memory.subspan(100, 50));
    ASSERT_NE(entry, nullptr);
    EXPECT_EQ(entry->region->bytes().size(), kPage);
    EXPECT_EQ(table.find(memory.subspan(0, kPage)), entry);
    EXPECT_EQ(table.find(memory.subspan(0, kPage + 1)), nullptr);
    auto remote = entry->remote(memory.subspan(100, 50), 0);
    EXPECT_EQ(remote.address, entry->region->remote_address() + 100);
    EXPECT_EQ(remote.length, 50u);
}

TEST_F(PinnedRegions, are_evicted_in_order_of_their_last_use) {
    for (size_t i = 0; i < 4; ++i) ASSERT_NE(table.find_or_pin(pages(i * 2, 1)), nullptr);
    table.find(pages(0, 1));
    ASSERT_NE(table.find_or_pin(pages(20, 1)), nullptr);
    EXPECT_EQ(table.pins(), 4u);
    EXPECT_NE(table.find(pages(0, 1)), nullptr);
    EXPECT_EQ(table.find(pages(2, 1)), nullptr);
}

TEST_F(PinnedRegions, are_bounded_in_bytes) {
    ASSERT_NE(table.find_or_pin(pages(0, 10)), nullptr);
    ASSERT_NE(table.find_or_pin(pages(20, 10)), nullptr);
    EXPECT_EQ(table.pinned_bytes(), 10 * kPage);
    EXPECT_EQ(table.find_or_pin(pages(0, 17)), nullptr) << "more than the limit";
}

TEST_F(PinnedRegions, are_replaced_by_a_new_range_that_overlaps_them) {
    ASSERT_NE(table.find_or_pin(pages(0, 4)), nullptr);
    auto* wider = table.find_or_pin(pages(2, 6));
    ASSERT_NE(wider, nullptr);
    EXPECT_EQ(table.pins(), 1u);
    EXPECT_EQ(table.find(pages(0, 1)), nullptr);
    EXPECT_EQ(table.find(pages(3, 4)), wider);
}

TEST_F(PinnedRegions, that_are_invalidated_live_while_a_request_holds_them) {
    auto* entry = table.find_or_pin(pages(0, 2));
    ASSERT_NE(entry, nullptr);
    table.hold(*entry);
    table.invalidate(pages(1, 1));
    EXPECT_EQ(table.find(pages(0, 1)), nullptr);
    EXPECT_EQ(entry->region->bytes().size(), 2 * kPage) << "still mapped";
    auto* again = table.find_or_pin(pages(0, 2));
    EXPECT_NE(again, entry);
    table.release(*entry);
}

TEST_F(PinnedRegions, that_the_caller_registered_are_not_evicted) {
    auto own = fabric->register_memory(pages(4, 4), fabric::Access::kRemoteReadWrite);
    ASSERT_TRUE(own.is_ok());
    ASSERT_NE(table.find_or_pin(pages(6, 4)), nullptr);
    ASSERT_TRUE(table.add(*std::move(own)));
    EXPECT_EQ(table.pins(), 0u) << "a pin is evicted";
    EXPECT_EQ(table.find_or_pin(pages(6, 4)), nullptr) << "a pin does not evict it";
    table.invalidate(pages(0, 64));
    auto* entry = table.find(pages(4, 4));
    ASSERT_NE(entry, nullptr);
    auto twice = fabric->register_memory(pages(7, 2), fabric::Access::kRemoteReadWrite);
    EXPECT_EQ(table.add(*std::move(twice)).code(), Code::kExists);
    table.hold(*entry);
    EXPECT_EQ(table.remove(pages(4, 1).data()).status().code(), Code::kBusy);
    table.release(*entry);
    EXPECT_TRUE(table.remove(pages(4, 1).data()).is_ok());
    EXPECT_EQ(table.remove(pages(4, 1).data()).status().code(), Code::kNotFound);
}

// Returns how a read into `buffer` is planned, and how many registrations it holds.
std::pair<Payload::Kind, int> plan(DataMemory& memory, std::span<std::byte> buffer) {
    iovec one{.iov_base = buffer.data(), .iov_len = buffer.size()};
    Payload payload{.direction = Direction::kIn,
                    .length = static_cast<uint32_t>(buffer.size()),
                    .where = Cursor({&one, 1})};
    Descriptors descriptors;
    EXPECT_TRUE(memory.plan(payload, 0, descriptors));
    EXPECT_EQ(descriptors.count, 1u);
    auto planned = std::pair(payload.kind, int{payload.count});
    memory.release(payload);
    return planned;
}

TEST(DataMemory, is_copied_over_shm_unless_it_was_allocated) {
    Options options{.pin_at_least = 1};
    std::vector<std::byte> buffers(16 * 4096);
    for (auto scheme : {fabric::Scheme::kTcp, fabric::Scheme::kShm}) {
        auto fabric = *std::move(fabric::open({.scheme = scheme, .host = "/unused", .port = 0}));
        auto memory = *std::move(DataMemory::create(*fabric, options));
        const bool copied = copies_registered(*fabric);
        EXPECT_EQ(copied, scheme == fabric::Scheme::kShm);
        auto expected = copied ? Payload::Kind::kBounce : Payload::Kind::kRegions;
        std::span<std::byte> registered = std::span(buffers).first(4096);
        ASSERT_TRUE(memory->regions().add(
            *fabric->register_memory(registered, fabric::Access::kRemoteReadWrite), copied));
        EXPECT_EQ(plan(*memory, registered), std::pair(expected, 1));
        EXPECT_TRUE(memory->regions().remove(registered.data()).is_ok()) << "no request holds it";
        EXPECT_EQ(plan(*memory, std::span(buffers).last(4096)), std::pair(expected, copied ? 0 : 1));
        auto allocated = *fabric->allocate(4096, fabric::Access::kRemoteReadWrite);
        std::span<std::byte> bytes = allocated->bytes();
        ASSERT_TRUE(memory->regions().add(std::move(allocated)));
        EXPECT_EQ(plan(*memory, bytes), std::pair(Payload::Kind::kRegions, 1));
    }
}

}  // namespace
}  // namespace wss::initiator
