// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/block/load/ledger.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

namespace wss::chaos {
namespace {

constexpr uint32_t kVolume = 7;
constexpr uint64_t kSectors = 64;
constexpr Range kRange{8, 2};

class LedgerTest : public testing::Test {
  protected:
    LedgerTest()
        : path_(std::filesystem::temp_directory_path() / ("ledger-test-" + std::to_string(getpid()))),
          ledger_(*Ledger::open(path_, kVolume, kSectors)) {}
    ~LedgerTest() override { std::filesystem::remove(path_); }

    uint64_t write(Outcome outcome) {
        const uint64_t id = ledger_.begin_change(kRange, false);
        ledger_.end_change(kRange, id, outcome);
        return id;
    }
    uint64_t zero(Outcome outcome) {
        const uint64_t id = ledger_.begin_change(kRange, true);
        ledger_.end_change(kRange, id, outcome);
        return id;
    }
    void flush() { ledger_.end_flush(ledger_.begin_flush()); }
    bool may_show(uint64_t id) {
        std::array<std::byte, kRange.count * kSectorBytes> data{};
        ledger_.fill(kRange.first, id, data);
        return !ledger_.check(kRange.first, data);
    }

    const std::string path_;
    Ledger ledger_;
};

TEST_F(LedgerTest, AllowsOnlyZeroesOnANewVolume) {
    EXPECT_TRUE(may_show(0));
}

TEST_F(LedgerTest, AllowsOnlyTheLastAcknowledgedWrite) {
    const uint64_t first = write(Outcome::kAcknowledged), second = write(Outcome::kAcknowledged);
    EXPECT_TRUE(may_show(second));
    EXPECT_FALSE(may_show(first));
    EXPECT_FALSE(may_show(0));
}

TEST_F(LedgerTest, AllowsAFailedWriteUntilTheNextAcknowledgedOne) {
    const uint64_t first = write(Outcome::kAcknowledged), failed = write(Outcome::kUnknown);
    EXPECT_TRUE(may_show(first));
    EXPECT_TRUE(may_show(failed));
    const uint64_t last = write(Outcome::kAcknowledged);
    EXPECT_FALSE(may_show(failed));
    EXPECT_TRUE(may_show(last));
}

TEST_F(LedgerTest, AllowsOldContentAndZeroesAfterADiscard) {
    const uint64_t first = write(Outcome::kAcknowledged);
    zero(Outcome::kDiscarded);
    EXPECT_TRUE(may_show(first));
    EXPECT_TRUE(may_show(0));
}

TEST_F(LedgerTest, AllowsOnlyZeroesAfterAWriteOfZeroes) {
    const uint64_t first = write(Outcome::kAcknowledged);
    zero(Outcome::kAcknowledged);
    EXPECT_FALSE(may_show(first));
    EXPECT_TRUE(may_show(0));
}

TEST_F(LedgerTest, AllowsEveryChangeSinceTheLastFlushAfterAGiveUp) {
    const uint64_t first = write(Outcome::kAcknowledged), flushed = write(Outcome::kAcknowledged);
    flush();
    const uint64_t second = write(Outcome::kAcknowledged), third = write(Outcome::kAcknowledged);
    EXPECT_FALSE(may_show(second));
    ledger_.loosen();
    for (uint64_t id : {flushed, second, third}) EXPECT_TRUE(may_show(id));
    EXPECT_FALSE(may_show(first));
}

TEST_F(LedgerTest, AllowsNoLossOfFlushedDataAfterAGiveUp) {
    const uint64_t first = write(Outcome::kAcknowledged), second = write(Outcome::kAcknowledged);
    flush();
    ledger_.loosen();
    EXPECT_TRUE(may_show(second));
    EXPECT_FALSE(may_show(first));
}

TEST_F(LedgerTest, AllowsOlderContentEvenIfAFlushFollowsAGiveUp) {
    const uint64_t first = write(Outcome::kAcknowledged), second = write(Outcome::kAcknowledged);
    ledger_.loosen();
    flush();
    EXPECT_TRUE(may_show(first));
    EXPECT_TRUE(may_show(second));
}

TEST_F(LedgerTest, AllowsNoLossOfAStableWriteAfterAGiveUp) {
    const uint64_t first = write(Outcome::kAcknowledged), stable = write(Outcome::kStable);
    ledger_.loosen();
    EXPECT_TRUE(may_show(stable));
    EXPECT_FALSE(may_show(first));
}

TEST_F(LedgerTest, AllowsEachOfManyFailedChanges) {
    const uint64_t first = write(Outcome::kAcknowledged);
    flush();
    std::array<uint64_t, 6> failed{};
    for (uint64_t& id : failed) id = write(Outcome::kUnknown);
    zero(Outcome::kUnknown);
    flush();
    for (uint64_t id : failed) EXPECT_TRUE(may_show(id));
    EXPECT_TRUE(may_show(first));
    EXPECT_TRUE(may_show(0));
}

TEST_F(LedgerTest, AllowsOnlyZeroesInCutSectors) {
    const uint64_t first = write(Outcome::kAcknowledged);
    ledger_.cut({kRange.first, kSectors - kRange.first});
    EXPECT_FALSE(may_show(first));
    EXPECT_TRUE(may_show(0));
}

TEST_F(LedgerTest, RejectsContentOfAnotherSectorAndTornContent) {
    const uint64_t id = write(Outcome::kAcknowledged);
    std::array<std::byte, kRange.count * kSectorBytes> data{};
    ledger_.fill(kRange.first + 1, id, data);
    EXPECT_TRUE(ledger_.check(kRange.first, data));
    ledger_.fill(kRange.first, id, data);
    data[kSectorBytes - 1] ^= std::byte{1};
    EXPECT_TRUE(ledger_.check(kRange.first, data));
}

TEST_F(LedgerTest, SurvivesItsClient) {
    const uint64_t first = write(Outcome::kAcknowledged);
    const uint64_t interrupted = ledger_.begin_change(kRange, false);
    ledger_.set_limit(32);
    Ledger next = *Ledger::open(path_, kVolume, kSectors);
    EXPECT_EQ(next.limit(), 32u);
    EXPECT_GT(next.begin_change({0, 1}, false), interrupted);
    EXPECT_TRUE(may_show(first));
    EXPECT_TRUE(may_show(interrupted));
}

}  // namespace
}  // namespace wss::chaos
