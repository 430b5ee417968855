// SPDX-License-Identifier: Apache-2.0
// The real log: a process is killed while it writes, and RocksDB must have kept all acknowledged writes. The
// machine loses power, and the last record of RocksDB's own log is torn. Damage of that log is reported.
#include "lib/kv/store/rocks_log.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "lib/kv/hlc.h"
#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

class Directory {
  public:
    Directory() {
        char name[] = "/tmp/wss-kv-XXXXXX";
        path_ = mkdtemp(name);
    }
    ~Directory() { std::filesystem::remove_all(path_); }
    std::string path() const { return path_ + "/data"; }

  private:
    std::string path_;
};

// Clocks that the test moves while the log's threads read them.
class MovedClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return {now_.load()}; }
    void pass(Nanoseconds time) { now_ += time.count; }

  private:
    std::atomic<int64_t> now_{0};
};
class MovedWallClock final : public WallClock {
  public:
    uint64_t unix_us() noexcept override { return now_us_; }
    void move(int64_t seconds) { now_us_ += static_cast<uint64_t>(seconds * 1'000'000); }

  private:
    std::atomic<uint64_t> now_us_{kTicksEpoch_us + 31'536'000'000'000};  // a year later
};
constexpr int64_t kHour_s = 3600;

struct Clocks {
    MovedClock running;
    MovedWallClock wall;
};

std::unique_ptr<RocksLog> open(const Directory& directory, Clocks& clocks, uint32_t decisions_s = 300) {
    Result<std::unique_ptr<RocksLog>> log = RocksLog::open({.path = directory.path(),
                                                            .decisions_s = decisions_s,
                                                            .clock = &clocks.running,
                                                            .wall = &clocks.wall});
    EXPECT_TRUE(log.is_ok()) << log.status().to_string();
    return std::move(*log);
}

std::unique_ptr<RocksLog> open(const Directory& directory, bool sync = true) {
    Result<std::unique_ptr<RocksLog>> log = RocksLog::open({.path = directory.path(), .sync = sync});
    EXPECT_TRUE(log.is_ok()) << log.status().to_string();
    return std::move(*log);
}

// Polls like a reactor, which arms and sleeps on the eventfd, up to a limit.
bool wait_for(Store& store, const std::function<bool()>& done) {
    for (int i = 0; i < 5000; i++) {
        store.poll();
        if (done()) return true;
        if (!store.arm()) continue;
        pollfd wait{.fd = store.fd(), .events = POLLIN};
        if (::poll(&wait, 1, 10'000) <= 0) return false;
    }
    return false;
}

TEST(KvRocksLog, restores_rows_after_reopening) {
    Directory directory;
    for (uint64_t run = 0; run < 3; run++) {
        std::unique_ptr<RocksLog> log = open(directory);
        Bench bench({.epoch = run + 1, .durability = Durability::kSync}, Bench::kArena, log.get());
        ASSERT_TRUE(bench.recovered.is_ok()) << bench.recovered.to_string();
        for (uint64_t old = 1; old <= run; old++) EXPECT_EQ(bench.get("x" + std::to_string(old)), "value");
        EXPECT_EQ(bench.store->overdue({}, 10).size(), run);
        Heard put;
        Heard prepare;
        EXPECT_EQ(bench.put(run + 1, {{"x" + std::to_string(run + 1), "value"}}, put.continuation()),
                  Answer::kPending);
        EXPECT_EQ(bench.prepare(run + 100, {{"p", "prepared"}}, prepare.continuation()), Answer::kPending);
        EXPECT_TRUE(wait_for(*bench.store, [&] { return put.answer && prepare.answer; }));
    }
}

TEST(KvRocksLog, refuses_the_directory_of_another_partition) {
    Directory directory;
    ASSERT_TRUE(RocksLog::open({.path = directory.path(), .identity = "partition 1"}).is_ok());
    const Status refused = RocksLog::open({.path = directory.path(), .identity = "partition 2"}).status();
    EXPECT_EQ(refused.code(), Code::kInvalid);
    EXPECT_NE(refused.text().find("partition 1"), std::string::npos) << refused.text();
}

TEST(KvRocksLog, does_not_discard_durable_data_for_a_spill_file) {
    Directory directory;
    { std::unique_ptr<RocksLog> log = open(directory); }
    const Status refused = RocksLog::open({.path = directory.path(), .fresh = true}).status();
    EXPECT_EQ(refused.code(), Code::kInvalid) << refused.to_string();
    { std::unique_ptr<RocksLog> log = open(directory); }
    Directory spill;
    for (int run = 0; run < 2; run++) {
        Result<std::unique_ptr<RocksLog>> log =
            RocksLog::open({.path = spill.path(), .sync = false, .fresh = true});
        ASSERT_TRUE(log.is_ok()) << log.status().to_string();
        LoggedTransaction row;
        EXPECT_FALSE(*(*log)->find_transaction({5}, row)) << "of the previous run";
        LogBatch batch;
        batch.put_transaction({.timestamp = {5}, .state = LoggedState::kAborted});
        (*log)->append(std::move(batch), 0);
        EXPECT_TRUE((*log)->flush().is_ok());
    }
}

// An operator may start with durability "memory" because the data cannot be opened.
TEST(KvRocksLog, does_not_discard_data_that_it_cannot_open_for_a_spill_file) {
    Directory directory;
    { std::unique_ptr<RocksLog> log = open(directory); }
    const auto files = [&] {
        std::set<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(directory.path()))
            names.insert(entry.path().filename());
        return names;
    };
    for (const std::string& name : files())
        if (name.starts_with("MANIFEST")) std::filesystem::resize_file(directory.path() + "/" + name, 7);
    const std::set<std::string> before = files();
    const Status refused = RocksLog::open({.path = directory.path(), .fresh = true}).status();
    EXPECT_EQ(refused.code(), Code::kInvalid) << refused.to_string();
    EXPECT_EQ(files(), before);
}

// An inquiry about it would report an abort, although the transaction may be committed.
TEST(KvRocksLog, does_not_report_a_damaged_transaction_as_missing) {
    Directory directory;
    std::unique_ptr<RocksLog> log = open(directory);
    LogBatch batch;
    batch.put_transaction({.timestamp = {5}, .state = static_cast<LoggedState>(9)});
    log->append(std::move(batch), 0);
    ASSERT_TRUE(log->flush().is_ok());
    LoggedTransaction row;
    EXPECT_EQ(log->find_transaction({5}, row).status().code(), Code::kIo);
    EXPECT_FALSE(*log->find_transaction({6}, row));
}

TEST(KvRocksLog, refuses_a_second_opener) {
    Directory directory;
    std::unique_ptr<RocksLog> log = open(directory);
    EXPECT_FALSE(RocksLog::open({.path = directory.path()}).is_ok());
}

TEST(KvRocksLog, fetches_what_was_appended_earlier) {
    Directory directory;
    std::unique_ptr<RocksLog> log = open(directory);
    std::vector<LogCompletion> done;
    for (uint64_t i = 1; i <= 200; i++) {
        LogBatch batch;
        batch.put_version("key", {i}, bytes_of(std::to_string(i)));
        log->append(std::move(batch), 0);
        log->fetch("key", {i}, i);
    }
    for (int spin = 0; spin < 100'000 && done.size() < 200; spin++) {
        log->poll(done);
        if (done.size() < 200) usleep(100);
    }
    ASSERT_EQ(done.size(), 200u);
    for (const LogCompletion& one : done) EXPECT_EQ(one.record, std::to_string(one.ticket));
}

TEST(KvRocksLog, shares_one_sync_among_many_transactions) {
    Directory directory;
    std::unique_ptr<RocksLog> log = open(directory);
    Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
    std::vector<Heard> heard(500);
    for (size_t i = 0; i < heard.size(); i++)
        EXPECT_EQ(bench.put(i + 1, {{"x", "value"}}, heard[i].continuation()), Answer::kPending);
    EXPECT_TRUE(wait_for(*bench.store, [&] { return heard.back().answer.has_value(); }));
    EXPECT_LT(log->syncs(), 250u);
}

void log_decision(RocksLog& log, Timestamp timestamp, LoggedState state) {
    LogBatch batch;
    batch.put_transaction({.timestamp = timestamp, .state = state});
    log.append(std::move(batch), 0);
    ASSERT_TRUE(log.flush().is_ok());
}

TEST(KvRocksLog, turns_old_decisions_into_the_floor_and_can_still_find_them) {
    Directory directory;
    Clocks clocks;
    {
        std::unique_ptr<RocksLog> log = open(directory, clocks);
        log_decision(*log, {50}, LoggedState::kAborted);
        log_decision(*log, {60}, LoggedState::kCommitted);
        clocks.running.pass(from_s(2));
        log_decision(*log, {70}, LoggedState::kAborted);
    }
    std::unique_ptr<RocksLog> log = open(directory, clocks, 1);
    Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
    EXPECT_EQ(bench.store->floor(), Timestamp{60});
    EXPECT_EQ(bench.store->inquire({50}, {}), Answer::kAborted);
    EXPECT_EQ(bench.store->inquire({60}, {}), Answer::kCommitted);
    EXPECT_EQ(bench.store->inquire({55}, {}), Answer::kTooOld);
    EXPECT_EQ(bench.prepare(50, {{"x", "late"}}), Answer::kTooOld);
}

// While a clock was ahead, decisions with timestamps in the future were written. They must not raise the
// floor past the clock: writes would then need timestamps above the floor, which clients and other partitions
// refuse as too far ahead.
TEST(KvRocksLog, does_not_turn_old_decisions_ahead_of_the_clock_into_the_floor) {
    Directory directory;
    Clocks clocks;
    const Timestamp committed = Timestamp::make(clocks.wall.ticks() + 86'400'000'000, 1);
    const Timestamp aborted = Timestamp::make(clocks.wall.ticks() + 86'400'000'000, 2);
    {
        std::unique_ptr<RocksLog> log = open(directory, clocks);
        log_decision(*log, committed, LoggedState::kCommitted);
        log_decision(*log, aborted, LoggedState::kAborted);
        clocks.running.pass(from_s(2));
        log_decision(*log, {70}, LoggedState::kAborted);
    }
    std::unique_ptr<RocksLog> log = open(directory, clocks, 1);
    Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
    EXPECT_EQ(bench.store->floor(), Timestamp{});
    EXPECT_EQ(bench.store->inquire(committed, {}), Answer::kCommitted);
    EXPECT_EQ(bench.store->inquire(aborted, {}), Answer::kAborted);
}

// Opens the log until RocksDB compacts it: each opening adds a file, and four of them are merged. A closing
// cancels the merge, so the last opening waits for it.
void compact(const Directory& directory, Clocks& clocks, Timestamp expected_to_go) {
    constexpr int kOpenings = 5;
    for (int i = 0; i < kOpenings; i++) {
        std::unique_ptr<RocksLog> log = open(directory, clocks);
        Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
        log_decision(*log, {1}, LoggedState::kAborted);
        LoggedTransaction row;
        for (int spin = 0; i == kOpenings - 1 && spin < 60'000; spin++) {
            if (!*log->find_transaction(expected_to_go, row)) return;
            usleep(1000);
        }
    }
    FAIL() << "no compaction dropped the old decision";
}

// Another partition would receive the answer that the committed transaction was aborted, and would abort its
// part.
TEST(KvRocksLog, keeps_decisions_for_a_day_of_running_time_whatever_the_time_of_day) {
    Directory directory;
    Clocks clocks;
    {
        std::unique_ptr<RocksLog> log = open(directory, clocks);
        log_decision(*log, {40}, LoggedState::kCommitted);
        clocks.running.pass(from_s(25 * kHour_s));
        log_decision(*log, {50}, LoggedState::kCommitted);
        clocks.wall.move(-48 * kHour_s);
        log_decision(*log, {60}, LoggedState::kCommitted);
    }
    clocks.wall.move(96 * kHour_s);
    compact(directory, clocks, {40});
    std::unique_ptr<RocksLog> log = open(directory, clocks);
    LoggedTransaction row;
    EXPECT_TRUE(*log->find_transaction({50}, row));
    EXPECT_TRUE(*log->find_transaction({60}, row));
}

// The writing process: it reports each transaction of two keys through the pipe once it is acknowledged.
[[noreturn]] void write_until_killed(const Directory& directory, int out) {
    std::unique_ptr<RocksLog> log = open(directory);
    Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
    constexpr uint64_t kWindow = 16;
    for (uint64_t ts = 1;; ts += kWindow) {
        std::vector<Heard> heard(kWindow);
        for (uint64_t i = 0; i < kWindow; i++) {
            const std::string value = std::to_string(ts + i);
            (void)bench.prepare(ts + i, {{"a" + value, value}, {"b" + value, value}},
                                heard[i].continuation());
        }
        if (!wait_for(*bench.store, [&] { return heard.back().answer.has_value(); })) _exit(2);
        for (uint64_t i = 0; i < kWindow; i++) {
            const uint64_t acknowledged = ts + i;
            if (heard[i].answer != Answer::kOk) _exit(3);
            if (::write(out, &acknowledged, sizeof acknowledged) != sizeof acknowledged) _exit(4);
            if (acknowledged % 2 == 0) (void)bench.store->commit({acknowledged});
        }
    }
}

TEST(KvRocksLog, loses_no_answered_prepare_when_its_process_is_killed) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork() into threads";
#endif
    Directory directory;
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t writer = fork();
    if (writer == 0) write_until_killed(directory, ends[1]);
    close(ends[1]);
    uint64_t last = 0;
    uint64_t acknowledged = 0;
    while (last < 300 && ::read(ends[0], &acknowledged, sizeof acknowledged) == sizeof acknowledged)
        last = acknowledged;
    kill(writer, SIGKILL);
    while (::read(ends[0], &acknowledged, sizeof acknowledged) == sizeof acknowledged) last = acknowledged;
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer exited by itself: " << status;
    close(ends[0]);
    ASSERT_GE(last, 300u);

    std::unique_ptr<RocksLog> log = open(directory);
    Bench bench({.epoch = 2, .durability = Durability::kSync}, Bench::kArena, log.get());
    ASSERT_TRUE(bench.recovered.is_ok()) << bench.recovered.to_string();
    for (uint64_t ts = 1; ts <= last; ts++) {
        const std::string value = std::to_string(ts);
        for (const char* key : {"a", "b"}) {
            const Found found = bench.store->get_exact(key + value, {ts});
            ASSERT_EQ(found.presence, Presence::kExact) << key << ts;
            ASSERT_EQ(text_of(found.version.value), value);
        }
    }
    // A transaction that was not acknowledged is present as a whole or not at all.
    for (uint64_t ts = last + 1; ts <= last + 32; ts++) {
        const std::string value = std::to_string(ts);
        EXPECT_EQ(bench.store->get_exact("a" + value, {ts}).presence,
                  bench.store->get_exact("b" + value, {ts}).presence);
    }
}

// The data of transactions 1 to kTransactions, each of two keys and in a record of its own in RocksDB's log.
// SIGKILL leaves whole records there. Only a power failure tears one, so these tests change the file.
class KvTornLog : public testing::TestWithParam<size_t> {  // length of a value
  protected:
    static constexpr uint64_t kTransactions = 5;
    void SetUp() override {
        std::unique_ptr<RocksLog> log = open(written_);
        Bench bench({.durability = Durability::kSync}, Bench::kArena, log.get());
        for (uint64_t ts = 1; ts <= kTransactions; ts++) {
            Heard heard;
            begins_.push_back(std::filesystem::file_size(newest_log(written_)));
            ASSERT_EQ(
                bench.put(ts, {{key("a", ts), value(ts)}, {key("b", ts), value(ts)}}, heard.continuation()),
                Answer::kPending);
            ASSERT_TRUE(wait_for(*bench.store, [&] { return heard.answer.has_value(); }));
            ASSERT_EQ(heard.answer, Answer::kOk);
        }
    }
    static std::string key(const char* prefix, uint64_t ts) { return prefix + std::to_string(ts); }
    static std::string value(uint64_t ts) { return std::string(GetParam(), static_cast<char>('a' + ts)); }
    static std::filesystem::path newest_log(const Directory& directory) {
        std::filesystem::path newest;
        for (const auto& file : std::filesystem::directory_iterator(directory.path()))
            if (file.path().extension() == ".log") newest = std::max(newest, file.path());
        return newest;
    }
    void copy_to(const Directory& directory) const {
        std::filesystem::copy(written_.path(), directory.path(), std::filesystem::copy_options::recursive);
    }
    // Returns the length of the last record, with its headers.
    uint64_t last_bytes() const { return std::filesystem::file_size(newest_log(written_)) - begins_.back(); }

    Directory written_;
    std::vector<uint64_t> begins_;  // offset of each transaction's record
};

TEST_P(KvTornLog, without_its_last_bytes_keeps_all_transactions_before_them) {
    const uint64_t all = last_bytes();
    for (uint64_t cut : {uint64_t{0}, uint64_t{1}, uint64_t{7}, uint64_t{8}, all / 4, all / 2, all - 8,
                         all - 7, all - 6, all - 1, all}) {
        SCOPED_TRACE(testing::Message() << cut << " of " << all << " bytes");
        Directory torn;
        copy_to(torn);
        std::filesystem::resize_file(newest_log(torn), begins_.back() + all - cut);
        // The first start repairs the log. The second one must find the same.
        for (uint64_t epoch : {2, 3}) {
            std::unique_ptr<RocksLog> log = open(torn);
            ASSERT_NE(log, nullptr);
            Bench bench({.epoch = epoch, .durability = Durability::kSync}, Bench::kArena, log.get());
            ASSERT_TRUE(bench.recovered.is_ok()) << bench.recovered.to_string();
            for (uint64_t ts = 1; ts <= kTransactions; ts++)
                for (const char* prefix : {"a", "b"})
                    ASSERT_EQ(bench.get(key(prefix, ts)),
                              ts < kTransactions || cut == 0 ? value(ts) : "(absent)")
                        << prefix << ts;
        }
    }
}

void damage(const std::filesystem::path& path, uint64_t offset, const std::function<char(char)>& how) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(offset);
    const int byte = file.seekg(at).get();
    file.seekp(at).put(how(static_cast<char>(byte)));
}

void expect_refused(const Directory& damaged) {
    const Status refused = RocksLog::open({.path = damaged.path()}).status();
    EXPECT_EQ(refused.code(), Code::kIo) << refused.to_string();
    EXPECT_NE(refused.text().find(damaged.path()), std::string::npos) << refused.text();
    EXPECT_NE(refused.text().find("damaged"), std::string::npos) << refused.text();
}

// Each record begins with a checksum of 4 bytes, a length of 2 and a type of 1. A length that is damaged so
// that the record seems to end beyond the end of the file looks like a torn record to RocksDB.
TEST_P(KvTornLog, with_damage_before_its_last_record_is_refused) {
    for (uint64_t offset : {0, 3, 4, 5, 6, 7, 20, 60}) {
        SCOPED_TRACE(testing::Message() << "at byte " << offset << " of the record");
        Directory damaged;
        copy_to(damaged);
        damage(newest_log(damaged), begins_[kTransactions / 2] + offset,
               [](char byte) { return static_cast<char>(byte ^ 0x40); });
        expect_refused(damaged);
    }
}

// RocksDB takes a zeroed head for the end of the log.
TEST_P(KvTornLog, with_a_zeroed_head_before_its_last_record_is_refused) {
    Directory damaged;
    copy_to(damaged);
    for (uint64_t offset = 0; offset < 7; offset++)
        damage(newest_log(damaged), begins_[kTransactions / 2] + offset, [](char) { return '\0'; });
    expect_refused(damaged);
}

// With durability "async", a power failure may tear several records.
TEST_P(KvTornLog, with_damage_opens_if_its_records_were_not_synced) {
    if (GetParam() > 10) return;  // RocksDB reports the remaining fragments of a record
    Directory damaged;
    copy_to(damaged);
    for (uint64_t offset = 0; offset < 7; offset++)
        damage(newest_log(damaged), begins_.back() + offset, [](char) { return '\0'; });
    EXPECT_NE(open(damaged, false), nullptr);
}

// RocksDB's log consists of blocks of 32 KiB. The records of long values cover several.
INSTANTIATE_TEST_SUITE_P(Values, KvTornLog, testing::Values(size_t{10}, size_t{40'000}));

}  // namespace
}  // namespace wss::kv::store
