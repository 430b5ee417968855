// SPDX-License-Identifier: Apache-2.0
#include "tools/ycsb/workload.h"

#include <algorithm>

#include "tools/ycsb/hash.h"

namespace wss::ycsb {

std::string_view to_string(Operation operation) {
    switch (operation) {
        case Operation::kRead:
            return "READ";
        case Operation::kUpdate:
            return "UPDATE";
        case Operation::kInsert:
            return "INSERT";
        case Operation::kScan:
            return "SCAN";
        case Operation::kReadModifyWrite:
            return "READ-MODIFY-WRITE";
    }
    return "?";
}

static std::unique_ptr<Generator> length_generator(Distribution distribution, uint64_t min, uint64_t max) {
    if (distribution == Distribution::kUniform) return std::make_unique<Uniform>(min, max);
    if (distribution == Distribution::kZipfian) return std::make_unique<Zipfian>(min, max);
    return std::make_unique<Constant>(max);
}

// The last record number of YCSB's scrambled zipfian, with the expected inserts included. The range includes
// both ends, so even without inserts it has one item more than there are records. Results beyond the last
// existing record are drawn again.
static uint64_t zipfian_end(const WorkloadOptions& options) {
    double inserts = options.proportions[static_cast<size_t>(Operation::kInsert)];
    auto expected = static_cast<uint64_t>(static_cast<double>(options.operation_count) * inserts * 2.0);
    return options.insert_start + options.insert_count + expected;
}

static std::unique_ptr<Generator> record_generator(const WorkloadOptions& options,
                                                   const Insertions& insertions,
                                                   const std::shared_ptr<std::atomic<uint64_t>>& sequence) {
    uint64_t first = options.insert_start, last = options.insert_start + options.insert_count - 1;
    switch (options.request_distribution) {
        case Distribution::kZipfian:
            return std::make_unique<ScrambledZipfian>(first, zipfian_end(options));
        case Distribution::kLatest:
            return std::make_unique<Latest>(insertions);
        case Distribution::kHotspot:
            return std::make_unique<Hotspot>(first, last, options.hotspot_data, options.hotspot_operations);
        case Distribution::kExponential:
            return std::make_unique<Exponential>(
                options.exponential_percentile,
                static_cast<double>(options.record_count) * options.exponential_fraction);
        case Distribution::kSequential:
            return std::make_unique<Sequential>(first, last, sequence);
        default:
            return std::make_unique<Uniform>(first, last);
    }
}

Workload::Workload(const WorkloadOptions& options)
    : options_(options),
      insertions_(options.record_count),
      sequence_(std::make_shared<std::atomic<uint64_t>>(0)) {}

std::string Workload::key_name(uint64_t number) const {
    return ycsb::key_name(number, options_.zero_padding, options_.ordered);
}

WorkloadThread::WorkloadThread(Workload& workload, uint64_t seed) : workload_(workload), random_(seed) {
    const WorkloadOptions& o = workload.options();
    records_ = record_generator(o, workload.insertions_, workload.sequence_);
    field_length_ = length_generator(o.field_length_distribution, o.field_length_min, o.field_length);
    scan_length_ = length_generator(o.scan_length_distribution, o.scan_length_min, o.scan_length_max);
}

Operation WorkloadThread::next_operation() {
    const auto& shares = workload_.options().proportions;
    double sum = 0;
    for (double share : shares) sum += share;
    double drawn = unit(random_) * sum;
    size_t last = 0;
    for (size_t i = 0; i < kOperations; ++i) {
        if (shares[i] <= 0) continue;
        last = i;
        if (drawn < shares[i]) break;
        drawn -= shares[i];
    }
    return static_cast<Operation>(last);
}

uint64_t WorkloadThread::next_record() {
    bool from_newest = workload_.options().request_distribution == Distribution::kExponential;
    for (;;) {
        int64_t last = workload_.insertions().last();
        auto drawn = static_cast<int64_t>(records_->next(random_));
        if (from_newest) drawn = last - drawn;
        if (drawn >= 0 && drawn <= last) return static_cast<uint64_t>(drawn);
    }
}

std::vector<uint64_t> WorkloadThread::next_records(bool distinct) {
    std::vector<uint64_t> numbers;
    next_records(distinct, numbers);
    return numbers;
}

void WorkloadThread::next_records(bool distinct, std::vector<uint64_t>& numbers) {
    const WorkloadOptions& options = workload_.options();
    numbers.clear();
    while (numbers.size() < options.txn_length) {
        uint64_t number = next_record();
        if (!distinct || std::find(numbers.begin(), numbers.end(), number) == numbers.end())
            numbers.push_back(number);
    }
}

// ---- bytes

// Appends six printable characters for each 32 random bits, as YCSB's RandomByteIterator does.
static void append_printable(std::string& out, size_t length, Random& random) {
    size_t end = out.size() + length;
    while (out.size() < end) {
        auto bits = static_cast<uint32_t>(random.next());
        const uint32_t letters[6] = {bits & 31,       bits >> 5 & 63,  bits >> 10 & 95,
                                     bits >> 15 & 31, bits >> 20 & 63, bits >> 25 & 95};
        for (uint32_t letter : letters)
            if (out.size() < end) out += static_cast<char>(letter + ' ');
    }
}

// Java's String.hashCode for an ASCII text.
static int32_t java_hash(std::string_view text) {
    uint32_t hash = 0;
    for (char letter : text) hash = hash * 31 + static_cast<uint8_t>(letter);
    return static_cast<int32_t>(hash);
}

// The contents of a field for data integrity: "key:field", followed repeatedly by the hash of what precedes.
static std::string checked_value(const std::string& key, uint32_t field, size_t length) {
    std::string value = fmt::format("{}:field{}", key, field);
    while (value.size() < length) value += fmt::format(":{}", java_hash(value));
    value.resize(length);
    return value;
}

std::string WorkloadThread::field_value(const std::string& key, uint32_t field) {
    size_t length = field_length_->next(random_);
    if (workload_.options().data_integrity) return checked_value(key, field, length);
    std::string value;
    append_text(value, length);
    return value;
}

// Uses pieces of a random text, because drawing every letter costs more than storing it.
void WorkloadThread::append_text(std::string& out, size_t length) {
    constexpr size_t kText = 64 * 1024;
    if (text_.empty()) append_printable(text_, kText, random_);
    while (length > 0) {
        size_t piece = std::min(length, kText / 2);
        out.append(text_, random_.below(kText - piece + 1), piece);
        length -= piece;
    }
}

static void append_field(std::string& record, std::string_view field, uint32_t count) {
    auto length = static_cast<uint32_t>(field.size());
    if (count > 1)
        for (int shift : {24, 16, 8, 0}) record += static_cast<char>(length >> shift);
    record += field;
}

std::string WorkloadThread::record_value(const std::string& key) {
    std::string record;
    record_value(key, record);
    return record;
}

void WorkloadThread::record_value(std::string_view key, std::string& record) {
    const WorkloadOptions& options = workload_.options();
    record.clear();
    if (options.field_count == 1 && !options.data_integrity)
        return append_text(record, field_length_->next(random_));
    const std::string name(key);
    for (uint32_t field = 0; field < options.field_count; ++field)
        append_field(record, field_value(name, field), options.field_count);
}

Result<std::vector<std::string_view>> fields_of(std::string_view record, uint32_t count) {
    std::vector<std::string_view> fields;
    if (count == 1) return std::vector{record};
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t length = 0;
        if (record.size() < 4) return Status(Code::kInvalid, "the record ends before its fields do");
        for (int octet = 0; octet < 4; ++octet) length = length << 8 | static_cast<uint8_t>(record[octet]);
        record.remove_prefix(4);
        if (length > record.size()) return Status(Code::kInvalid, "a field is longer than its record");
        fields.push_back(record.substr(0, length));
        record.remove_prefix(length);
    }
    if (!record.empty()) return Status(Code::kInvalid, "bytes after the last field");
    return fields;
}

Result<std::string> WorkloadThread::with_one_field_changed(const std::string& key, std::string_view record) {
    uint32_t count = workload_.options().field_count;
    auto fields = fields_of(record, count);
    if (!fields) return fields.status();
    auto changed = static_cast<uint32_t>(random_.below(count));
    std::string value = field_value(key, changed);
    std::string out;
    for (uint32_t i = 0; i < count; ++i) append_field(out, i == changed ? value : (*fields)[i], count);
    return out;
}

bool WorkloadThread::is_record_of(const std::string& key, std::string_view record) {
    auto fields = fields_of(record, workload_.options().field_count);
    if (!fields) return false;
    for (uint32_t i = 0; i < fields->size(); ++i)
        if ((*fields)[i] != checked_value(key, i, (*fields)[i].size())) return false;
    return true;
}

}  // namespace wss::ycsb
