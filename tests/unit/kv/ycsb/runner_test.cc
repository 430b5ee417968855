// SPDX-License-Identifier: Apache-2.0
// The runner against a table in memory.
#include "tools/ycsb/runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

namespace wss::ycsb {
namespace {

struct Table {
    std::mutex mutex;
    std::map<std::string, std::string> records;
    uint64_t reads = 0, writes = 0, scans = 0, largest_write = 0;
    Status fail_reads;
    Nanoseconds stall{0};  // delays one operation, once
};

class TableDatabase : public Database {
  public:
    explicit TableDatabase(Table& table) : table_(table) {}

    Status read(std::span<const uint64_t>, std::span<const std::string> keys,
                std::vector<std::string>& values) override {
        Nanoseconds stall{0};
        {
            std::lock_guard lock(table_.mutex);
            std::swap(stall, table_.stall);
        }
        if (stall.count != 0) std::this_thread::sleep_for(std::chrono::nanoseconds(stall.count));
        std::lock_guard lock(table_.mutex);
        ++table_.reads;
        if (!table_.fail_reads) return table_.fail_reads;
        values.clear();
        for (const std::string& key : keys) {
            auto found = table_.records.find(key);
            if (found == table_.records.end()) return failure(Code::kNotFound, "{} is not there", key);
            values.push_back(found->second);
        }
        return Status::ok();
    }
    Status write(std::span<const uint64_t>, std::span<const std::string> keys,
                 std::span<const std::string> values) override {
        std::lock_guard lock(table_.mutex);
        ++table_.writes;
        table_.largest_write = std::max<uint64_t>(table_.largest_write, keys.size());
        for (size_t i = 0; i < keys.size(); ++i) table_.records[keys[i]] = values[i];
        return Status::ok();
    }
    Status scan(const std::string&, uint64_t count, uint64_t& found) override {
        std::lock_guard lock(table_.mutex);
        ++table_.scans;
        found = count;
        return Status::ok();
    }

  private:
    Table& table_;
};

struct Bench {
    explicit Bench(const std::string& text) {
        Properties properties;
        EXPECT_TRUE(properties.read_text(text, "test"));
        auto options = WorkloadOptions::from(properties);
        EXPECT_TRUE(options) << options.status().to_string();
        workload = std::make_unique<Workload>(*options);
        run_options.open = [this](uint32_t) -> Result<std::unique_ptr<Database>> {
            return std::unique_ptr<Database>(new TableDatabase(table));
        };
    }
    Result<RunResult> go(Phase phase) {
        run_options.phase = phase;
        return run(*workload, run_options);
    }
    Table table;
    std::unique_ptr<Workload> workload;
    RunOptions run_options;
};

uint64_t count_of(const RunResult& result, const std::string& name) {
    auto found = result.measurements.series().find(name);
    return found == result.measurements.series().end() ? 0 : found->second.latency.count();
}

TEST(YcsbRunner, loads_every_record_once_with_any_number_of_threads) {
    Bench bench("recordcount=1003\nthreadcount=3\ntxnlen=8");
    auto result = bench.go(Phase::kLoad);
    ASSERT_TRUE(result);
    EXPECT_EQ(bench.table.records.size(), 1003u);
    EXPECT_EQ(bench.table.largest_write, 8u);
    EXPECT_TRUE(bench.table.records.contains("user6284781860667377211"));
}

TEST(YcsbRunner, runs_all_workloads_to_their_end) {
    for (char letter = 'a'; letter <= 'f'; ++letter) {
        Bench bench(std::string(standard_workload(letter)) + "threadcount=3\noperationcount=3001\n");
        ASSERT_TRUE(bench.go(Phase::kLoad));
        auto result = bench.go(Phase::kRun);
        ASSERT_TRUE(result);
        EXPECT_EQ(result->measurements.operations(), 3001u) << letter;
        EXPECT_EQ(result->measurements.failed(), 0u) << letter;
        if (letter == 'f') {
            EXPECT_GT(count_of(*result, "READ-MODIFY-WRITE"), 1000u);
            EXPECT_EQ(count_of(*result, "UPDATE"), count_of(*result, "READ-MODIFY-WRITE"));
            EXPECT_EQ(count_of(*result, "READ"), 3001u);
        }
        if (letter == 'e') {
            EXPECT_GT(bench.table.scans, 2500u);
        }
        if (letter == 'd') {
            EXPECT_GT(bench.table.records.size(), 1000u);
        }
    }
}

TEST(YcsbRunner, counts_a_transaction_as_one_operation) {
    Bench bench("readproportion=0.5\nupdateproportion=0.5\ntxnlen=8\nfieldcount=1\nthreadcount=2\n");
    ASSERT_TRUE(bench.go(Phase::kLoad));
    auto result = bench.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_EQ(count_of(*result, "READ-TXN") + count_of(*result, "UPDATE-TXN"), 1000u);
    EXPECT_EQ(bench.table.largest_write, 8u);
    EXPECT_NE(report(result->measurements, result->run_time, {50}).find("[READ-TXN], Operations, "),
              std::string::npos);
}

// Completes the operation that was begun last.
class TableLanes final : public Lanes {
  public:
    uint32_t count() const override { return 3; }
    void begin_read(uint32_t lane, std::span<const std::string_view> keys) override {
        begin(lane, keys.size());
    }
    void begin_write(uint32_t lane, std::span<const std::string_view> keys,
                     std::span<std::string> values) override {
        EXPECT_EQ(values.size(), keys.size());
        begin(lane, keys.size());
    }
    void wait(std::vector<Ended>& ended) override {
        ASSERT_FALSE(under_way_.empty());
        ended.push_back({under_way_.back(), Status::ok()});
        under_way_.pop_back();
    }
    uint64_t begun = 0;
    size_t most = 0;

  private:
    void begin(uint32_t lane, size_t keys) {
        EXPECT_EQ(keys, 4u);
        EXPECT_EQ(std::count(under_way_.begin(), under_way_.end(), lane), 0);
        under_way_.push_back(lane);
        ++begun;
        most = std::max(most, under_way_.size());
    }
    std::vector<uint32_t> under_way_;
};

TEST(YcsbRunner, lets_one_thread_keep_an_operation_in_flight_on_each_connection) {
    Bench bench("recordcount=100\nconnectionsperthread=3\ntxnlen=4\nfieldcount=1\noperationcount=1000");
    TableLanes lanes;
    class WithLanes final : public TableDatabase {
      public:
        WithLanes(Table& table, Lanes& lanes) : TableDatabase(table), lanes_(lanes) {}
        Lanes* lanes() override { return &lanes_; }

      private:
        Lanes& lanes_;
    };
    bench.run_options.open = [&](uint32_t) -> Result<std::unique_ptr<Database>> {
        return std::unique_ptr<Database>(new WithLanes(bench.table, lanes));
    };
    auto result = bench.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_EQ(lanes.begun, 1000u);
    EXPECT_EQ(lanes.most, 3u);
    EXPECT_EQ(result->measurements.operations(), 1000u);
    EXPECT_EQ(count_of(*result, "READ-TXN") + count_of(*result, "UPDATE-TXN"), 1000u);
    EXPECT_EQ(bench.table.reads, 0u);
}

TEST(YcsbRunner, permits_several_connections_per_thread_only_for_plain_reads_and_updates) {
    for (const char* other : {"scanproportion=0.1", "target=100", "dataintegrity=true", "fieldcount=10"}) {
        Properties properties;
        ASSERT_TRUE(
            properties.read_text(std::string("fieldcount=1\nconnectionsperthread=2\n") + other, "test"));
        EXPECT_FALSE(WorkloadOptions::from(properties)) << other;
    }
}

TEST(YcsbRunner, counts_failures_separately) {
    Bench bench("readproportion=1\nupdateproportion=0\noperationcount=100");
    auto missing = bench.go(Phase::kRun);
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->measurements.failed(), 100u);
    EXPECT_EQ(count_of(*missing, "READ-FAILED"), 100u);
    EXPECT_NE(
        report(missing->measurements, missing->run_time, {}).find("[READ-FAILED], Return=NOT_FOUND, 100"),
        std::string::npos);
}

TEST(YcsbRunner, detects_a_changed_record_if_it_checks_data_integrity) {
    Bench bench(
        "readproportion=1\nupdateproportion=0\noperationcount=5000\ndataintegrity=true\nrecordcount=10");
    ASSERT_TRUE(bench.go(Phase::kLoad));
    EXPECT_EQ(bench.go(Phase::kRun)->measurements.failed(), 0u);
    bench.table.records.begin()->second.back() ^= 1;
    EXPECT_GT(bench.go(Phase::kRun)->measurements.failed(), 0u);
}

TEST(YcsbRunner, keeps_the_target_rate_and_counts_a_stall_from_the_intended_time) {
    Bench bench(
        "readproportion=1\nupdateproportion=0\noperationcount=400\ntarget=1000\nmeasurement.interval=both");
    ASSERT_TRUE(bench.go(Phase::kLoad));
    bench.table.stall = from_ms(200);
    auto result = bench.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_GE(result->run_time, from_ms(395));
    // One operation of 400 took 200 ms. Plain latencies hide it; intended ones show that half of the
    // operations were late.
    const auto& series = result->measurements.series();
    EXPECT_LT(series.at("READ").latency.percentile(90), 50'000'000u);
    EXPECT_GT(series.at("Intended-READ").latency.percentile(90), 100'000'000u);
}

TEST(YcsbRunner, does_not_measure_the_warm_up) {
    Bench bench("readproportion=1\nupdateproportion=0\noperationcount=100\nwarmup=1\ntarget=500");
    ASSERT_TRUE(bench.go(Phase::kLoad));
    int measuring = 0;
    bench.run_options.measuring = [&] { ++measuring; };
    auto result = bench.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_EQ(measuring, 1);
    EXPECT_EQ(count_of(*result, "READ"), 100u);
    EXPECT_GT(bench.table.reads, 400u);
}

TEST(YcsbRunner, does_not_measure_an_operation_that_began_in_the_warm_up) {
    Bench bench("readproportion=1\nupdateproportion=0\noperationcount=100\nwarmup=1");
    ASSERT_TRUE(bench.go(Phase::kLoad));
    bench.table.stall = from_ms(1500);  // the first one
    auto result = bench.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_EQ(count_of(*result, "READ"), 100u);
}

TEST(YcsbRunner, ends_a_run_at_its_time_limit_and_at_the_request_of_the_caller) {
    Bench timed("readproportion=1\nupdateproportion=0\noperationcount=0\nmaxexecutiontime=1");
    ASSERT_TRUE(timed.go(Phase::kLoad));
    auto result = timed.go(Phase::kRun);
    ASSERT_TRUE(result);
    EXPECT_GT(result->measurements.operations(), 100u);
    std::atomic<bool> stop{true};
    Bench stopped("readproportion=1\nupdateproportion=0\noperationcount=0");
    ASSERT_TRUE(stopped.go(Phase::kLoad));
    stopped.run_options.stop = &stop;
    EXPECT_TRUE(stopped.go(Phase::kRun));
}

TEST(YcsbRunner, ends_a_run_with_the_reason_of_a_thread_that_cannot_begin) {
    Bench bench("threadcount=3");
    bench.run_options.open = [](uint32_t thread) -> Result<std::unique_ptr<Database>> {
        static Table table;
        if (thread == 1) return Status(Code::kUnavailable, "nobody listens");
        return std::unique_ptr<Database>(new TableDatabase(table));
    };
    auto result = bench.go(Phase::kRun);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.status().text(), "nobody listens");
}

TEST(YcsbReport, uses_the_terms_of_ycsb) {
    Measurements m;
    for (int i = 1; i <= 100; ++i) {
        m.record("READ", Status::ok(), from_us(i));
        m.count_operation(true);
    }
    EXPECT_EQ(report(m, from_s(2), {50, 95, 99.9}),
              "[OVERALL], RunTime(ms), 2000\n[OVERALL], Throughput(ops/sec), 50\n[READ], Operations, 100\n"
              "[READ], AverageLatency(us), 50.5\n[READ], MinLatency(us), 1\n[READ], MaxLatency(us), 100\n"
              "[READ], 50thPercentileLatency(us), 50\n[READ], 95thPercentileLatency(us), 95\n"
              "[READ], 99.9PercentileLatency(us), 100\n[READ], Return=OK, 100\n");
    EXPECT_NE(summary(m).find("[READ: Count=100, Max=100, Min=1, Avg=50.50, 50=50, 90=90,"),
              std::string::npos);
}

}  // namespace
}  // namespace wss::ycsb
