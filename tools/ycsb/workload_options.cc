// SPDX-License-Identifier: Apache-2.0
// Converts properties to WorkloadOptions: a table of the names, then the rules that concern several of them.
#include <fmt/core.h>

#include <functional>

#include "lib/base/suggest.h"
#include "tools/ycsb/workload.h"

namespace wss::ycsb {

namespace {

// Limits of the options. Larger values are typing errors.
constexpr uint64_t kRecordsMax = uint64_t{1} << 40;
constexpr uint64_t kRecordBytesMax = 1 << 20;  // maximum size of a value of the store
constexpr uint64_t kThreadsMax = 1024, kTxnLengthMax = 128;
constexpr uint64_t kConnectionsMax = 64;

struct NumberRow {
    const char* name;
    uint64_t min, max;
    std::function<void(WorkloadOptions&, uint64_t)> store;
};

template <typename T>
std::function<void(WorkloadOptions&, uint64_t)> into(T WorkloadOptions::*member) {
    return [member](WorkloadOptions& options, uint64_t value) { options.*member = static_cast<T>(value); };
}

const NumberRow kNumbers[] = {
    {"recordcount", 1, kRecordsMax, into(&WorkloadOptions::record_count)},
    {"operationcount", 0, kRecordsMax, into(&WorkloadOptions::operation_count)},
    {"insertstart", 0, kRecordsMax, into(&WorkloadOptions::insert_start)},
    {"fieldcount", 1, 1000, into(&WorkloadOptions::field_count)},
    {"fieldlength", 1, kRecordBytesMax, into(&WorkloadOptions::field_length)},
    {"minfieldlength", 1, kRecordBytesMax, into(&WorkloadOptions::field_length_min)},
    {"zeropadding", 1, 100, into(&WorkloadOptions::zero_padding)},
    {"minscanlength", 1, 1000000, into(&WorkloadOptions::scan_length_min)},
    {"maxscanlength", 1, 1000000, into(&WorkloadOptions::scan_length_max)},
    {"txnlen", 1, kTxnLengthMax, into(&WorkloadOptions::txn_length)},
    {"threadcount", 1, kThreadsMax, into(&WorkloadOptions::threads)},
    {"connectionsperthread", 1, kConnectionsMax, into(&WorkloadOptions::connections)},
    {"target", 0, 1000000000, into(&WorkloadOptions::target)},
    {"maxexecutiontime", 0, 1000000, into(&WorkloadOptions::seconds_max)},
    {"warmup", 0, 1000000, into(&WorkloadOptions::warm_up_seconds)},
    {"status.interval", 1, 1000000, into(&WorkloadOptions::status_seconds)},
};

struct RealRow {
    const char* name;
    double max;
    std::function<double&(WorkloadOptions&)> where;
};

const RealRow kReals[] = {
    {"readproportion", 1e9, [](WorkloadOptions& o) -> double& { return o.proportions[0]; }},
    {"updateproportion", 1e9, [](WorkloadOptions& o) -> double& { return o.proportions[1]; }},
    {"insertproportion", 1e9, [](WorkloadOptions& o) -> double& { return o.proportions[2]; }},
    {"scanproportion", 1e9, [](WorkloadOptions& o) -> double& { return o.proportions[3]; }},
    {"readmodifywriteproportion", 1e9, [](WorkloadOptions& o) -> double& { return o.proportions[4]; }},
    {"hotspotdatafraction", 1, [](WorkloadOptions& o) -> double& { return o.hotspot_data; }},
    {"hotspotopnfraction", 1, [](WorkloadOptions& o) -> double& { return o.hotspot_operations; }},
    {"exponential.percentile", 99.999,
     [](WorkloadOptions& o) -> double& { return o.exponential_percentile; }},
    {"exponential.frac", 1, [](WorkloadOptions& o) -> double& { return o.exponential_fraction; }},
};

struct FlagRow {
    const char* name;
    bool WorkloadOptions::*member;
};

const FlagRow kFlags[] = {
    {"readallfields", &WorkloadOptions::read_all_fields},
    {"writeallfields", &WorkloadOptions::write_all_fields},
    {"dataintegrity", &WorkloadOptions::data_integrity},
};

const std::pair<std::string_view, Distribution> kDistributions[] = {
    {"uniform", Distribution::kUniform},         {"zipfian", Distribution::kZipfian},
    {"latest", Distribution::kLatest},           {"hotspot", Distribution::kHotspot},
    {"exponential", Distribution::kExponential}, {"sequential", Distribution::kSequential},
    {"constant", Distribution::kConstant},
};

using Choice = std::vector<Distribution>;

Status read_distribution(const Properties& properties, const char* name, const Choice& choice,
                         Distribution& out) {
    if (!properties.has(name)) return Status::ok();
    std::string word = properties.text(name, "");
    std::vector<std::string_view> known;
    for (const auto& [text, value] : kDistributions) {
        if (std::find(choice.begin(), choice.end(), value) == choice.end()) continue;
        known.push_back(text);
        if (text != word) continue;
        out = value;
        return Status::ok();
    }
    return failure(Code::kInvalid, "property {}: '{}' is not supported{}", name, word,
                   suggestion(word, known));
}

Status read_numbers(const Properties& properties, WorkloadOptions& options) {
    for (const NumberRow& row : kNumbers) {
        if (!properties.has(row.name)) continue;
        auto value = properties.number(row.name, 0);
        if (!value) return value.status();
        if (*value < row.min || *value > row.max)
            return failure(Code::kInvalid, "property {}: {} is not within {} to {}", row.name, *value,
                           row.min, row.max);
        row.store(options, *value);
    }
    for (const RealRow& row : kReals) {
        double& where = row.where(options);
        auto value = properties.real(row.name, where);
        if (!value) return value.status();
        if (*value < 0 || *value > row.max)
            return failure(Code::kInvalid, "property {}: {} is not within 0 to {}", row.name, *value,
                           row.max);
        where = *value;
    }
    for (const FlagRow& row : kFlags) {
        auto value = properties.flag(row.name, options.*row.member);
        if (!value) return value.status();
        options.*row.member = *value;
    }
    return Status::ok();
}

Status read_words(const Properties& properties, WorkloadOptions& options) {
    using enum Distribution;
    WSS_TRY(read_distribution(properties, "requestdistribution",
                              {kUniform, kZipfian, kLatest, kHotspot, kExponential, kSequential},
                              options.request_distribution));
    WSS_TRY(read_distribution(properties, "fieldlengthdistribution", {kConstant, kUniform, kZipfian},
                              options.field_length_distribution));
    WSS_TRY(read_distribution(properties, "scanlengthdistribution", {kUniform, kZipfian},
                              options.scan_length_distribution));
    std::string order = properties.text("insertorder", "hashed");
    if (order != "hashed" && order != "ordered")
        return failure(Code::kInvalid, "property insertorder: '{}' is neither 'hashed' nor 'ordered'", order);
    options.ordered = order == "ordered";
    std::string interval = properties.text("measurement.interval", "op");
    if (interval != "op" && interval != "intended" && interval != "both")
        return failure(Code::kInvalid,
                       "property measurement.interval: '{}' is none of 'op', 'intended', 'both'", interval);
    options.measure_operation = interval != "intended";
    options.measure_intended = interval != "op";
    return Status::ok();
}

Status check_together(const WorkloadOptions& options) {
    double sum = 0;
    for (double share : options.proportions) sum += share;
    if (sum <= 0)
        return Status(Code::kInvalid,
                      "all proportions are 0: give one of readproportion, updateproportion … a share");
    if (options.record_bytes() + 4 * options.field_count > kRecordBytesMax)
        return failure(Code::kInvalid, "fieldcount × fieldlength is {}; a value has at most {} bytes",
                       options.record_bytes(), kRecordBytesMax);
    if (options.field_length_min > options.field_length || options.scan_length_min > options.scan_length_max)
        return Status(Code::kInvalid, "a minimum (minfieldlength, minscanlength) is above its maximum");
    using enum Operation;
    bool others = false;
    for (Operation operation : {kInsert, kScan, kReadModifyWrite})
        others = others || options.proportions[static_cast<size_t>(operation)] > 0;
    if (options.connections > 1 && (others || options.data_integrity || options.target != 0 ||
                                    (options.field_count > 1 && !options.write_all_fields)))
        return Status(
            Code::kInvalid,
            "connectionsperthread needs reads and updates of whole records only, and no target rate");
    if (options.txn_length > options.record_count)
        return failure(Code::kInvalid, "txnlen is {}, but there are only {} records", options.txn_length,
                       options.record_count);
    return Status::ok();
}

}  // namespace

Result<WorkloadOptions> WorkloadOptions::from(const Properties& properties) {
    WorkloadOptions options;
    WSS_TRY(read_numbers(properties, options));
    WSS_TRY(read_words(properties, options));
    auto inserts = properties.number(
        "insertcount", options.record_count - std::min(options.insert_start, options.record_count));
    if (!inserts) return inserts.status();
    if (*inserts == 0 || *inserts > options.record_count ||
        options.insert_start > options.record_count - *inserts)
        return failure(Code::kInvalid,
                       "insertstart + insertcount ({} + {}) must be within 1 to recordcount ({})",
                       options.insert_start, *inserts, options.record_count);
    options.insert_count = *inserts;
    options.transactional = properties.has("txnlen");
    WSS_TRY(check_together(options));
    return options;
}

}  // namespace wss::ycsb
