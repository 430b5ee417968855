// SPDX-License-Identifier: Apache-2.0
// The log on RocksDB (rules in log.h). The only code that uses RocksDB.
//
// There are two threads. The writer takes the queued batches, writes them as one batch and syncs once (group
// commit: under load one fsync serves all transactions that arrived during the previous one). The reader
// handles fetches. The store's thread queues batches and takes completions; an eventfd wakes it. Only load()
// and find_transaction() read the database in the store's thread.
//
// Rows (numbers big-endian, so that they sort):
//   "S"                    → schema and identity
//   "F"                    → floor
//   "T" timestamp          → age stamp, encoded transaction
//   "V" key timestamp      → record
//
// Compaction drops rows of decisions older than a day (KL5). An age stamp is in seconds of running time,
// which passes only while a process has the log open. The time of day cannot measure the age: if it were
// wrong for a moment, compaction would drop recent decisions. Running time begins with the Unix time at which
// the log is created, and continues at the latest stamp of the log. So stamps of earlier versions (Unix time)
// stay valid.
//
// Thread-safety: as Log; open() and the destructor from any thread, without concurrent calls.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/clock.h"
#include "lib/kv/hlc.h"
#include "lib/kv/store/log.h"

namespace rocksdb {
class DB;
class CompactionFilter;
struct Options;
}  // namespace rocksdb

namespace wss::kv::store {

struct RocksOptions {
    std::string path;      // a directory; created if missing
    std::string identity;  // owner of the data; data of another owner is refused
    bool sync = true;      // batches complete when they are on stable storage
    // Spilled values: those of an earlier run are deleted. They are in a folder of their own in `path`. Other
    // data there are refused.
    bool fresh = false;
    uint64_t cache_bytes = uint64_t{32} << 20;
    uint32_t decisions_s = 300;  // load() returns decisions this recent; at least Options::decision_window
    Clock* clock = nullptr;      // called by every thread; nullptr: the system's
    WallClock* wall = nullptr;   // called by every thread; nullptr: the system's
};

// Measures the age of decisions. Thread-safe.
class RunningTime {
  public:
    RunningTime(Clock& clock, uint64_t began_s) : clock_(clock), began_(clock.now()), base_s_(began_s) {}
    uint64_t seconds() const noexcept { return base_s_.load(std::memory_order_relaxed) + passed_s(); }
    void continue_at(uint64_t seconds) noexcept {
        base_s_.store(seconds - passed_s(), std::memory_order_relaxed);
        is_known_.store(true, std::memory_order_release);
    }
    // False until the latest stamp of the log is known: stamps cannot be compared with this time.
    bool is_known() const noexcept { return is_known_.load(std::memory_order_acquire); }

  private:
    uint64_t passed_s() const noexcept {
        return static_cast<uint64_t>((clock_.now() - began_).count / 1'000'000'000);
    }
    Clock& clock_;
    const Nanoseconds began_;
    std::atomic<uint64_t> base_s_;
    std::atomic<bool> is_known_{false};
};

class RocksLog final : public Log {
  public:
    static Result<std::unique_ptr<RocksLog>> open(RocksOptions options);
    // True if the directory holds a log, damaged or not.
    static bool is_at(const std::string& path);
    // Writes the queued batches first.
    ~RocksLog() override;

    Status load(LogVisitor& visitor) override;
    void append(LogBatch batch, uint64_t ticket) override;
    void fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) override;
    Result<bool> find_transaction(Timestamp timestamp, LoggedTransaction& found) override;
    size_t poll(std::vector<LogCompletion>& done) override;
    bool is_congested() const noexcept override;
    bool arm() noexcept override;
    int fd() const noexcept override { return wake_fd_; }

    // Waits until everything appended is written and on stable storage.
    Status flush();
    uint64_t syncs() const { return syncs_.load(std::memory_order_relaxed); }

  private:
    struct Queued {
        LogBatch batch;
        uint64_t ticket = 0;
    };
    struct Fetch {
        std::string row;
        uint64_t ticket = 0;
        uint64_t after = 0;  // KL4: number of batches that must be written first
    };

    RocksLog(const RocksOptions& options, int wake_fd);
    Status open_database();
    Status check_schema();
    Status start();
    uint64_t latest_stamp() const;
    void write_loop();
    Code write(const std::deque<Queued>& batches);
    void read_loop();
    void complete(std::vector<LogCompletion> done);

    const RocksOptions options_;
    SystemClock system_clock_;
    SystemWallClock system_wall_;
    WallClock& wall_;
    RunningTime running_;
    const int wake_fd_;
    std::unique_ptr<rocksdb::CompactionFilter> filter_;  // outlives the database
    std::unique_ptr<rocksdb::DB> database_;
    std::atomic<uint64_t> queued_bytes_{0};
    std::atomic<uint64_t> syncs_{0};
    std::atomic<bool> has_done_{false};  // so that an idle poll() takes no lock

    std::mutex mutex_;  // guards the members below
    std::condition_variable writer_wakes_;
    std::condition_variable reader_wakes_;
    std::condition_variable flushed_;
    std::deque<Queued> queue_;
    std::deque<Fetch> fetches_;
    std::vector<LogCompletion> done_;
    uint64_t appended_ = 0;
    uint64_t written_ = 0;
    bool failed_ = false;
    bool stopping_ = false;

    std::thread writer_;
    std::thread reader_;
};

}  // namespace wss::kv::store
