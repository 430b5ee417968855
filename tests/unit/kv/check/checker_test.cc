// SPDX-License-Identifier: Apache-2.0
// The checker against hand-made histories: each kind of violation is detected, and allowed reads are not
// reported.
#include "lib/kv/check/checker.h"

#include <gtest/gtest.h>

#include <thread>

namespace wss::kv::check {
namespace {

constexpr uint64_t kX = 0x1111, kY = 0x2222, kZ = 0x3333;

struct History {
    explicit History(bool atomic = true)
        : checker({.atomic = atomic, .remember = 64, .keys = 1024, .run = 7}) {
        for (auto& session : sessions) session = checker.open_session();
    }

    static std::string stamped(const Writer& writer, uint64_t key, const std::vector<uint64_t>& siblings) {
        std::string value;
        write_stamp(value, 200, writer, key, siblings);
        return value;
    }

    Writer write(int session, const std::vector<uint64_t>& keys, uint64_t timestamp,
                 Outcome outcome = Outcome::kCommitted) {
        Writer writer = sessions[session]->begin_write();
        sessions[session]->end_write(writer, outcome, {timestamp}, keys);
        return writer;
    }

    struct Version {
        uint64_t key, timestamp;
        std::string value;
    };
    Version version(const Writer& writer, const std::vector<uint64_t>& keys, uint64_t key,
                    uint64_t timestamp) {
        return {key, timestamp, stamped(writer, key, keys)};
    }

    void remove(int session, uint64_t key, uint64_t timestamp, Outcome outcome = Outcome::kCommitted) {
        Writer writer = sessions[session]->begin_write();
        sessions[session]->will_delete({&key, 1});
        sessions[session]->end_write(writer, outcome, {timestamp}, {&key, 1});
    }

    // A read during which no write is acknowledged.
    void read(int session, const std::vector<Version>& versions) {
        std::vector<ReadItem> items;
        for (const Version& v : versions)
            items.push_back(
                {v.key, {v.timestamp}, !v.value.empty(), v.value, {}, sessions[session]->floor_of(v.key)});
        sessions[session]->read(items);
    }

    uint64_t count(Violation kind) const { return checker.report().violations[static_cast<size_t>(kind)]; }
    void expect_only(Violation kind, uint64_t times = 1) const {
        Report report = checker.report();
        EXPECT_EQ(count(kind), times) << report.to_string();
        EXPECT_EQ(report.total(), times) << report.to_string();
    }

    Checker checker;
    std::unique_ptr<CheckerSession> sessions[3];
};

TEST(Checker, finds_no_violation_in_a_history_without_faults) {
    History h;
    Writer a = h.write(0, {kX, kY}, 10), b = h.write(1, {kX}, 20);
    h.read(2, {h.version(b, {kX}, kX, 20), h.version(a, {kX, kY}, kY, 10)});
    h.read(0, {h.version(b, {kX}, kX, 20)});
    EXPECT_EQ(h.checker.report().total(), 0u) << h.checker.report().to_string();
    EXPECT_EQ(h.checker.report().reads, 2u);
    EXPECT_EQ(h.checker.report().writes, 2u);
    EXPECT_TRUE(h.checker.was_seen(b));
}

TEST(Checker, accepts_a_missing_key_whose_deletion_the_store_has_forgotten) {
    History h;
    CheckerSession& reader = *h.sessions[2];
    EXPECT_TRUE(reader.forgotten_deletion(kX, {}).is_none());
    h.write(0, {kX, kY}, 10);
    EXPECT_TRUE(reader.forgotten_deletion(kX, reader.floor_of(kX)).is_none());
    h.remove(0, kX, 20);
    h.remove(1, kX, 30, Outcome::kFailed);
    EXPECT_EQ(reader.forgotten_deletion(kX, reader.floor_of(kX)).value, 20u);
    EXPECT_TRUE(reader.forgotten_deletion(kY, reader.floor_of(kY)).is_none());
    // A later write is lost if the key is missing, unless a deletion may have followed it.
    h.write(1, {kX}, 40);
    EXPECT_TRUE(reader.forgotten_deletion(kX, reader.floor_of(kX)).is_none());
    h.remove(0, kX, 50, Outcome::kUnknown);
    EXPECT_EQ(reader.forgotten_deletion(kX, reader.floor_of(kX)).value, 50u);
}

TEST(Checker, detects_a_fractured_read) {
    History h;
    Writer a = h.write(0, {kX, kY}, 10);
    Writer b = h.sessions[1]->begin_write();  // not yet acknowledged: a read may return either version
    h.read(2, {h.version(b, {kX, kY}, kX, 20), h.version(a, {kX, kY}, kY, 10)});
    h.expect_only(Violation::kFractured);
}

TEST(Checker, reports_a_missing_sibling_as_a_fractured_read) {
    History h;
    Writer a = h.sessions[0]->begin_write();
    h.read(2, {h.version(a, {kX, kY}, kX, 10), {kY, 0, ""}});
    h.expect_only(Violation::kFractured);
}

TEST(Checker, permits_a_newer_sibling_and_an_unread_sibling) {
    History h;
    Writer a = h.sessions[0]->begin_write(), b = h.sessions[1]->begin_write();
    h.read(2, {h.version(a, {kX, kY, kZ}, kX, 10), h.version(b, {kY}, kY, 20)});
    EXPECT_EQ(h.checker.report().total(), 0u);
}

TEST(Checker, only_counts_fractures_where_atomicity_is_not_promised) {
    History h(false);
    Writer a = h.write(0, {kX, kY}, 10), b = h.sessions[1]->begin_write();
    h.read(2, {h.version(b, {kX, kY}, kX, 20), h.version(a, {kX, kY}, kY, 10)});
    EXPECT_EQ(h.checker.report().total(), 0u);
    EXPECT_EQ(h.checker.fractured(), 1u);
}

TEST(Checker, detects_a_torn_value_wherever_it_is_torn) {
    for (size_t at = 0; at < 200; ++at) {
        History h;
        Writer a = h.write(0, {kX}, 10), b = h.sessions[0]->begin_write();
        auto before = h.version(a, {kX}, kX, 10);
        std::string after = History::stamped(b, kX, {kX});
        std::string mixed = after.substr(0, at) + before.value.substr(at);
        before.value = mixed;
        if (mixed == after || mixed == History::stamped(a, kX, {kX})) continue;
        h.read(2, {before});
        EXPECT_EQ(h.count(Violation::kTorn), 1u) << at << h.checker.report().to_string();
    }
}

TEST(Checker, detects_a_value_of_another_key) {
    History h;
    Writer a = h.write(0, {kX, kY}, 10);
    auto wrong = h.version(a, {kX, kY}, kX, 10);
    wrong.key = kY;
    h.read(1, {wrong});
    h.expect_only(Violation::kWrongKey);
}

TEST(Checker, detects_values_that_no_session_wrote) {
    History h;
    h.read(0, {{kX, 5, "anything at all"}});
    h.read(0, {{kX, 5, std::string(300, 'x')}});
    h.read(0, {h.version({7, 1, 12}, {kX}, kX, 5)});    // a write that was never begun
    h.read(0, {h.version({7, 999, 0}, {kX}, kX, 5)});   // a session that does not exist
    h.read(0, {h.version({7, 9999, 0}, {kX}, kX, 5)});  // beyond the largest session number
    h.expect_only(Violation::kThinAir, 5);
}

TEST(Checker, checks_values_of_another_run_against_their_own_stamps) {
    History h;
    Writer other{8, 500, 77};
    h.read(0, {h.version(other, {kX, kY}, kX, 50), h.version(other, {kX, kY}, kY, 50)});
    EXPECT_EQ(h.checker.report().total(), 0u);
    h.read(0, {h.version(other, {kX, kY}, kX, 60), h.version(other, {kX, kY}, kY, 50)});
    h.expect_only(Violation::kFractured);
}

TEST(Checker, detects_a_read_of_a_failed_write_before_and_after_the_failure) {
    History h;
    Writer a = h.sessions[0]->begin_write();
    h.read(2, {h.version(a, {kX}, kX, 10)});
    h.sessions[0]->end_write(a, Outcome::kFailed, {}, {});
    h.expect_only(Violation::kDirty);
    h.read(2, {h.version(a, {kX}, kX, 10)});
    h.expect_only(Violation::kDirty, 2);
}

TEST(Checker, permits_a_write_of_unknown_outcome_to_be_read_or_not) {
    History h;
    Writer a = h.write(0, {kX}, 10, Outcome::kUnknown);
    h.read(0, {{kX, 0, ""}});
    h.read(1, {h.version(a, {kX}, kX, 10)});
    EXPECT_EQ(h.checker.report().total(), 0u) << h.checker.report().to_string();
}

TEST(Checker, detects_one_write_under_two_timestamps) {
    History h;
    Writer a = h.write(0, {kX, kY}, 10);
    h.read(1, {h.version(a, {kX, kY}, kX, 11)});
    h.expect_only(Violation::kIdentity);
}

TEST(Checker, detects_metadata_that_names_other_keys) {
    History h;
    Writer a = h.write(0, {kX, kY}, 10);
    std::string value = History::stamped(a, kX, {kX, kY});
    std::vector<uint64_t> good = {kY, kX}, bad = {kX};
    ReadItem item{kX, {10}, true, value, good, {}};
    h.sessions[1]->read({&item, 1});
    EXPECT_EQ(h.checker.report().total(), 0u);
    item.siblings = bad;
    h.sessions[1]->read({&item, 1});
    h.expect_only(Violation::kIdentity);
}

TEST(Checker, detects_a_read_older_than_an_earlier_acknowledged_write) {
    History h;
    Writer a = h.write(0, {kX}, 10);
    h.write(1, {kX}, 20);
    h.read(2, {h.version(a, {kX}, kX, 10)});
    h.expect_only(Violation::kStale);
}

TEST(Checker, permits_a_read_sent_before_the_acknowledgement_to_be_older) {
    History h;
    Writer a = h.write(0, {kX}, 10);
    std::string value = History::stamped(a, kX, {kX});
    ReadItem item{kX, {10}, true, value, {}, h.sessions[2]->floor_of(kX)};
    h.write(1, {kX}, 20);
    h.sessions[2]->read({&item, 1});
    EXPECT_EQ(h.checker.report().total(), 0u);
}

TEST(Checker, detects_a_session_that_misses_its_own_write) {
    History h;
    Writer a = h.write(0, {kX}, 10);
    h.write(1, {kX}, 20);
    std::string value = History::stamped(a, kX, {kX});
    ReadItem item{kX, {10}, true, value, {}, {}};
    h.sessions[1]->read({&item, 1});
    h.expect_only(Violation::kOwnWrite);
}

TEST(Checker, detects_a_lost_acknowledged_write) {
    History h;
    h.write(0, {kX}, 10);
    h.read(2, {{kX, 0, ""}});
    h.expect_only(Violation::kStale);
}

TEST(Checker, detects_colliding_timestamps) {
    History h;
    h.write(0, {kX}, 10);
    h.write(1, {kY}, 10);
    h.expect_only(Violation::kCollision);
}

TEST(Checker, detects_a_clock_that_ignores_timestamps_it_has_read) {
    History h;
    Writer a = h.write(0, {kX}, 100);
    h.read(1, {h.version(a, {kX}, kX, 100)});
    h.write(1, {kX}, 50);
    h.expect_only(Violation::kClock);
}

TEST(Checker, detects_two_winners_of_one_condition) {
    History h;
    Writer a = h.sessions[0]->begin_write(), b = h.sessions[1]->begin_write();
    h.sessions[0]->end_conditional(a, {10}, {{kX}}, {{{kX, {5}, {}}}});
    h.sessions[1]->end_conditional(b, {11}, {{kX}}, {{{kX, {5}, {}}}});
    h.expect_only(Violation::kCondition);
}

TEST(Checker, detects_write_skew_through_conditions) {
    History h;
    Writer a = h.sessions[0]->begin_write(), b = h.sessions[1]->begin_write();
    const Expected both[] = {{kX, {5}, {}}, {kY, {6}, {}}};
    h.sessions[0]->end_conditional(a, {10}, {{kX}}, both);
    h.sessions[1]->end_conditional(b, {11}, {{kY}}, both);
    h.expect_only(Violation::kCondition);
}

TEST(Checker, detects_a_condition_on_a_version_that_was_replaced_before_the_write_began) {
    History h;
    h.write(0, {kX}, 100);
    Writer late = h.sessions[1]->begin_write();
    h.sessions[1]->end_conditional(late, {110}, {{kY}}, {{{kX, {50}, h.sessions[1]->floor_of(kX)}}});
    h.expect_only(Violation::kCondition);
}

TEST(Checker, detects_an_acknowledged_write_below_the_timestamp_of_an_earlier_one) {
    History h;
    h.write(0, {kX}, 100);
    const Timestamp floors[] = {h.sessions[1]->floor_of(kX)};
    Writer late = h.sessions[1]->begin_write();
    h.sessions[1]->end_write(late, Outcome::kUnknown, {50}, {{kX}}, floors);
    EXPECT_EQ(h.checker.report().total(), 0u) << "the write was not acknowledged";
    late = h.sessions[1]->begin_write();
    h.sessions[1]->end_write(late, Outcome::kCommitted, {60}, {{kX}}, floors);
    h.expect_only(Violation::kLost);
}

TEST(Checker, permits_conditions_on_different_versions_and_keys) {
    History h;
    for (auto [key, timestamp, expected] : {std::tuple{kX, 10, 0}, {kX, 11, 10}, {kY, 12, 0}, {kX, 13, 11}})
        h.sessions[0]->end_conditional(h.sessions[0]->begin_write(), {uint64_t(timestamp)}, {{key}},
                                       {{{key, {uint64_t(expected)}, {}}}});
    EXPECT_EQ(h.checker.report().total(), 0u) << h.checker.report().to_string();
}

TEST(Checker, counts_forgotten_writes_and_does_not_check_them) {
    History h;
    Writer a = h.write(0, {kX}, 10);
    for (uint64_t i = 0; i < 100; ++i) h.write(0, {kY}, 20 + i);
    h.read(1, {h.version(a, {kX}, kX, 11)});
    Report report = h.checker.report();
    EXPECT_EQ(report.unchecked, 1u);
    EXPECT_EQ(report.total(), 0u) << report.to_string();
}

TEST(Checker, gives_a_bounded_number_of_examples_that_name_the_kind) {
    History h;
    for (int i = 0; i < 1000; ++i) h.read(0, {{kX, 5, "foreign"}});
    Report report = h.checker.report();
    EXPECT_EQ(report.total(), 1000u);
    EXPECT_LE(report.examples.size(), 20u);
    EXPECT_NE(report.to_string().find("thin air"), std::string::npos);
}

TEST(Checker, may_be_used_by_several_threads_at_the_same_time) {
    History h;
    std::atomic<uint64_t> clock{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 2000; ++i) {
                Writer writer = h.sessions[t]->begin_write();
                uint64_t mine = kX + static_cast<uint64_t>(t), timestamp = clock.fetch_add(1) + 1;
                h.sessions[t]->end_write(writer, Outcome::kCommitted, {timestamp}, {&mine, 1});
                h.read(t, {h.version(writer, {mine}, mine, timestamp)});
            }
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(h.checker.report().total(), 0u) << h.checker.report().to_string();
}

TEST(Stamps, survive_encoding_and_hostile_bytes_do_no_harm) {
    Stamp stamp;
    std::string value;
    std::vector<uint64_t> siblings = {kX, kY};
    write_stamp(value, stamp_bytes(2), {1, 2, 3}, kX, siblings);
    ASSERT_EQ(read_stamp(value, stamp), StampState::kGood);
    EXPECT_EQ(stamp.writer, (Writer{1, 2, 3}));
    EXPECT_EQ(stamp.siblings, siblings);
    for (size_t length = 0; length < value.size(); ++length)
        EXPECT_NE(read_stamp(value.substr(0, length), stamp), StampState::kGood);
    for (size_t i = 0; i < value.size(); ++i) {
        std::string changed = value;
        changed[i] = static_cast<char>(changed[i] ^ 0x80);
        EXPECT_NE(read_stamp(changed, stamp), StampState::kGood) << i;
    }
}

}  // namespace
}  // namespace wss::kv::check
