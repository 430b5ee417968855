// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/rocks_log.h"

#include <rocksdb/cache.h>
#include <rocksdb/compaction_filter.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <system_error>

#include "lib/base/errno.h"
#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/kv/store/rocks_wal.h"
#include "lib/wire/endian.h"

namespace wss::kv::store {
namespace {

constexpr char kSchemaRow[] = "S";
constexpr char kFloorRow[] = "F";
constexpr char kTransactionRow = 'T';
constexpr char kVersionRow = 'V';
constexpr std::string_view kSchema = "wss kv store 1\n";
constexpr uint64_t kDecisionAge_s = 24 * 3600;       // KL5
constexpr uint64_t kGroupBytes = uint64_t{8} << 20;  // limit of one write
constexpr uint64_t kCongestedBytes = uint64_t{64} << 20;
constexpr uint64_t kWarningPause_s = 600;
constexpr size_t kBlobBytes = 16 << 10;  // larger values are kept out of compaction

uint64_t unix_seconds() {
    return static_cast<uint64_t>(std::time(nullptr));
}

void append64(std::string& out, uint64_t value) {
    char bytes[8];
    wire::put64(reinterpret_cast<std::byte*>(bytes), value);
    out.append(bytes, sizeof bytes);
}

uint64_t read64(std::string_view from) {
    return wire::get64(reinterpret_cast<const std::byte*>(from.data()));
}

std::string transaction_row(Timestamp timestamp) {
    std::string row(1, kTransactionRow);
    append64(row, timestamp.value);
    return row;
}

std::string version_row(std::string_view key, Timestamp timestamp) {
    std::string row(1, kVersionRow);
    row += key;
    append64(row, timestamp.value);
    return row;
}

Code code_of(const rocksdb::Status& status) {
    if (status.ok()) return Code::kOk;
    if (status.IsNotFound()) return Code::kNotFound;
    if (status.IsNoSpace()) return Code::kNoSpace;
    return Code::kIo;
}

Status status_of(const rocksdb::Status& status, std::string_view what) {
    if (status.ok()) return Status::ok();
    return failure(code_of(status), "{}: {}{}", what, status.ToString(),
                   status.IsNoSpace() ? advice_on_write(ENOSPC) : "");
}

class OldDecisions final : public rocksdb::CompactionFilter {
  public:
    explicit OldDecisions(const RunningTime& running) : running_(running) {}
    const char* Name() const override { return "wss.old-decisions"; }
    bool Filter(int, const rocksdb::Slice& row, const rocksdb::Slice& value, std::string*,
                bool*) const override {
        if (row.empty() || row[0] != kTransactionRow || value.size() < 9 || !running_.is_known())
            return false;
        const std::string_view bytes(value.data(), value.size());
        if (static_cast<LoggedState>(bytes[8]) == LoggedState::kPrepared) return false;
        return read64(bytes) + kDecisionAge_s < running_.seconds();
    }

  private:
    const RunningTime& running_;
};

// Sends RocksDB's warnings to the program's log. RocksDB's own log file would be on the disk of the data, and
// Debian's RocksDB aborts the process when it appends to that file after a write that found the disk full.
class Warnings final : public rocksdb::Logger {
  public:
    explicit Warnings(std::string path) : Logger(rocksdb::WARN_LEVEL), path_(std::move(path)) {}
    using Logger::Logv;
    void Logv(const char* format, va_list words) override { Logv(rocksdb::WARN_LEVEL, format, words); }
    void Logv(const rocksdb::InfoLogLevel level, const char* format, va_list words) override {
        if (level < rocksdb::WARN_LEVEL) return;
        char text[1024];
        (void)std::vsnprintf(text, sizeof text, format, words);
        std::string_view line(text);
        line = line.substr(0, line.find_last_not_of('\n') + 1);
        if (is_new(format)) log::warning("key-value data in {}: RocksDB: {}", path_, line);
    }
    void LogHeader(const char*, va_list) override {}  // drops RocksDB's version and options

  private:
    // While a disk is full, the same warnings repeat every 5 s.
    bool is_new(const char* format) {
        std::lock_guard lock(mutex_);
        const uint64_t now = unix_seconds();
        uint64_t& next = next_[format];
        if (now < next) return false;
        next = now + kWarningPause_s;
        return true;
    }

    const std::string path_;
    std::mutex mutex_;
    std::map<std::string, uint64_t> next_;  // when each format is logged again, in seconds of Unix time
};

void add_to(rocksdb::WriteBatch& all, const LogBatch::Change& change, uint64_t stamp) {
    switch (change.kind) {
        case LogBatch::Kind::kPutVersion:
            all.Put(version_row(change.key, change.timestamp), change.value);
            return;
        case LogBatch::Kind::kRemoveVersion:
            all.Delete(version_row(change.key, change.timestamp));
            return;
        case LogBatch::Kind::kPutTransaction: {
            std::string value;
            append64(value, stamp);
            all.Put(transaction_row(change.timestamp), value + change.value);
            return;
        }
        case LogBatch::Kind::kPutFloor: {
            std::string value;
            append64(value, change.timestamp.value);
            all.Put(kFloorRow, value);
            return;
        }
    }
}

}  // namespace

static std::string schema(const RocksOptions& options) {
    return std::string(kSchema) + (options.fresh ? "(spilled values)" : options.identity);
}

bool RocksLog::is_at(const std::string& path) {
    std::error_code error;
    // "CURRENT" names the newest list of a database's files. If that is unknown, it may be one.
    return std::filesystem::exists(std::filesystem::path(path) / "CURRENT", error) || error;
}

Result<std::unique_ptr<RocksLog>> RocksLog::open(RocksOptions options) {
    if (options.fresh) {
        // An operator who sets durability to "memory" by mistake, or because the data cannot be opened, must
        // not lose them. So only a folder for spilled values is ever deleted.
        if (is_at(options.path))
            return failure(Code::kInvalid,
                           "{} holds data that may be durable, and this store would start without them: set "
                           "--kv-durability as before, name another directory, or remove this one",
                           options.path);
        WSS_TRY(make_folder(options.path).within("key-value data"));
        options.path += "/spilled-values";
    }
    const int wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0) return Status::from_errno(errno, "cannot create an eventfd for the key-value log");
    std::unique_ptr<RocksLog> log(new RocksLog(options, wake));
    WSS_TRY(log->open_database());
    WSS_TRY(log->check_schema());
    WSS_TRY(log->start());
    return log;
}

RocksLog::RocksLog(const RocksOptions& options, int wake_fd)
    : options_(options),
      wall_(options.wall != nullptr ? *options.wall : system_wall_),
      running_(options.clock != nullptr ? *options.clock : system_clock_, wall_.unix_us() / 1'000'000),
      wake_fd_(wake_fd),
      filter_(std::make_unique<OldDecisions>(running_)) {}

RocksLog::~RocksLog() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    writer_wakes_.notify_all();
    if (writer_.joinable()) writer_.join();
    reader_wakes_.notify_all();
    if (reader_.joinable()) reader_.join();
    database_.reset();
    close(wake_fd_);
}

Status RocksLog::open_database() {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compaction_filter = filter_.get();
    // A compaction before load() would keep all decisions, because their age is not yet known. Spilled values
    // are not loaded.
    options.disable_auto_compactions = !options_.fresh;
    options.info_log = std::make_shared<Warnings>(options_.path);
    options.max_open_files = 256;
    options.write_buffer_size = 16 << 20;
    options.max_total_wal_size = 128 << 20;
    options.enable_blob_files = true;
    options.min_blob_size = kBlobBytes;
    options.enable_blob_garbage_collection = true;
    // A power failure leaves a torn tail of the log. Other damage must be reported: RocksDB reports most of
    // it, check_wal() what RocksDB mistakes for a torn tail.
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(options_.cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    const std::string what = "opening the key-value data in " + options_.path;
    // RocksDB logs a warning if the directory is missing, and DestroyDB() may then fail. RocksDB does not
    // sync the entry of this directory in its parent.
    WSS_TRY(make_folder(options_.path).within("key-value data"));
    if (options_.fresh) {
        WSS_TRY(status_of(rocksdb::DestroyDB(options_.path, options), what));
        WSS_TRY(make_folder(options_.path).within("key-value data"));
    }
    if (options_.sync) WSS_TRY(check_wal(options_.path).within(what));
    rocksdb::DB* database = nullptr;
    WSS_TRY(status_of(rocksdb::DB::Open(options, options_.path, &database), what));
    database_.reset(database);
    return Status::ok();
}

Status RocksLog::check_schema() {
    const std::string mine = schema(options_);
    std::string there;
    const rocksdb::Status found = database_->Get({}, kSchemaRow, &there);
    if (found.IsNotFound()) {
        std::unique_ptr<rocksdb::Iterator> any(database_->NewIterator({}));
        any->SeekToFirst();
        if (any->Valid()) return failure(Code::kInvalid, "{} is not key-value data of WSS", options_.path);
        rocksdb::WriteOptions sync;
        sync.sync = true;
        return status_of(database_->Put(sync, kSchemaRow, mine), "writing to " + options_.path);
    }
    WSS_TRY(status_of(found, "reading " + options_.path));
    if (!there.starts_with(kSchema))
        return failure(Code::kUnsupported, "{} was written by a different version of this program",
                       options_.path);
    if (there != mine)
        return failure(Code::kInvalid, "{} holds the data of '{}', not of '{}'", options_.path,
                       there.substr(kSchema.size()), options_.identity);
    return Status::ok();
}

Status RocksLog::start() {
    auto writer = start_thread("the key-value log", [this] { write_loop(); });
    if (!writer) return writer.status();
    writer_ = std::move(*writer);
    auto reader = start_thread("the key-value log", [this] { read_loop(); });
    if (!reader) return reader.status();
    reader_ = std::move(*reader);
    return Status::ok();
}

void RocksLog::append(LogBatch batch, uint64_t ticket) {
    queued_bytes_.fetch_add(batch.bytes(), std::memory_order_relaxed);
    {
        std::lock_guard lock(mutex_);
        queue_.push_back({std::move(batch), ticket});
        appended_++;
    }
    writer_wakes_.notify_one();
}

void RocksLog::write_loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
        writer_wakes_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) break;
        std::deque<Queued> group;
        uint64_t bytes = 0;
        while (!queue_.empty() && (group.empty() || bytes + queue_.front().batch.bytes() <= kGroupBytes)) {
            bytes += queue_.front().batch.bytes();
            group.push_back(std::move(queue_.front()));
            queue_.pop_front();
        }
        const bool failed = failed_;
        lock.unlock();
        const Code code = failed ? Code::kIo : write(group);
        std::vector<LogCompletion> done;
        for (const Queued& queued : group)
            if (queued.ticket != 0) done.push_back({.ticket = queued.ticket, .code = code});
        complete(std::move(done));
        queued_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
        lock.lock();
        failed_ = failed_ || code != Code::kOk;  // KL3
        written_ += group.size();
        reader_wakes_.notify_one();
        flushed_.notify_all();
    }
}

Code RocksLog::write(const std::deque<Queued>& batches) {
    rocksdb::WriteBatch all;
    const uint64_t stamp = running_.seconds();
    for (const Queued& queued : batches)
        for (const LogBatch::Change& change : queued.batch.changes()) add_to(all, change, stamp);
    rocksdb::WriteOptions how;
    how.sync = options_.sync;
    if (options_.sync) syncs_.fetch_add(1, std::memory_order_relaxed);
    const rocksdb::Status written = database_->Write(how, &all);
    if (!written.ok())
        log::error("key-value data in {} cannot be written: {}; {} until this program is restarted{}",
                   options_.path, written.ToString(),
                   options_.fresh ? "no more values leave memory" : "all writes are refused",
                   written.IsNoSpace() ? "; make room there first (df -h, df -i)" : "");
    return code_of(written);
}

void RocksLog::complete(std::vector<LogCompletion> done) {
    if (done.empty()) return;
    bool wake = false;
    {
        std::lock_guard lock(mutex_);
        wake = done_.empty();
        for (LogCompletion& one : done) done_.push_back(std::move(one));
        has_done_.store(true, std::memory_order_release);
    }
    const uint64_t one = 1;
    if (wake) (void)!::write(wake_fd_, &one, sizeof one);
}

size_t RocksLog::poll(std::vector<LogCompletion>& done) {
    if (!has_done_.load(std::memory_order_acquire)) return 0;
    std::lock_guard lock(mutex_);
    const size_t count = done_.size();
    for (LogCompletion& one : done_) done.push_back(std::move(one));
    done_.clear();
    has_done_.store(false, std::memory_order_relaxed);
    return count;
}

// Drain first, then check: a completion in between makes the eventfd readable again.
bool RocksLog::arm() noexcept {
    uint64_t count = 0;
    (void)!::read(wake_fd_, &count, sizeof count);
    return !has_done_.load(std::memory_order_acquire);
}

bool RocksLog::is_congested() const noexcept {
    return queued_bytes_.load(std::memory_order_relaxed) > kCongestedBytes;
}

void RocksLog::fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) {
    {
        std::lock_guard lock(mutex_);
        fetches_.push_back({.row = version_row(key, timestamp), .ticket = ticket, .after = appended_});
    }
    reader_wakes_.notify_one();
}

void RocksLog::read_loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
        // When the log stops, the remaining fetches get no completion.
        reader_wakes_.wait(lock, [this] {
            return (stopping_ && queue_.empty()) || (!fetches_.empty() && fetches_.front().after <= written_);
        });
        if (stopping_) break;
        const Fetch fetch = std::move(fetches_.front());
        fetches_.pop_front();
        lock.unlock();
        LogCompletion completion{.ticket = fetch.ticket};
        completion.code = code_of(database_->Get({}, fetch.row, &completion.record));
        std::vector<LogCompletion> done;
        done.push_back(std::move(completion));
        complete(std::move(done));
        lock.lock();
    }
}

Status RocksLog::flush() {
    std::unique_lock lock(mutex_);
    const uint64_t all = appended_;
    flushed_.wait(lock, [this, all] { return written_ >= all; });
    if (failed_) return failure(Code::kIo, "writing to {} failed", options_.path);
    lock.unlock();
    return status_of(database_->FlushWAL(true), "flushing " + options_.path);
}

Result<bool> RocksLog::find_transaction(Timestamp timestamp, LoggedTransaction& found) {
    std::string value;
    const rocksdb::Status status = database_->Get({}, transaction_row(timestamp), &value);
    if (status.IsNotFound()) return false;
    WSS_TRY(status_of(status, "reading " + options_.path));
    if (value.size() > 8 && parse_transaction(timestamp, std::string_view(value).substr(8), found))
        return true;
    return failure(Code::kIo, "{} has a damaged row", options_.path);
}

// The latest stamp of a transaction's row; 0: there is none.
uint64_t RocksLog::latest_stamp() const {
    const std::string first(1, kTransactionRow), end(1, kTransactionRow + 1);
    std::unique_ptr<rocksdb::Iterator> row(database_->NewIterator({}));
    uint64_t latest = 0;
    for (row->Seek(first); row->Valid() && row->key().compare(end) < 0; row->Next())
        if (row->value().size() >= 8)
            latest = std::max(latest, read64({row->value().data(), row->value().size()}));
    return latest;
}

Status RocksLog::load(LogVisitor& visitor) {
    const uint64_t latest = latest_stamp();
    running_.continue_at(latest != 0 ? latest : running_.seconds());
    WSS_TRY(status_of(database_->EnableAutoCompaction({database_->DefaultColumnFamily()}),
                      "compacting " + options_.path));
    std::unique_ptr<rocksdb::Iterator> row(database_->NewIterator({}));
    const uint64_t now = running_.seconds();
    const auto damaged = [this] { return failure(Code::kIo, "{} has a damaged row", options_.path); };
    for (row->SeekToFirst(); row->Valid(); row->Next()) {
        const std::string_view name(row->key().data(), row->key().size());
        const std::string_view value(row->value().data(), row->value().size());
        if (name == kSchemaRow) continue;
        if (name == kFloorRow) {
            if (value.size() != 8) return damaged();
            WSS_TRY(visitor.on_floor({read64(value)}));
            continue;
        }
        if (name.size() < 9) return damaged();
        const Timestamp timestamp{read64(name.substr(name.size() - 8))};
        if (name[0] == kVersionRow) {
            const Bytes record = std::as_bytes(std::span(value.data(), value.size()));
            WSS_TRY(visitor.on_version(name.substr(1, name.size() - 9), timestamp, record));
            continue;
        }
        LoggedTransaction transaction;
        if (name[0] != kTransactionRow || value.size() < 9 ||
            !parse_transaction(timestamp, value.substr(8), transaction))
            return damaged();
        const bool open = transaction.state == LoggedState::kPrepared;
        // The floor must not pass the clock.
        const bool ahead = timestamp.ticks() > wall_.ticks();
        if (open || ahead || read64(value) + options_.decisions_s >= now)
            WSS_TRY(visitor.on_transaction(transaction));
        else
            WSS_TRY(visitor.on_floor(timestamp));
    }
    return status_of(row->status(), "reading " + options_.path);
}

}  // namespace wss::kv::store
