// SPDX-License-Identifier: Apache-2.0
// The log on RocksDB (log.h says what it must do). The only place that knows RocksDB.
//
// Two threads: one takes everything that is queued, writes it as one batch and syncs once (group commit:
// under load one fsync serves all transactions that came during the one before it); the other reads what is
// fetched. The store's thread only moves batches in and completions out, and is woken through an eventfd.
//
// Rows (numbers big-endian, so that they sort):
//   "S"                    → schema and identity
//   "F"                    → floor
//   "T" timestamp          → seconds of Unix time, encoded transaction
//   "V" key timestamp      → record
// Rows of decisions that are older than a day are dropped by compaction (KL5).
//
// Thread-safety: as Log; open() and the destructor from any thread, alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/kv/store/log.h"

namespace rocksdb {
class DB;
class CompactionFilter;
struct Options;
}  // namespace rocksdb

namespace wss::kv::store {

struct RocksOptions {
    std::string path;      // a directory; made if it is not there
    std::string identity;  // whose data it is; another's is refused
    bool sync = true;      // batches are done when they are on stable storage
    bool fresh = false;    // a spill file: what another one left is thrown away, data is refused
    uint64_t cache_bytes = uint64_t{32} << 20;
    uint32_t decisions_s = 300;  // how long decisions are given to load(); at least Options::decision_window
};

class RocksLog final : public Log {
  public:
    static Result<std::unique_ptr<RocksLog>> open(const RocksOptions& options);
    // Writes what is queued first.
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
        uint64_t after = 0;  // KL4: batches that must be written first
    };

    RocksLog(const RocksOptions& options, int wake_fd);
    Status open_database();
    Status refuse_durable_data(const rocksdb::Options& options) const;
    std::string schema() const;
    Status check_schema();
    void start();
    void write_loop();
    Code write(const std::deque<Queued>& batches);
    void read_loop();
    void complete(std::vector<LogCompletion> done);

    const RocksOptions options_;
    const int wake_fd_;
    std::unique_ptr<rocksdb::CompactionFilter> filter_;  // outlives the database
    std::unique_ptr<rocksdb::DB> database_;
    std::atomic<uint64_t> queued_bytes_{0};
    std::atomic<uint64_t> syncs_{0};
    std::atomic<bool> has_done_{false};  // so that an idle poll() takes no lock

    std::mutex mutex_;  // guards what follows
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
