// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/snapshot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

struct Place {
    Place() {
        char name[] = "/tmp/wss-kv-XXXXXX";
        base = mkdtemp(name);
    }
    ~Place() { std::filesystem::remove_all(base); }
    std::string snapshot() const { return base + "/backups/one"; }
    std::string base;
};

bool complete(Snapshot& snapshot, Bench& bench) {
    for (int turn = 0; turn < 10'000; turn++) {
        const Result<bool> done = snapshot.step(16);
        EXPECT_TRUE(done.is_ok()) << done.status().to_string();
        if (!done.is_ok() || *done) return done.is_ok();
        bench.store->poll();
        bench.store->maintain({});
    }
    return false;
}

TEST(KvSnapshotFile, TakesSeveralStepsOverDeletedKeysAndHasWhatIsBehindThem) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.put(1, {{"a", "first"}, {"z", "last"}}), Answer::kOk);
    uint64_t ts = 2;
    for (size_t i = 0; i < kScanLooksMax + 100; i++, ts++)
        ASSERT_EQ(bench.erase(ts, "key" + std::to_string(i)), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {ts}, place.snapshot(), "p");
    ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
    EXPECT_FALSE(*(*snapshot)->step());
    ASSERT_TRUE(complete(**snapshot, bench));
    EXPECT_EQ((*snapshot)->keys(), 2u);
}

TEST(KvSnapshotFile, ServerStartsFromItWithWholeTransactionsOnly) {
    Place place;
    Bench bench;
    for (uint64_t ts = 1; ts <= 100; ts++)
        EXPECT_EQ(bench.put(ts, {{"x", std::to_string(ts)}, {"y" + std::to_string(ts), "v"}}), Answer::kOk);
    EXPECT_EQ(bench.erase(101, "y1"), Answer::kOk);
    EXPECT_EQ(bench.prepare(110, {{"x", "110"}, {"z", "110"}}), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {120}, place.snapshot(), "p");
    ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
    EXPECT_FALSE(*(*snapshot)->step());
    EXPECT_TRUE((*snapshot)->is_waiting()) << "110 is undecided";
    EXPECT_EQ(bench.store->commit({110}), Answer::kOk);
    EXPECT_EQ(bench.put(130, {{"x", "130"}, {"z", "130"}}), Answer::kOk);
    ASSERT_TRUE(complete(**snapshot, bench));
    EXPECT_EQ((*snapshot)->keys(), 101u);

    Result<std::unique_ptr<RocksLog>> log = RocksLog::open({.path = place.snapshot(), .identity = "p"});
    ASSERT_TRUE(log.is_ok()) << log.status().to_string();
    Bench restored({.epoch = 5, .durability = Durability::kSync}, Bench::kArena, log->get());
    ASSERT_TRUE(restored.recovered.is_ok()) << restored.recovered.to_string();
    EXPECT_EQ(restored.get("x") + restored.get("z"), "110110");
    EXPECT_EQ(restored.get("y1"), "(absent)");
    EXPECT_EQ(restored.get("y100"), "v");
    EXPECT_EQ(restored.store->statistics().versions, 101u);
    EXPECT_EQ(restored.put(115, {{"x", "late"}}), Answer::kTooOld);
}

TEST(KvSnapshotFile, HasTheValuesThatAreOnDiskOnly) {
    Place place;
    MemoryLog log;
    Bench bench({.durability = Durability::kAsync}, size_t{1} << 20, &log);
    for (uint64_t ts = 1; ts <= 500; ts++) {
        ASSERT_EQ(bench.put(ts, {{"key" + std::to_string(ts), std::string(5000, 'v')}}), Answer::kOk) << ts;
        bench.store->maintain({});
    }
    ASSERT_GT(bench.store->statistics().cold_versions, 200u);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {500}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    ASSERT_TRUE(complete(**snapshot, bench));
    Result<std::unique_ptr<RocksLog>> copy = RocksLog::open({.path = place.snapshot()});
    ASSERT_TRUE(copy.is_ok());
    Bench restored({.durability = Durability::kSync}, Bench::kArena, copy->get());
    for (uint64_t ts = 1; ts <= 500; ts++)
        ASSERT_EQ(restored.get("key" + std::to_string(ts)), std::string(5000, 'v')) << ts;
}

TEST(KvSnapshotFile, FailsWhereItCameTooLateForAVersion) {
    Place place;
    Bench bench;
    for (uint64_t ts : {10, 30}) {
        const Write write{.key = "x", .value = bytes_of("value")};
        EXPECT_EQ(bench.store->put({.timestamp = {ts}, .writes = {&write, 1}, .alone = true}, {}),
                  Answer::kOk);
    }
    bench.pass(bench.options.window_alone + from_ms(1));
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    EXPECT_EQ((*snapshot)->step().status().code(), Code::kIo) << "a key would be missing";
}

TEST(KvSnapshotFile, GivenUpSnapshotLeavesNothing) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.put(1, {{"x", "1"}}), Answer::kOk);
    { ASSERT_TRUE(Snapshot::begin(*bench.store, {5}, place.snapshot(), "").is_ok()); }
    EXPECT_TRUE(std::filesystem::is_empty(place.base + "/backups"));
    std::filesystem::create_directory(place.snapshot());
    EXPECT_EQ(Snapshot::begin(*bench.store, {5}, place.snapshot(), "").status().code(), Code::kExists);
}

}  // namespace
}  // namespace wss::kv::store
