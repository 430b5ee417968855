// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/workload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

namespace wss::ycsb {
namespace {

WorkloadOptions options_of(const std::string& text) {
    Properties properties;
    EXPECT_TRUE(properties.read_text(text, "test"));
    auto options = WorkloadOptions::from(properties);
    EXPECT_TRUE(options) << options.status().to_string();
    return options ? *options : WorkloadOptions();
}

std::string refusal_of(const std::string& text) {
    Properties properties;
    if (Status read = properties.read_text(text, "test"); !read) return read.to_string();
    return WorkloadOptions::from(properties).status().to_string();
}

TEST(YcsbProperties, are_parsed_as_java_parses_them) {
    Properties properties;
    ASSERT_TRUE(
        properties.read_text("# comment = no\n  ! another\\\na=1\nb : two words \n  c three\n\nd\ne=x\\\n   "
                             "y\\\\\nf\\ g=\\u0041\\t\r\n"
                             "a=2",
                             "test"));
    std::map<std::string, std::string> expected = {{"a", "2"}, {"b", "two words "}, {"c", "three"},
                                                   {"d", ""},  {"e", "xy\\"},       {"f g", "A\t"}};
    EXPECT_EQ(properties.all(), expected);
}

TEST(YcsbProperties, with_invalid_escapes_are_refused) {
    Properties properties;
    EXPECT_FALSE(properties.read_text("a=\\u12", "test"));
    EXPECT_FALSE(properties.read_text("a=\\u12xy", "test"));
    EXPECT_FALSE(properties.set("novalue"));
    EXPECT_FALSE(properties.set("=1"));
    EXPECT_FALSE(properties.read_file("/nonexistent/workload"));
}

TEST(YcsbOptions, have_the_defaults_of_the_original) {
    WorkloadOptions o = options_of("");
    EXPECT_EQ(o.field_count, 10u);
    EXPECT_EQ(o.field_length, 100u);
    EXPECT_EQ(o.proportions, (std::array<double, kOperations>{.95, .05, 0, 0, 0}));
    EXPECT_EQ(o.request_distribution, Distribution::kUniform);
    EXPECT_EQ(o.scan_length_max, 1000u);
    EXPECT_FALSE(o.transactional);
    EXPECT_FALSE(o.ordered);
    EXPECT_TRUE(o.measure_operation);
    EXPECT_FALSE(o.measure_intended);
}

TEST(YcsbOptions, that_are_invalid_cause_errors_that_name_the_property_and_the_remedy) {
    EXPECT_NE(refusal_of("requestdistribution=zipfain").find("zipfian"), std::string::npos);
    EXPECT_NE(refusal_of("recordcount=many").find("recordcount"), std::string::npos);
    EXPECT_NE(refusal_of("recordcount=-1").find("recordcount"), std::string::npos);
    EXPECT_NE(refusal_of("txnlen=0").find("txnlen"), std::string::npos);
    EXPECT_NE(refusal_of("recordcount=4\ntxnlen=8").find("txnlen"), std::string::npos);
    EXPECT_NE(refusal_of("readproportion=0\nupdateproportion=0").find("proportion"), std::string::npos);
    EXPECT_NE(refusal_of("readproportion=nan").find("readproportion"), std::string::npos);
    EXPECT_NE(refusal_of("fieldcount=100\nfieldlength=100000").find("fieldlength"), std::string::npos);
    EXPECT_NE(refusal_of("insertstart=900\ninsertcount=200").find("insertcount"), std::string::npos);
    EXPECT_NE(refusal_of("insertorder=random").find("insertorder"), std::string::npos);
}

TEST(YcsbWorkloads, in_files_match_the_built_in_ones_of_the_same_letter) {
    for (char letter = 'a'; letter <= 'f'; ++letter) {
        std::ifstream file(std::string("Documentation/examples/ycsb/workload") + letter);
        std::stringstream text;
        text << file.rdbuf();
        EXPECT_EQ(text.str(), standard_workload(letter)) << letter;
        options_of(text.str());
    }
    EXPECT_TRUE(standard_workload('g').empty());
}

TEST(YcsbWorkloads, contain_each_operation_in_its_share) {
    const std::pair<char, std::array<double, kOperations>> shares[] = {
        {'a', {.5, .5, 0, 0, 0}},   {'b', {.95, .05, 0, 0, 0}}, {'c', {1, 0, 0, 0, 0}},
        {'d', {.95, 0, .05, 0, 0}}, {'e', {0, 0, .05, .95, 0}}, {'f', {.5, 0, 0, 0, .5}}};
    for (const auto& [letter, expected] : shares) {
        Workload workload(options_of(std::string(standard_workload(letter))));
        WorkloadThread thread(workload, 5);
        std::array<double, kOperations> seen{};
        for (int i = 0; i < 100000; ++i) seen[static_cast<size_t>(thread.next_operation())] += 1e-5;
        for (size_t i = 0; i < kOperations; ++i) EXPECT_NEAR(seen[i], expected[i], .01) << letter << i;
    }
}

TEST(YcsbWorkloads, read_no_record_before_it_exists) {
    for (const char* distribution :
         {"uniform", "zipfian", "latest", "hotspot", "exponential", "sequential"}) {
        Workload workload(options_of(
            std::string("recordcount=50\ninsertproportion=0.5\nrequestdistribution=") + distribution));
        WorkloadThread thread(workload, 5);
        std::set<uint64_t> seen;
        for (int i = 0; i < 20000; ++i) seen.insert(thread.next_record());
        EXPECT_LT(*seen.rbegin(), 50u) << distribution;
        EXPECT_GT(seen.size(), 40u) << distribution;
    }
}

TEST(YcsbTransactions, write_distinct_records_and_need_not_read_distinct_ones) {
    Workload workload(options_of("recordcount=10\ntxnlen=8"));
    WorkloadThread thread(workload, 5);
    bool duplicates = false;
    for (int i = 0; i < 1000; ++i) {
        auto written = thread.next_records(true), read = thread.next_records(false);
        EXPECT_EQ(std::set(written.begin(), written.end()).size(), 8u);
        duplicates |= std::set(read.begin(), read.end()).size() < 8;
    }
    EXPECT_TRUE(duplicates);
    EXPECT_TRUE(workload.options().transactional);
}

TEST(YcsbRecords, are_printable_and_of_the_requested_length) {
    Workload workload(options_of("fieldcount=1\nfieldlength=1000"));
    WorkloadThread thread(workload, 5);
    std::string record = thread.record_value("user1");
    EXPECT_EQ(record.size(), 1000u);
    for (char letter : record) EXPECT_TRUE(letter >= ' ' && letter <= '~' + 1) << int(letter);
}

TEST(YcsbRecords, change_in_one_field_and_keep_the_others) {
    Workload workload(options_of("fieldcount=5\nfieldlength=20"));
    WorkloadThread thread(workload, 5);
    std::string before = thread.record_value("user1");
    auto after = thread.with_one_field_changed("user1", before);
    ASSERT_TRUE(after);
    auto old_fields = fields_of(before, 5), new_fields = fields_of(*after, 5);
    int changed = 0;
    for (size_t i = 0; i < 5; ++i) changed += (*old_fields)[i] != (*new_fields)[i];
    EXPECT_EQ(changed, 1);
    for (size_t cut = 0; cut < before.size(); ++cut)
        EXPECT_FALSE(fields_of(std::string_view(before).substr(0, cut), 5));
    EXPECT_FALSE(fields_of(before + "x", 5));
}

TEST(YcsbRecords, of_another_key_or_with_a_changed_letter_are_detected_by_data_integrity) {
    Workload workload(options_of("fieldcount=2\nfieldlength=60\ndataintegrity=true"));
    WorkloadThread thread(workload, 5);
    std::string record = thread.record_value("user1");
    EXPECT_TRUE(thread.is_record_of("user1", record));
    EXPECT_FALSE(thread.is_record_of("user2", record));
    record.back() ^= 1;
    EXPECT_FALSE(thread.is_record_of("user1", record));
}

}  // namespace
}  // namespace wss::ycsb
