// SPDX-License-Identifier: Apache-2.0
// A session with a real target: finding volumes, every operation, limits.
#include "tests/unit/initiator/bench.h"

namespace wss::initiator::testing {
namespace {

constexpr uint64_t kMiB = 1024 * 1024;

class InitiatorSession : public ::testing::Test {
  protected:
    void SetUp() override {
        both.world.add_volume("disk1", "ram:16M", 16 * kMiB);
        both.world.add_volume("disk2", "ram:4M", 4 * kMiB, 4096);
        ASSERT_TRUE(bench.start()) << bench.why.to_string();
        disk1 = bench.open("disk1");
        ASSERT_NE(disk1, nullptr) << bench.why.to_string();
    }
    TargetAndBench both;
    Bench& bench = both.bench;
    Volume* disk1 = nullptr;
};

TEST_F(InitiatorSession, finds_volumes_by_name_and_describes_them) {
    ASSERT_EQ(bench.session().volumes().size(), 2u);
    EXPECT_EQ(bench.session().volumes()[0].name, "disk1");
    EXPECT_EQ(disk1->info().size, 16 * kMiB);
    EXPECT_EQ(disk1->info().block_size, 512u);
    EXPECT_FALSE(disk1->info().read_only);
    EXPECT_TRUE(disk1->info().discard);
    EXPECT_GT(disk1->info().compare_max, 0u);
    Volume* disk2 = bench.open("disk2");
    ASSERT_NE(disk2, nullptr);
    EXPECT_EQ(disk2->info().block_size, 4096u);
    EXPECT_NE(disk1->info().naa, disk2->info().naa);
}

TEST_F(InitiatorSession, refuses_an_unknown_volume_with_the_names_that_exist) {
    EXPECT_EQ(bench.open("disk9"), nullptr);
    EXPECT_EQ(bench.why.code(), Code::kNotFound);
    EXPECT_NE(bench.why.text().find("'disk1', 'disk2'"), std::string::npos) << bench.why.text();
}

TEST_F(InitiatorSession, refuses_an_empty_name_if_there_are_two_volumes) {
    EXPECT_EQ(bench.open(""), nullptr);
    EXPECT_EQ(bench.why.code(), Code::kInvalid);
}

TEST_F(InitiatorSession, finds_a_volume_created_after_login) {
    both.world.add_volume("late", "ram:1M", kMiB);
    EXPECT_NE(bench.open("late"), nullptr) << bench.why.to_string();
}

TEST_F(InitiatorSession, reads_written_data_back_at_every_size) {
    // Sizes for immediate and bounced data, and for one and several commands.
    for (size_t bytes : {size_t{512}, size_t{4096}, size_t{16384}, size_t{16896}, size_t{65536}, size_t{kMiB},
                         size_t{kMiB + 512}, size_t{5 * kMiB}}) {
        auto data = pattern(bytes, bytes);
        ASSERT_EQ(bench.write(*disk1, 1024, data), Outcome::kOk) << bytes;
        ASSERT_EQ(bench.read(*disk1, 1024, bytes), data) << bytes;
    }
}

TEST_F(InitiatorSession, gathers_scattered_buffers_in_order) {
    auto data = pattern(96 * 1024, 7);
    Io io;
    io.operation = Operation::kWrite;
    io.volume = disk1;
    io.offset = 4096;
    io.length = data.size();
    for (size_t at = 0, segment = 1; at < data.size(); at += segment, segment = segment * 3 + 1) {
        io.vector.push_back({nullptr, 0});
        io.vector.push_back({data.data() + at, std::min(segment, data.size() - at)});
    }
    io.buffers = io.vector;
    ASSERT_EQ(bench.run(io), Outcome::kOk);
    EXPECT_EQ(bench.read(*disk1, 4096, data.size()), data);
}

TEST_F(InitiatorSession, uses_registered_buffers_without_a_bounce) {
    auto region = bench.fabric().allocate(2 * kMiB, fabric::Access::kRemoteReadWrite);
    ASSERT_TRUE(region.is_ok());
    std::span<byte> memory = (*region)->bytes();
    ASSERT_TRUE(bench.session().memory().regions().add(*std::move(region)));
    block::testing::fill(memory.data(), kMiB, 3);
    std::vector<iovec> buffers;
    for (size_t i = 0; i < 8; ++i) buffers.push_back({memory.data() + i * kMiB / 8, kMiB / 8});
    std::swap(buffers[0], buffers[7]);
    Io io;
    io.operation = Operation::kWrite;
    io.volume = disk1;
    io.length = kMiB;
    io.buffers = buffers;
    ASSERT_TRUE(bench.session().submit(io));
    bench.reactor().step();
    EXPECT_EQ(bench.session().memory().bounce().in_use(), 0u);
    ASSERT_TRUE(bench.until([&] { return io.over; }));
    ASSERT_EQ(io.outcome, Outcome::kOk) << describe(io);
    EXPECT_TRUE(block::testing::holds(memory.data(), kMiB, 3));
    EXPECT_EQ(std::memcmp(bench.read(*disk1, 0, kMiB / 8).data(), memory.data() + 7 * kMiB / 8, kMiB / 8), 0);
    auto back = bench.session().memory().regions().remove(memory.data());
    EXPECT_TRUE(back.is_ok()) << back.status().to_string();
}

TEST_F(InitiatorSession, succeeds_with_flush_and_fua) {
    EXPECT_EQ(bench.write(*disk1, 0, pattern(4096, 1), true), Outcome::kOk);
    EXPECT_EQ(bench.simple(*disk1, Operation::kFlush), Outcome::kOk);
}

TEST_F(InitiatorSession, reads_zeroed_ranges_as_zeroes) {
    ASSERT_EQ(bench.write(*disk1, 0, pattern(3 * kMiB, 1)), Outcome::kOk);
    ASSERT_EQ(bench.simple(*disk1, Operation::kWriteZeroes, 512, 2 * kMiB), Outcome::kOk);
    auto data = bench.read(*disk1, 0, 3 * kMiB);
    auto expected = pattern(3 * kMiB, 1);
    std::fill_n(expected.begin() + 512, 2 * kMiB, byte{});
    EXPECT_EQ(data, expected);
}

TEST_F(InitiatorSession, changes_no_other_blocks_with_a_discard) {
    auto expected = pattern(kMiB, 1);
    ASSERT_EQ(bench.write(*disk1, 0, expected), Outcome::kOk);
    ASSERT_EQ(bench.simple(*disk1, Operation::kDiscard, 64 * 1024, 128 * 1024), Outcome::kOk);
    auto data = bench.read(*disk1, 0, kMiB);
    std::fill_n(expected.begin() + 64 * 1024, 128 * 1024, byte{});
    std::fill_n(data.begin() + 64 * 1024, 128 * 1024, byte{});
    EXPECT_EQ(data, expected);
}

// The list of a discard is shorter than the memory that is pinned for a user's data.
TEST(PinningSession, discards_only_its_range_on_a_target_without_immediate_data) {
    TargetAndBench both({.immediate_max = 0, .pin_at_least = 1});
    both.world.add_volume("disk", "ram:16M", 16 * kMiB);
    ASSERT_TRUE(both.bench.start()) << both.bench.why.to_string();
    Volume* disk = both.bench.open("disk");
    ASSERT_NE(disk, nullptr);
    auto expected = pattern(kMiB, 1);
    ASSERT_EQ(both.bench.write(*disk, 0, expected), Outcome::kOk);
    ASSERT_EQ(both.bench.simple(*disk, Operation::kDiscard, 64 * 1024, 128 * 1024), Outcome::kOk);
    std::fill_n(expected.begin() + 64 * 1024, 128 * 1024, byte{});
    EXPECT_EQ(both.bench.read(*disk, 0, kMiB), expected);
}

TEST_F(InitiatorSession, writes_only_on_a_match_with_compare_and_write) {
    auto old_data = pattern(512, 1), new_data = pattern(512, 2), other = pattern(512, 3);
    ASSERT_EQ(bench.write(*disk1, 8192, old_data), Outcome::kOk);
    auto compare = [&](std::vector<byte>& expected, std::vector<byte>& replacement, Io& io) {
        io.vector = {{expected.data(), 512}, {replacement.data(), 512}};
        io.operation = Operation::kCompareAndWrite;
        io.volume = disk1;
        io.offset = 8192;
        io.length = 512;
        io.buffers = io.vector;
        return bench.run(io);
    };
    Io hit, miss;
    EXPECT_EQ(compare(old_data, new_data, hit), Outcome::kOk) << describe(hit);
    EXPECT_EQ(bench.read(*disk1, 8192, 512), new_data);
    auto almost = new_data;
    almost[100] ^= byte{1};
    EXPECT_EQ(compare(almost, other, miss), Outcome::kMismatch) << describe(miss);
    EXPECT_EQ(miss.mismatch_offset, 100u);
    EXPECT_EQ(bench.read(*disk1, 8192, 512), new_data);
}

TEST_F(InitiatorSession, refuses_invalid_requests_before_they_are_sent) {
    auto data = pattern(8192, 1);
    EXPECT_EQ(bench.write(*disk1, 100, data), Outcome::kUnaligned);
    EXPECT_EQ(bench.write(*disk1, 512, {data.data(), 1000}), Outcome::kUnaligned);
    EXPECT_EQ(bench.write(*disk1, 16 * kMiB - 512, data), Outcome::kOutOfRange);
    EXPECT_EQ(bench.write(*disk1, UINT64_MAX - 511, data), Outcome::kOutOfRange);
    EXPECT_EQ(bench.simple(*disk1, Operation::kRead, 0, 4096), Outcome::kBadBuffers);
    EXPECT_EQ(bench.simple(*disk1, Operation::kCompareAndWrite, 0, 8 * kMiB), Outcome::kTooLong);
    EXPECT_EQ(bench.simple(*disk1, Operation::kRead, 0, 0), Outcome::kOk) << "an empty read succeeds";
    Io io;
    io.operation = Operation::kWrite;
    io.volume = disk1;
    io.offset = 100;
    io.length = 512;
    EXPECT_FALSE(bench.session().submit(io));
    EXPECT_EQ(describe(io),
              "write of 512 bytes at 100 of volume 'disk1': offset and length must be multiples of the "
              "volume's block size, 512 bytes");
}

TEST_F(InitiatorSession, detects_a_resize) {
    bool done = false;
    both.world.volumes().resize_async("disk1", 8 * kMiB, [&](Status status) { done = status.is_ok(); });
    ASSERT_TRUE(bench.until([&] { return done && disk1->info().size == 8 * kMiB; }));
    EXPECT_GT(bench.changed, 0u);
    EXPECT_EQ(bench.simple(*disk1, Operation::kWriteZeroes, 8 * kMiB, 4096), Outcome::kOutOfRange);
}

TEST_F(InitiatorSession, detects_write_protection) {
    bool done = false;
    both.world.volumes().set_read_only_async("disk1", true, [&](Status) { done = true; });
    ASSERT_TRUE(bench.until([&] { return done && disk1->info().read_only; }));
    EXPECT_EQ(bench.write(*disk1, 0, pattern(512, 1)), Outcome::kReadOnly);
}

TEST_F(InitiatorSession, fails_requests_for_a_deleted_volume) {
    bool done = false;
    both.world.volumes().remove_async("disk1", [&](Status) { done = true; });
    ASSERT_TRUE(bench.until([&] { return done && disk1->gone(); }));
    EXPECT_EQ(bench.simple(*disk1, Operation::kFlush), Outcome::kVolumeGone);
}

TEST_F(InitiatorSession, frees_closed_volumes_that_the_target_has_deleted) {
    ASSERT_NE(bench.open("disk2"), nullptr);
    for (int i = 0; i < 3; ++i) {
        both.world.add_volume("brief", "ram:1M", kMiB);
        Volume* brief = bench.open("brief");
        ASSERT_NE(brief, nullptr);
        bench.session().close_volume(*brief);
        EXPECT_EQ(bench.open("brief"), brief) << "the target still has it";
        bench.session().close_volume(*brief);
        bool done = false;
        both.world.volumes().remove_async("brief", [&](Status) { done = true; });
        ASSERT_TRUE(bench.until([&] { return done && bench.session().kept_volumes() == 2; })) << i;
    }
    EXPECT_EQ(bench.write(*disk1, 0, pattern(512, 1)), Outcome::kOk);
}

}  // namespace
}  // namespace wss::initiator::testing
