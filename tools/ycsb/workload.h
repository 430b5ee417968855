// SPDX-License-Identifier: Apache-2.0
// The decisions of YCSB's CoreWorkload: the next operation, its records, its fields and their bytes.
//
// Options come from properties, with YCSB's names and defaults. All threads share a Workload, and each has a
// WorkloadThread of its own. `txnlen` is Bailis' extension: one operation is a transaction over that many
// records, read-only or write-only.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "tools/ycsb/generators.h"
#include "tools/ycsb/properties.h"

namespace wss::ycsb {

enum class Operation : uint8_t { kRead, kUpdate, kInsert, kScan, kReadModifyWrite };
constexpr size_t kOperations = 5;
// "READ", "UPDATE" and so on, as in YCSB's report.
std::string_view to_string(Operation operation);

enum class Distribution : uint8_t {
    kUniform,
    kZipfian,
    kLatest,
    kHotspot,
    kExponential,
    kSequential,
    kConstant
};

struct WorkloadOptions {
    uint64_t record_count = 1000, operation_count = 1000;
    uint64_t insert_start = 0, insert_count = 1000;
    uint32_t field_count = 10, field_length = 100, field_length_min = 1;
    Distribution field_length_distribution = Distribution::kConstant;
    bool read_all_fields = true, write_all_fields = false, data_integrity = false;
    std::array<double, kOperations> proportions = {0.95, 0.05, 0, 0, 0};
    Distribution request_distribution = Distribution::kUniform;
    double hotspot_data = 0.2, hotspot_operations = 0.8;
    double exponential_percentile = 95, exponential_fraction = 0.8571428571;
    uint32_t zero_padding = 1;
    bool ordered = false;
    uint64_t scan_length_min = 1, scan_length_max = 1000;
    Distribution scan_length_distribution = Distribution::kUniform;
    uint32_t txn_length = 1;
    bool transactional = false;  // txnlen was given: operations are named READ-TXN …
    uint32_t threads = 1;
    uint32_t connections = 1;      // per thread (connectionsperthread), each with one operation in flight
    uint64_t target = 0;           // operations per second of all threads together; 0: no limit
    uint64_t seconds_max = 0;      // of the run phase; 0: until all operations are done
    uint64_t warm_up_seconds = 0;  // at the start of the run phase; its operations are not measured
    uint64_t status_seconds = 10;
    bool measure_operation = true, measure_intended = false;  // measurement.interval

    static Result<WorkloadOptions> from(const Properties& properties);
    uint64_t record_bytes() const { return uint64_t{field_count} * field_length; }
};

class Workload {
  public:
    explicit Workload(const WorkloadOptions& options);

    const WorkloadOptions& options() const { return options_; }
    std::string key(uint64_t number) const { return key_name(number); }
    Insertions& insertions() { return insertions_; }
    // The number of the next record of the load phase.
    uint64_t take_load() { return options_.insert_start + loaded_.fetch_add(1, std::memory_order_relaxed); }

  private:
    friend class WorkloadThread;
    std::string key_name(uint64_t number) const;
    const WorkloadOptions options_;
    Insertions insertions_;
    std::atomic<uint64_t> loaded_{0};
    const std::shared_ptr<std::atomic<uint64_t>> sequence_;
};

class WorkloadThread {
  public:
    WorkloadThread(Workload& workload, uint64_t seed);

    Operation next_operation();
    // The number of an existing record.
    uint64_t next_record();
    // The record numbers of one transaction. Reads may have duplicates (Bailis queues them in a list). Writes
    // must not have any.
    std::vector<uint64_t> next_records(bool distinct);
    void next_records(bool distinct, std::vector<uint64_t>& numbers);
    uint64_t next_scan_length() { return scan_length_->next(random_); }
    // The bytes of a whole record. A record with one field consists of that field. In a record with several
    // fields, each has a prefix that contains its length in four octets, highest first.
    std::string record_value(const std::string& key);
    // The same, but reuses the memory of `record`.
    void record_value(std::string_view key, std::string& record);
    // Returns `record` with one random field replaced.
    Result<std::string> with_one_field_changed(const std::string& key, std::string_view record);
    // For data integrity: whether `record` equals the result of record_value(key).
    bool is_record_of(const std::string& key, std::string_view record);
    Random& random() { return random_; }

  private:
    std::string field_value(const std::string& key, uint32_t field);
    void append_text(std::string& out, size_t length);
    Workload& workload_;
    Random random_;
    std::string text_;  // random letters; a value is a piece of this text from a random place
    std::unique_ptr<Generator> records_, field_length_, scan_length_;
};

// The fields of a record of `count` fields. Fails if `record` is not such a record.
Result<std::vector<std::string_view>> fields_of(std::string_view record, uint32_t count);

// The property text of YCSB's workloads 'a' to 'f'. Empty for other letters.
std::string_view standard_workload(char letter);

}  // namespace wss::ycsb
