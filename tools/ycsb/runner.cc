// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/runner.h"

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <thread>

#include "tools/ycsb/run_shared.h"

namespace wss::ycsb {

namespace {

// A thread that sleeps to keep its rate wakes at this interval to check whether the run must end.
constexpr int64_t kNapMax_ns = 50'000'000;

class Worker {
  public:
    Worker(Shared& shared, uint32_t number, uint64_t operations, Database& database)
        : shared_(shared),
          database_(database),
          options_(shared.workload.options()),
          records_(shared.workload, shared.options.seed * 1000003 + number),
          operations_(operations) {}

    void work();
    Measurements measurements;

  private:
    struct Part {
        const char* name;
        Status status;
        Nanoseconds latency;
    };
    void one(Nanoseconds due);
    void load_one();
    Status read();
    Status update();
    Status insert(uint64_t count);
    Status scan();
    Status read_modify_write();
    Status write(std::span<const uint64_t> numbers);
    Status changed_values(std::span<const uint64_t> numbers);
    void nap_until(Nanoseconds due);
    void note(Operation operation, const Status& status, Nanoseconds begun, Nanoseconds due);
    std::string name_of(Operation operation) const {
        return std::string(to_string(operation)) + (options_.transactional ? "-TXN" : "");
    }
    void name_keys(std::span<const uint64_t> numbers);

    Shared& shared_;
    Database& database_;
    const WorkloadOptions& options_;
    WorkloadThread records_;
    const uint64_t operations_;
    uint64_t loaded_ = 0;
    bool counts_ = false;  // the current operation did not begin in the warm-up
    std::vector<uint64_t> numbers_;
    std::vector<std::string> keys_, values_;
    std::vector<Part> parts_;  // parts of a read-modify-write
};

void Worker::name_keys(std::span<const uint64_t> numbers) {
    keys_.clear();
    for (uint64_t number : numbers) keys_.push_back(shared_.workload.key(number));
}

Status Worker::read() {
    numbers_ = records_.next_records(false);
    name_keys(numbers_);
    WSS_TRY(database_.read(numbers_, keys_, values_));
    if (options_.data_integrity)
        for (size_t i = 0; i < keys_.size(); ++i)
            if (!records_.is_record_of(keys_[i], values_[i]))
                return failure(Code::kInternal, "the record of {} does not contain the data that was written",
                               keys_[i]);
    return Status::ok();
}

Status Worker::write(std::span<const uint64_t> numbers) {
    name_keys(numbers);
    values_.clear();
    for (const std::string& key : keys_) values_.push_back(records_.record_value(key));
    return database_.write(numbers, keys_, values_);
}

// Changes one of several fields. The record is a single value of the store, so it must be read first.
Status Worker::changed_values(std::span<const uint64_t> numbers) {
    name_keys(numbers);
    WSS_TRY(database_.read(numbers, keys_, values_));
    for (size_t i = 0; i < keys_.size(); ++i) {
        auto changed = records_.with_one_field_changed(keys_[i], values_[i]);
        if (!changed) return changed.status();
        values_[i] = *changed;
    }
    return Status::ok();
}

Status Worker::update() {
    numbers_ = records_.next_records(true);
    if (options_.write_all_fields || options_.field_count == 1) return write(numbers_);
    WSS_TRY(changed_values(numbers_));
    return database_.write(numbers_, keys_, values_);
}

Status Worker::insert(uint64_t count) {
    numbers_.clear();
    for (uint64_t i = 0; i < count; ++i) numbers_.push_back(shared_.workload.insertions().take());
    Status written = write(numbers_);
    // Acknowledge after a failure as well, as YCSB does. Otherwise no thread could continue to insert.
    for (uint64_t number : numbers_)
        if (!shared_.workload.insertions().acknowledge(number))
            return Status(Code::kExhausted, "an insert has not ended, and too many later ones wait for it");
    return written;
}

Status Worker::scan() {
    uint64_t found = 0;
    return database_.scan(shared_.workload.key(records_.next_record()), records_.next_scan_length(), found);
}

Status Worker::read_modify_write() {
    numbers_ = records_.next_records(true);
    parts_.clear();
    Nanoseconds begun = shared_.clock.now();
    name_keys(numbers_);
    Status status = database_.read(numbers_, keys_, values_);
    Nanoseconds read_at = shared_.clock.now();
    parts_.push_back({"READ", status, read_at - begun});
    if (!status) return status;
    status = write(numbers_);
    parts_.push_back({"UPDATE", status, shared_.clock.now() - read_at});
    return status;
}

void Worker::note(Operation operation, const Status& status, Nanoseconds begun, Nanoseconds due) {
    Nanoseconds end = shared_.clock.now();
    shared_.operations.fetch_add(1, std::memory_order_relaxed);
    if (!counts_) return;
    measurements.count_operation(status.is_ok());
    std::string name = name_of(operation);
    if (options_.measure_operation) measurements.record(name, status, end - begun);
    if (options_.measure_intended) measurements.record_intended(name, status, end - due);
    if (operation != Operation::kReadModifyWrite || !options_.measure_operation) return;
    for (const Part& part : parts_)
        measurements.record(std::string(part.name) + (options_.transactional ? "-TXN" : ""), part.status,
                            part.latency);
}

void Worker::one(Nanoseconds due) {
    Operation operation = records_.next_operation();
    Nanoseconds begun = shared_.clock.now();
    if (due.count == 0) due = begun;
    Status status;
    switch (operation) {
        case Operation::kRead:
            status = read();
            break;
        case Operation::kUpdate:
            status = update();
            break;
        case Operation::kInsert:
            status = insert(options_.txn_length);
            break;
        case Operation::kScan:
            status = scan();
            break;
        case Operation::kReadModifyWrite:
            status = read_modify_write();
            break;
    }
    note(operation, status, begun, due);
}

void Worker::load_one() {
    uint64_t count = std::min<uint64_t>(options_.txn_length, operations_ - loaded_);
    numbers_.clear();
    for (uint64_t i = 0; i < count; ++i) numbers_.push_back(shared_.workload.take_load());
    Nanoseconds begun = shared_.clock.now();
    Status status = write(numbers_);
    loaded_ += count;
    note(Operation::kInsert, status, begun, begun);
}

void Worker::nap_until(Nanoseconds due) {
    for (;;) {
        int64_t left = (due - shared_.clock.now()).count;
        if (left <= 0 || shared_.should_end()) return;
        timespec nap{0, static_cast<long>(std::min(left, kNapMax_ns))};
        nanosleep(&nap, nullptr);
    }
}

void Worker::work() {
    bool load = shared_.options.phase == Phase::kLoad;
    int64_t tick = options_.target == 0
                       ? 0
                       : static_cast<int64_t>(1e9 * options_.threads / static_cast<double>(options_.target));
    Nanoseconds started = shared_.clock.now();
    int64_t ticks = 0;
    uint64_t measured = 0;
    while (!shared_.should_end() &&
           (load ? loaded_ < operations_ : options_.operation_count == 0 || measured < operations_)) {
        Nanoseconds due{0};
        if (tick != 0) {
            due = started + Nanoseconds{tick * ticks++};
            nap_until(due);
        }
        counts_ = shared_.measuring.load(std::memory_order_relaxed);
        measured += counts_ ? 1 : 0;
        load ? load_one() : one(due);
    }
}

// ---- the run

Measurements work_alone(Shared& shared, uint32_t number, uint64_t operations, Database& database) {
    Worker worker(shared, number, operations, database);
    worker.work();
    return std::move(worker.measurements);
}

void thread_main(Shared& shared, uint32_t number, uint64_t operations) {
    auto database = shared.options.open(number);
    {
        std::unique_lock lock(shared.mutex);
        if (!database) {
            if (shared.failure) shared.failure = database.status();
            shared.ended = true;
        }
        ++shared.ready;
        shared.changed.notify_all();
        // The wait is bounded, because the open() of the other threads has a time limit.
        shared.changed.wait(lock, [&] { return shared.go; });
    }
    if (database) {
        Lanes* lanes = shared.options.phase == Phase::kRun ? (*database)->lanes() : nullptr;
        Measurements measured = lanes != nullptr ? run_lanes(shared, number, operations, *lanes)
                                                 : work_alone(shared, number, operations, **database);
        std::lock_guard lock(shared.mutex);
        shared.measurements.merge(measured);
    }
    database = Status(Code::kClosed);  // closed in the thread that used it
    std::lock_guard lock(shared.mutex);
    ++shared.done;
    shared.changed.notify_all();
}

std::string status_line(uint64_t seconds, uint64_t operations, double rate) {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tm local;
    localtime_r(&now.tv_sec, &local);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &local);
    return fmt::format("{}:{:03} {} sec: {} operations; {:.2f} current ops/sec", date,
                       now.tv_nsec / 1'000'000, seconds, operations, rate);
}

// Waits for the threads, ends the warm-up and the run at the right time, and prints the status line.
Nanoseconds watch(Shared& shared, const WorkloadOptions& options) {
    Nanoseconds started = shared.clock.now(), measured = started, told = started;
    uint64_t told_operations = 0;
    bool load = shared.options.phase == Phase::kLoad;
    auto begin_measuring = [&] {
        measured = shared.clock.now();
        if (shared.options.measuring) shared.options.measuring();
        shared.measuring = true;
    };
    if (options.warm_up_seconds == 0 || load) begin_measuring();
    std::unique_lock lock(shared.mutex);
    shared.go = true;
    shared.changed.notify_all();
    while (shared.done < options.threads) {
        shared.changed.wait_for(lock, std::chrono::milliseconds(20));
        Nanoseconds now = shared.clock.now();
        if (!shared.measuring && now - started >= from_s(static_cast<int64_t>(options.warm_up_seconds)))
            begin_measuring();
        if (!load && options.seconds_max != 0 && shared.measuring &&
            now - measured >= from_s(static_cast<int64_t>(options.seconds_max)))
            shared.ended = true;
        if (now - told < from_s(static_cast<int64_t>(options.status_seconds)) || !shared.options.status)
            continue;
        uint64_t operations = shared.operations;
        shared.options.status(status_line(static_cast<uint64_t>((now - started).count) / 1'000'000'000,
                                          operations,
                                          static_cast<double>(operations - told_operations) * 1e9 /
                                              static_cast<double>((now - told).count)));
        told = now;
        told_operations = operations;
    }
    return shared.clock.now() - measured;
}

}  // namespace

Result<RunResult> run(Workload& workload, const RunOptions& options) {
    const WorkloadOptions& o = workload.options();
    Shared shared(workload, options);
    uint64_t all = options.phase == Phase::kLoad ? o.insert_count : o.operation_count;
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < o.threads; ++i)
        threads.emplace_back(thread_main, std::ref(shared), i,
                             all / o.threads + (i < all % o.threads ? 1 : 0));
    {
        std::unique_lock lock(shared.mutex);
        shared.changed.wait(lock, [&] { return shared.ready == o.threads; });
    }
    RunResult result;
    result.run_time = watch(shared, o);
    for (std::thread& thread : threads) thread.join();
    if (!shared.failure) return shared.failure;
    result.measurements = std::move(shared.measurements);
    return result;
}

}  // namespace wss::ycsb
