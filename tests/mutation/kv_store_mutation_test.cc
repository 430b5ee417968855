// SPDX-License-Identifier: Apache-2.0
// Known bugs of a version store, switched on one by one. The corresponding check must fail with the bug and
// pass without it. (kv_mutation_test.cc has the bugs of clients and of the protocol.)
#include <gtest/gtest.h>

#include "lib/kv/mutation.h"
#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

struct Switched {
    explicit Switched(uint32_t which) { mutations = which; }
    ~Switched() { mutations = 0; }
};
constexpr uint32_t only(Mutation which) {
    return static_cast<uint32_t>(which);
}

std::string value_of(uint64_t ts) {
    return std::string(1000, static_cast<char>('a' + ts % 26));
}

// One-sided reads whose first half is read before a write and whose second half after it. Returns how many
// readers accepted a value that was never written.
size_t torn_values() {
    Bench bench({.window = {}, .window_floor = {}});
    size_t wrong = 0;
    EXPECT_EQ(bench.put(1, {{"x", value_of(1)}}), Answer::kOk);
    for (uint64_t ts = 2; ts < 500; ts++) {
        const SlotAddress address = bench.store->get("x").slot;
        const auto* arena = reinterpret_cast<const std::byte*>(bench.memory.data());
        std::vector<std::byte> copy(address.bytes);
        const size_t half = kSlotHeaderBytes + (ts * 8) % (copy.size() - kSlotHeaderBytes);
        copy_from_shared(copy.data(), arena + address.offset, half / 8 * 8);
        for (uint64_t more = 0; more < 3; more++)
            EXPECT_EQ(bench.put(ts * 10 + more, {{"x", value_of(ts * 10 + more)}}), Answer::kOk);
        copy_from_shared(copy.data() + half / 8 * 8, arena + address.offset + half / 8 * 8,
                         copy.size() - half / 8 * 8);
        bench.store->maintain({});
        SlotView view;
        if (parse_slot(copy, bench.store->arena(), "x", address, view) != SlotStatus::kOk) continue;
        const Bytes record = record_within(copy, address, *view.latest());
        RecordView version;
        if (record.empty() ||
            check_record(record, bench.store->arena(), "x", *view.latest(), version) != SlotStatus::kOk)
            continue;
        if (text_of(version.value) != value_of(version.timestamp.value)) wrong++;
    }
    return wrong;
}

TEST(KvMutation, TornReadsAreAcceptedOnlyWithoutTheChecksum) {
    EXPECT_EQ(torn_values(), 0u);
    const Switched off(only(Mutation::kNoCrc));
    EXPECT_GT(torn_values(), 0u);
}

size_t unwritten_values() {
    Bench bench;
    size_t wrong = 0;
    for (uint64_t ts = 1; ts < 100; ts++) {
        EXPECT_EQ(bench.prepare(ts, {{"x", value_of(ts)}}), Answer::kOk);
        EXPECT_EQ(bench.store->commit({ts}), Answer::kOk);
        if (bench.get("x") != value_of(ts)) wrong++;
        bench.store->maintain({});
    }
    return wrong;
}

TEST(KvMutation, CommitBeforePayloadReturnsDataThatWasNeverWritten) {
    EXPECT_EQ(unwritten_values(), 0u);
    const Switched off(only(Mutation::kCommitBeforePayload));
    EXPECT_GT(unwritten_values(), 0u);
}

// Returns whether a reader of {x, y} still finds in round 2 the version that round 1 named.
bool finds_sibling() {
    Bench bench;
    EXPECT_EQ(bench.put(10, {{"x", "1"}, {"y", "1"}}), Answer::kOk);
    EXPECT_EQ(bench.put(20, {{"x", "2"}, {"y", "2"}}), Answer::kOk);
    bench.pass(from_ms(1));
    return bench.store->get_exact("y", {10}).presence == Presence::kExact;
}

TEST(KvMutation, WithoutTheWindowAReadersSiblingIsGone) {
    EXPECT_TRUE(finds_sibling());
    const Switched off(only(Mutation::kNoWindow));
    EXPECT_FALSE(finds_sibling());
}

// Returns whether a transaction can be prepared after it was reported as aborted. Then one partition would
// abort it and the other commit it.
bool promise_is_broken() {
    Bench bench;
    EXPECT_EQ(bench.store->inquire({10}, {}), Answer::kAborted);
    return bench.prepare(10, {{"x", "1"}}) == Answer::kOk;
}

TEST(KvMutation, TerminationRaceBreaksThePromiseOfAnAbort) {
    EXPECT_FALSE(promise_is_broken());
    const Switched off(only(Mutation::kTerminationRace));
    EXPECT_TRUE(promise_is_broken());
}

// Returns whether the slot address of a deleted key gives the value of another key that uses the slot now.
bool foreign_value_is_read() {
    Bench bench({.inline_cells = 0});
    EXPECT_EQ(bench.put(10, {{"x", "x's"}}), Answer::kOk);
    const SlotAddress address = bench.store->get("x").slot;
    EXPECT_EQ(bench.erase(20, "x"), Answer::kOk);
    for (int i = 0; i < 20; i++) bench.pass(from_s(10));
    EXPECT_EQ(bench.put(100, {{"y", "y's"}}), Answer::kOk);
    EXPECT_EQ(bench.store->get("y").slot.offset, address.offset) << "the test needs the slot to be reused";
    return bench.read_remotely("x", address).latest == "y's";
}

TEST(KvMutation, StaleAddressYieldsAnotherKeysValue) {
    EXPECT_FALSE(foreign_value_is_read());
    const Switched off(only(Mutation::kStaleAddress));
    EXPECT_TRUE(foreign_value_is_read());
}

}  // namespace
}  // namespace wss::kv::store
