// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/snapshot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

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

constexpr int kDisk_ms = 60'000;  // within which the disk answers

// Steps until the directory exists. No key is copied yet.
void open(Snapshot& snapshot) {
    for (int waited_ms = 0; snapshot.waits_for_disk() && waited_ms < kDisk_ms; ++waited_ms) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        EXPECT_FALSE(*snapshot.step(0));
    }
}

bool complete(Snapshot& snapshot, Bench& bench) {
    for (int turn = 0, waited_ms = 0; turn < 10'000 && waited_ms < kDisk_ms;) {
        const bool waits = snapshot.waits_for_disk();
        const Result<bool> done = snapshot.step(16);
        EXPECT_TRUE(done.is_ok()) << done.status().to_string();
        if (!done.is_ok() || *done) return done.is_ok();
        if (waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++(waits ? waited_ms : turn);
        bench.store->poll();
        bench.store->maintain({});
    }
    return false;
}

// The failure of a snapshot that does not complete.
Status failure_of(Snapshot& snapshot) {
    for (int waited_ms = 0; waited_ms < kDisk_ms; ++waited_ms) {
        const Result<bool> done = snapshot.step();
        if (!done) return done.status();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status::ok();
}

bool clean_up(Snapshot& snapshot) {
    for (int waited_ms = 0; waited_ms < kDisk_ms; ++waited_ms) {
        if (snapshot.clean_up()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

void put_alone(Bench& bench, uint64_t ts) {
    const Write write{.key = "x", .value = bytes_of("value")};
    EXPECT_EQ(bench.store->put({.timestamp = {ts}, .writes = {&write, 1}, .alone = true}, {}), Answer::kOk);
}

TEST(KvSnapshotFile, takes_several_steps_over_deleted_keys_and_has_the_keys_after_them) {
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

TEST(KvSnapshotFile, starts_a_server_with_whole_transactions_only) {
    Place place;
    Bench bench;
    for (uint64_t ts = 1; ts <= 100; ts++)
        EXPECT_EQ(bench.put(ts, {{"x", std::to_string(ts)}, {"y" + std::to_string(ts), "v"}}), Answer::kOk);
    EXPECT_EQ(bench.erase(101, "y1"), Answer::kOk);
    EXPECT_EQ(bench.prepare(110, {{"x", "110"}, {"z", "110"}}), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {120}, place.snapshot(), "p");
    ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
    open(**snapshot);
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

// A lock was granted before the floor rose. Its owner may still write at or below the floor, on this
// partition and on others.
struct LockedBelow {
    Place place;
    Bench bench;
    std::unique_ptr<Snapshot> snapshot;

    LockedBelow() {
        EXPECT_EQ(bench.store->locks().lock({.key = "x", .owner = 1, .mode = LockMode::kExclusive}, {}),
                  LockAnswer::kGranted);
        Result<std::unique_ptr<Snapshot>> begun = Snapshot::begin(*bench.store, {20}, place.snapshot(), "p");
        EXPECT_TRUE(begun.is_ok()) << begun.status().to_string();
        snapshot = std::move(*begun);
        open(*snapshot);
        EXPECT_TRUE(snapshot->is_waiting()) << "it waits for the owner of the lock";
    }
    Answer write(uint64_t timestamp) {
        const Write write{.key = "x", .value = bytes_of("value")};
        return bench.store->put({.timestamp = {timestamp}, .writes = {&write, 1}, .locked = true, .owner = 1},
                                {});
    }
};

TEST(KvSnapshotFile, has_a_write_whose_locks_were_granted_before_it) {
    LockedBelow state;
    EXPECT_EQ(state.write(15), Answer::kOk);
    EXPECT_FALSE(*state.snapshot->step());
    EXPECT_TRUE(state.snapshot->is_waiting()) << "the owner still has the lock";
    state.bench.store->locks().unlock_all(1);
    EXPECT_EQ(state.bench.store->locks().lock({.key = "x", .owner = 2, .mode = LockMode::kExclusive}, {}),
              LockAnswer::kGranted);
    ASSERT_TRUE(complete(*state.snapshot, state.bench)) << "later locks do not delay it";
    EXPECT_EQ(state.snapshot->keys(), 1u);
}

TEST(KvSnapshotFile, does_not_wait_for_a_lock_longer_than_its_lease) {
    LockedBelow state;
    state.bench.pass(from_s(5));
    ASSERT_TRUE(complete(*state.snapshot, state.bench));
}

// A later lock of the same owner, for example a repeated request, does not delay the snapshot.
TEST(KvSnapshotFile, does_not_wait_for_a_renewed_lock) {
    LockedBelow state;
    EXPECT_EQ(state.bench.store->locks().lock({.key = "x", .owner = 1, .mode = LockMode::kExclusive}, {}),
              LockAnswer::kGranted);
    ASSERT_TRUE(complete(*state.snapshot, state.bench));
}

TEST(KvSnapshotFile, has_values_that_are_only_on_disk) {
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

// A snapshot of tens of millions of keys takes many turns. Each turn does a bounded part, and the time limit
// applies only to a snapshot that makes no progress.
TEST(KvSnapshotFile, takes_as_long_as_it_makes_progress) {
    Place place;
    Bench bench({}, size_t{32} << 20);
    for (uint64_t ts = 1; ts <= 40'000; ts++)
        ASSERT_EQ(bench.put(ts, {{"key" + std::to_string(ts), ""}}), Answer::kOk) << ts;
    Result<std::unique_ptr<Snapshot>> snapshot =
        Snapshot::begin(*bench.store, {50'000}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    open(**snapshot);
    int turns = 0;
    for (bool done = false; !done;) {
        ASSERT_LT(turns, 1000);
        if ((*snapshot)->waits_for_disk()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } else {
            bench.clock.pass(Snapshot::kProgressLimit - from_s(1));
            ++turns;
        }
        const Result<bool> turn = (*snapshot)->turn(bench.clock);
        ASSERT_TRUE(turn.is_ok()) << turn.status().to_string();
        done = *turn;
    }
    EXPECT_GT(turns, 2) << "a turn is bounded";
    EXPECT_LT(turns, 20) << "and does more than one step";
    EXPECT_EQ((*snapshot)->keys(), 40'000u);
}

TEST(KvSnapshotFile, fails_if_it_makes_no_progress) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.prepare(10, {{"x", "undecided"}}), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    open(**snapshot);
    EXPECT_FALSE(*(*snapshot)->turn(bench.clock));
    bench.clock.pass(Snapshot::kProgressLimit - from_s(1));
    EXPECT_FALSE(*(*snapshot)->turn(bench.clock));
    bench.clock.pass(from_s(1));
    EXPECT_EQ((*snapshot)->turn(bench.clock).status().code(), Code::kTimedOut);
}

// The versions of its time are kept from the beginning, however long the disk takes.
TEST(KvSnapshotFile, has_the_versions_that_are_replaced_while_the_disk_creates_it) {
    Place place;
    Bench bench;
    put_alone(bench, 10);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    ASSERT_FALSE(*(*snapshot)->step(0));
    put_alone(bench, 30);
    bench.pass(bench.options.window_alone + from_ms(1));
    ASSERT_TRUE(complete(**snapshot, bench));
    EXPECT_EQ((*snapshot)->keys(), 1u);
}

TEST(KvSnapshotFile, has_a_key_that_was_deleted_while_it_waited_for_an_undecided_transaction) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.prepare(5, {{"y", "undecided"}}), Answer::kOk);
    EXPECT_EQ(bench.put(10, {{"x", "value"}}), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok()) << snapshot.status().to_string();
    open(**snapshot);
    EXPECT_TRUE((*snapshot)->is_waiting());
    EXPECT_EQ(bench.erase(30, "x"), Answer::kOk);
    for (int turn = 0; turn < 3; turn++) bench.pass(bench.options.decision_window);
    EXPECT_EQ(bench.store->commit({5}), Answer::kOk);
    ASSERT_TRUE(complete(**snapshot, bench));
    EXPECT_EQ((*snapshot)->keys(), 2u);
}

TEST(KvSnapshotFile, is_not_disturbed_by_keys_that_are_created_and_overwritten_meanwhile) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"a", "value"}}), Answer::kOk);
    Result<std::unique_ptr<Snapshot>> snapshot = Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    ASSERT_TRUE(snapshot.is_ok());
    put_alone(bench, 30);
    put_alone(bench, 40);
    bench.pass(bench.options.window_alone + from_ms(1));
    ASSERT_TRUE(complete(**snapshot, bench));
    EXPECT_EQ((*snapshot)->keys(), 1u);
}

// Each of these snapshots would lack the key or have an older value of it.
struct KvLateSnapshot : ::testing::Test {
    Place place;

    void expect_refused(Bench& bench, uint64_t at) {
        const Result<std::unique_ptr<Snapshot>> snapshot =
            Snapshot::begin(*bench.store, {at}, place.snapshot(), "");
        ASSERT_FALSE(snapshot.is_ok());
        EXPECT_EQ(snapshot.status().code(), Code::kNotFound);
        EXPECT_FALSE(std::filesystem::exists(place.base + "/backups"));
        EXPECT_LT(bench.store->floor().value, at) << "no write is refused for it";
    }
};

TEST_F(KvLateSnapshot, fails_if_a_version_that_it_needs_was_already_collected) {
    Bench bench;
    put_alone(bench, 10);
    put_alone(bench, 30);
    bench.pass(bench.options.window_alone + from_ms(1));
    expect_refused(bench, 29);
    EXPECT_TRUE(Snapshot::begin(*bench.store, {30}, place.snapshot(), "").is_ok());
}

TEST_F(KvLateSnapshot, fails_if_an_older_version_than_the_collected_one_is_left) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "older"}}), Answer::kOk);
    for (uint64_t ts : {20, 40, 50}) put_alone(bench, ts);
    bench.pass(bench.options.window_alone + from_ms(1));
    ASSERT_EQ(bench.store->get_exact("x", {10}).presence, Presence::kExact);
    expect_refused(bench, 30);
}

TEST_F(KvLateSnapshot, fails_if_a_key_that_existed_at_its_time_is_forgotten) {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "value"}}), Answer::kOk);
    EXPECT_EQ(bench.erase(30, "x"), Answer::kOk);
    for (int turn = 0; turn < 3; turn++) bench.pass(bench.options.decision_window);
    ASSERT_EQ(bench.store->statistics().keys, 0u);
    const Result<std::unique_ptr<Snapshot>> snapshot =
        Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    EXPECT_FALSE(snapshot.is_ok());
}

TEST_F(KvLateSnapshot, fails_if_a_version_that_it_needs_was_collected_before_a_restart) {
    Bench bench({.durability = Durability::kSync});
    (void)bench.put(10, {{"x", "value"}});
    (void)bench.put(30, {{"x", "value"}});
    bench.persist();
    bench.pass(bench.options.window + from_ms(1));
    bench.restart(bench.log.unpersisted());
    ASSERT_EQ(bench.store->statistics().versions, 1u);
    expect_refused(bench, 20);
    EXPECT_TRUE(Snapshot::begin(*bench.store, {30}, place.snapshot(), "").is_ok());
}

TEST_F(KvLateSnapshot, fails_if_a_key_that_existed_at_its_time_was_forgotten_before_a_restart) {
    Bench bench({.durability = Durability::kSync});
    (void)bench.put(10, {{"x", "value"}});
    (void)bench.erase(30, "x");
    bench.persist();
    for (int turn = 0; turn < 3; turn++) bench.pass(bench.options.decision_window);
    bench.restart(bench.log.unpersisted());
    ASSERT_EQ(bench.store->statistics().keys, 0u);
    const Result<std::unique_ptr<Snapshot>> snapshot =
        Snapshot::begin(*bench.store, {20}, place.snapshot(), "");
    EXPECT_FALSE(snapshot.is_ok());
}

TEST(KvSnapshotFile, that_is_abandoned_leaves_nothing) {
    Place place;
    Bench bench;
    EXPECT_EQ(bench.put(1, {{"x", "1"}}), Answer::kOk);
    { ASSERT_TRUE(Snapshot::begin(*bench.store, {5}, place.snapshot(), "").is_ok()); }
    EXPECT_TRUE(std::filesystem::is_empty(place.base + "/backups"));
    std::filesystem::create_directory(place.snapshot());
    Result<std::unique_ptr<Snapshot>> second = Snapshot::begin(*bench.store, {5}, place.snapshot(), "");
    ASSERT_TRUE(second.is_ok());
    EXPECT_EQ(failure_of(**second).code(), Code::kExists);
    EXPECT_TRUE(clean_up(**second));
    EXPECT_TRUE(std::filesystem::exists(place.snapshot()));
}

}  // namespace
}  // namespace wss::kv::store
