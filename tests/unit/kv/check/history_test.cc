// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/check/history.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace wss::kv::check {
namespace {

std::string violations_of(const std::string& text) {
    auto operations = parse_history(text, "test");
    EXPECT_TRUE(operations) << operations.status().to_string();
    std::string all;
    for (const std::string& violation : check_history(*operations).violations) all += violation + "\n";
    return all;
}

void expect_caught(const std::string& text, const std::string& word) {
    EXPECT_NE(violations_of(text).find(word), std::string::npos) << "got: " << violations_of(text);
}

// Session 0 writes keys 1 and 2 at timestamp 10.
const std::string kLoad = "w(1,10,0,0)\nw(2,10,0,0)\n";

TEST(CheckHistory, accepts_read_atomic_histories) {
    EXPECT_EQ(violations_of(""), "");
    EXPECT_EQ(violations_of(kLoad + "r(1,10,1,1)\nr(2,10,1,1)\n"), "");
    EXPECT_EQ(violations_of(kLoad + "w(1,20,1,1)\nw(2,20,1,1)\nr(1,20,2,2)\nr(2,20,2,2)\n"), "");
}

TEST(CheckHistory, accepts_lost_updates_write_skew_and_long_forks) {
    EXPECT_EQ(violations_of(kLoad + "r(1,10,1,1)\nw(1,20,1,1)\nr(1,10,2,2)\nw(1,21,2,2)\n"), "");
    EXPECT_EQ(violations_of(kLoad +
                            "r(1,10,1,1)\nr(2,10,1,1)\nw(1,20,1,1)\nr(1,10,2,2)\nr(2,10,2,2)\nw(2,21,2,2)\n"),
              "");
    EXPECT_EQ(violations_of(kLoad +
                            "w(1,20,1,1)\nw(2,21,2,2)\nr(1,20,3,3)\nr(2,10,3,3)\nr(1,10,4,4)\nr(2,21,4,4)\n"),
              "");
}

std::string broken_conditions(const std::string& text) {
    auto operations = parse_history(text, "test");
    EXPECT_TRUE(operations) << operations.status().to_string();
    std::string all;
    for (const std::string& violation : check_history(*operations, true).violations) all += violation + "\n";
    return all;
}

TEST(CheckHistory, detects_transactions_whose_conditions_did_not_hold_until_they_committed) {
    const std::string lost = "r(1,10,1,1)\nw(1,20,1,1)\nr(1,10,2,2)\nw(1,21,2,2)\n";
    const std::string skew = "r(1,10,1,1)\nr(2,10,1,1)\nw(1,20,1,1)\nr(1,10,2,2)\nr(2,10,2,2)\nw(2,21,2,2)\n";
    const std::string circle =
        "r(1,10,1,1)\nr(2,10,1,1)\nw(2,20,1,1)\nr(2,10,2,2)\nr(3,10,2,2)\nw(3,20,2,2)\n"
        "r(3,10,3,3)\nr(1,10,3,3)\nw(1,20,3,3)\n";
    for (const std::string& broken : {lost, skew, "w(3,10,0,9)\n" + circle})
        EXPECT_NE(broken_conditions(kLoad + broken).find("have no order"), std::string::npos) << broken;
    EXPECT_EQ(broken_conditions(kLoad + "r(1,10,1,1)\nw(1,20,1,1)\nr(1,20,2,2)\nr(2,10,2,2)\nw(2,21,2,2)\n"
                                        "r(1,20,3,3)\nr(2,21,3,3)\nw(1,30,3,3)\n"),
              "");
}

TEST(CheckHistory, accepts_non_monotonic_reads_of_different_sets) {
    // {x, y} at T, then y alone from before T: allowed by Read Atomic.
    EXPECT_EQ(violations_of(kLoad + "w(1,20,1,1)\nw(2,20,1,1)\nr(1,20,2,2)\nr(2,20,2,2)\nr(2,10,2,3)\n"), "");
}

TEST(CheckHistory, detects_a_fractured_read) {
    expect_caught(kLoad + "w(1,20,1,1)\nw(2,20,1,1)\nr(1,20,2,2)\nr(2,10,2,2)\nr(1,10,3,3)\nr(2,20,3,3)\n",
                  "no order");
    // The first reader alone could be explained by a writer before the load. A writer that has read the load
    // excludes that.
    expect_caught(kLoad + "r(1,10,1,1)\nr(2,10,1,1)\nw(1,20,1,2)\nw(2,20,1,2)\nr(1,20,2,3)\nr(2,10,2,3)\n",
                  "no order");
}

TEST(CheckHistory, detects_a_fractured_read_of_the_initial_value) {
    expect_caught("w(1,20,1,1)\nw(2,20,1,1)\nr(1,20,2,2)\nr(2,0,2,2)\n", "initial value");
}

TEST(CheckHistory, detects_a_session_that_misses_its_own_write) {
    expect_caught(kLoad + "r(1,10,1,1)\nw(1,20,1,2)\nr(1,10,1,3)\n", "no order");
    expect_caught("w(1,20,1,2)\nr(1,0,1,3)\n", "initial value");
}

TEST(CheckHistory, detects_an_update_lost_to_a_slow_clock) {
    // Session 2 reads 100, writes 50 over it, and reads 100 again.
    expect_caught(kLoad + "w(1,100,1,1)\nr(1,100,2,2)\nw(1,50,2,3)\nr(1,100,2,4)\n", "no order");
}

TEST(CheckHistory, detects_thin_air_aborted_reads_and_two_values_in_one_read) {
    expect_caught(kLoad + "r(1,99,1,1)\n", "never written");
    expect_caught(kLoad + "w(1,30,1,-1)\nr(1,30,2,2)\n", "aborted");
    expect_caught(kLoad + "w(1,30,1,1)\nr(1,30,2,2)\nr(1,10,2,2)\n", "reads values");
}

TEST(CheckHistory, detects_colliding_values_and_writes_of_zero) {
    expect_caught("w(1,30,1,1)\nw(1,30,2,2)\n", "both wrote");
    expect_caught("w(1,0,1,1)\n", "initial value");
    expect_caught("w(1,1,1,1)\nw(2,1,2,1)\n", "two sessions");
}

std::string violations_of_all(std::initializer_list<std::string> texts) {
    std::vector<History> histories;
    for (const std::string& text : texts) {
        auto history = parse_history(text, "test");
        EXPECT_TRUE(history) << history.status().to_string();
        histories.push_back(std::move(*history));
    }
    std::string all;
    for (const std::string& violation : check_history(merge_histories(std::move(histories))).violations)
        all += violation + "\n";
    return all;
}

std::string session(uint64_t number) {
    return std::to_string(number);
}

TEST(MergeHistories, finds_the_writers_of_versions_in_the_histories_of_other_processes) {
    const std::string writer = kLoad + "w(1,20,1,1)\nw(2,20,1,1)\n";
    const std::string reader = "r(1,20,0,0)\nr(2,20,0,0)\nr(2,20,1,1)\n";
    EXPECT_EQ(violations_of_all({writer, reader}), "");
    EXPECT_NE(violations_of(reader), "");
    EXPECT_NE(
        violations_of_all({writer, "r(1,20,0,0)\nr(2,10,0,0)\nr(2,20,1,1)\nr(1,10,1,1)\n"}).find("no order"),
        std::string::npos);
}

TEST(MergeHistories, prefers_the_writer_of_a_version_to_those_who_found_it_at_their_start) {
    const std::string found = "w(1,20," + session(kInitialSessions) + ",7)\n";
    const std::string writer = kLoad + "w(1,20,1,1)\nw(2,20,1,1)\n";
    EXPECT_EQ(violations_of_all({found + "r(1,20,0,0)\n", writer, found}), "");
    // If no history has the writer, one of the processes that found the version takes its place.
    EXPECT_EQ(violations_of_all({found + "r(1,20,0,0)\n", found}), "");
}

TEST(MergeHistories, commits_a_write_of_unknown_outcome_that_another_process_has_read) {
    const std::string unknown = session(2 * kUnknownSessions);
    const std::string writer = kLoad + "w(1,20," + unknown + ",-1)\nw(2,20," + unknown + ",-1)\n";
    EXPECT_EQ(violations_of_all({writer, "r(1,20,0,0)\n"}), "");
    EXPECT_EQ(violations_of_all({writer, "w(1,20," + session(kInitialSessions) + ",7)\nr(2,20,0,0)\n"}), "");
    // It is committed as a whole.
    EXPECT_NE(
        violations_of_all({writer, "r(1,10,1,1)\nr(2,10,1,1)\nr(1,20,1,2)\nr(2,10,1,2)\n"}).find("no order"),
        std::string::npos);
    EXPECT_NE(violations_of_all({kLoad + "w(1,20,1,-1)\n", "r(1,20,0,0)\n"}).find("aborted"),
              std::string::npos);
}

TEST(ParseHistory, names_the_line_that_it_cannot_parse) {
    for (const char* line : {"x(1,2,3,4)", "r(1,2,3)", "r(1,2,3,4", "r(1,2,3,-1)", "r(-1,2,3,4)",
                             "r(1,2,3,4)x", "w(1,2,3,-2)", "r()", "r"}) {
        auto parsed = parse_history(std::string("w(1,1,1,1)\n") + line + "\n", "file");
        ASSERT_FALSE(parsed) << line;
        EXPECT_NE(parsed.status().to_string().find("file:2"), std::string::npos) << line;
    }
}

TEST(HistoryFile, returns_the_lines_of_sessions_in_their_order) {
    std::string path = testing::TempDir() + "wss-history-" + std::to_string(getpid());
    auto file = HistoryFile::create(path);
    ASSERT_TRUE(file) << file.status().to_string();
    HistorySession a(**file, 0), b(**file, 1);
    HistorySession::Item x{1, 10}, y{2, 20}, z{3, 30};
    a.write({{x, y}});
    size_t lost = b.write_unknown({&y, 1}), kept = b.write_unknown({&z, 1});
    b.read({&x, 1});
    EXPECT_FALSE(b.flush());
    b.resolve(lost, false);
    b.resolve(kept, true);
    ASSERT_TRUE(a.flush());
    ASSERT_TRUE(b.flush());
    ASSERT_TRUE((*file)->close());
    auto read = read_history(path);
    EXPECT_NE(access((path + std::string(kPartialSuffix)).c_str(), F_OK), 0);
    unlink(path.c_str());
    ASSERT_TRUE(read);
    int64_t session = int64_t{1} << 40;
    // Each write with unknown outcome is in a session of its own, so none of b's later operations must follow
    // it.
    std::vector<Operation> expected = {{true, 1, 10, 0, 0},
                                       {true, 2, 20, 0, 0},
                                       {true, 2, 20, uint64_t{2} << 32, -1},
                                       {true, 3, 30, (uint64_t{2} << 32) + 1, session + 1},
                                       {false, 1, 10, 1, session + 2}};
    EXPECT_EQ(read->operations, expected);
    EXPECT_FALSE(read->is_partial);
}

// A killed process leaves a history with the lines of only some sessions.
TEST(HistoryFile, of_a_killed_process_is_checked_as_far_as_it_goes) {
    std::string path = testing::TempDir() + "wss-history-" + std::to_string(getpid());
    const std::string left = path + std::string(kPartialSuffix);
    {
        auto file = HistoryFile::create(path);
        ASSERT_TRUE(file) << file.status().to_string();
        HistorySession reader(**file, 0);
        HistorySession::Item x{1, 10};
        reader.read({&x, 1});
        ASSERT_TRUE(reader.flush());
    }
    EXPECT_FALSE(read_history(path)) << "the file is incomplete";
    auto read = read_history(left);
    unlink(left.c_str());
    ASSERT_TRUE(read) << read.status().to_string();
    EXPECT_TRUE(read->is_partial);
    const CheckResult result = check_history(*read);
    EXPECT_TRUE(result.violations.empty());
    EXPECT_EQ(result.unexplained, 1u);
}

TEST(ParseHistory, ignores_a_truncated_last_line) {
    auto parsed = parse_history("w(1,1,1,1)\nr(2,2,3,4)\nr(1,2,", "file");
    ASSERT_TRUE(parsed) << parsed.status().to_string();
    EXPECT_EQ(parsed->operations.size(), 2u);
    EXPECT_TRUE(parsed->is_partial);
    EXPECT_TRUE(check_history(*parsed).violations.empty());
}

TEST(ParseHistory, refuses_other_text_in_place_of_a_truncated_line) {
    for (const char* text :
         {"some other file", "w(1,1,1,1)\nx", "{\"key\": 1}", "r", "r(", "w(1,1,1,1)\nw(1,-1,1,"}) {
        const bool is_cut = text[0] == 'r' || std::string(text).ends_with(",");
        EXPECT_EQ(parse_history(text, "file").status().is_ok(), is_cut) << text;
    }
}

TEST(CheckHistory, detects_violations_in_a_partial_history_too) {
    auto parsed =
        parse_history("w(1,1,1,1)\nw(2,1,1,1)\nw(1,3,1,2)\nw(2,3,1,2)\nr(1,3,2,3)\nr(2,1,2,3)\nr(", "f");
    ASSERT_TRUE(parsed);
    EXPECT_FALSE(check_history(*parsed).violations.empty());
}

TEST(HistoryFile, that_cannot_be_created_is_named_in_the_error) {
    EXPECT_FALSE(HistoryFile::create("/dev/null/history"));
    EXPECT_FALSE(read_history("/dev/null/history"));
}

}  // namespace
}  // namespace wss::kv::check
