// SPDX-License-Identifier: Apache-2.0
// A thread with one operation in flight on each of its connections. It supports only reads and updates.
#include "tools/ycsb/run_shared.h"

namespace wss::ycsb {

namespace {

// Maximum number of cached record names. Other names are built for every operation.
constexpr uint64_t kNamesMax = 1u << 20;
// A thread adds to the shared counter only once per this many operations, to avoid contention.
constexpr uint64_t kReportEvery = 64;

class LaneWorker {
  public:
    LaneWorker(Shared& shared, uint32_t number, uint64_t operations, Lanes& lanes)
        : shared_(shared),
          options_(shared.workload.options()),
          records_(shared.workload, shared.options.seed * 1000003 + number),
          lanes_(lanes),
          operations_(operations),
          begun_(lanes.count()),
          names_(std::min(options_.record_count, kNamesMax)) {
        for (Operation operation : {Operation::kRead, Operation::kUpdate})
            words_[static_cast<size_t>(operation)] =
                std::string(to_string(operation)) + (options_.transactional ? "-TXN" : "");
    }
    void work();
    Measurements measurements;

  private:
    struct Begun {
        Operation operation = Operation::kRead;
        Nanoseconds at{0};
        bool counts = false;  // false during the warm-up
    };
    bool go_on() const {
        return !shared_.should_end() && (options_.operation_count == 0 || measured_ < operations_);
    }
    void begin(uint32_t lane);
    void note(const Lanes::Ended& ended);
    std::string_view name(uint64_t number);

    Shared& shared_;
    const WorkloadOptions& options_;
    WorkloadThread records_;
    Lanes& lanes_;
    const uint64_t operations_;
    uint64_t measured_ = 0, unreported_ = 0;
    std::vector<Begun> begun_;  // of each lane
    std::vector<std::string> names_, beyond_, values_;
    std::vector<uint64_t> numbers_;
    std::vector<std::string_view> keys_;
    std::vector<Lanes::Ended> ended_;
    std::string words_[kOperations];
};

std::string_view LaneWorker::name(uint64_t number) {
    if (number >= names_.size()) return beyond_.emplace_back(shared_.workload.key(number));
    std::string& name = names_[number];
    if (name.empty()) name = shared_.workload.key(number);
    return name;
}

void LaneWorker::begin(uint32_t lane) {
    const bool reads = records_.next_operation() == Operation::kRead;
    records_.next_records(true, numbers_);
    beyond_.clear();
    beyond_.reserve(numbers_.size());  // views into it stay valid
    keys_.clear();
    for (uint64_t number : numbers_) keys_.push_back(name(number));
    const bool counts = shared_.measuring.load(std::memory_order_relaxed);
    begun_[lane] = {reads ? Operation::kRead : Operation::kUpdate, shared_.clock.now(), counts};
    measured_ += counts ? 1 : 0;
    if (reads) return lanes_.begin_read(lane, keys_);
    values_.resize(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) records_.record_value(keys_[i], values_[i]);
    lanes_.begin_write(lane, keys_, values_);
}

void LaneWorker::note(const Lanes::Ended& ended) {
    if (++unreported_ == kReportEvery) shared_.operations.fetch_add(std::exchange(unreported_, 0));
    const Begun& begun = begun_[ended.lane];
    if (!begun.counts) return;
    measurements.count_operation(ended.status.is_ok());
    measurements.record(words_[static_cast<size_t>(begun.operation)], ended.status,
                        shared_.clock.now() - begun.at);
}

void LaneWorker::work() {
    uint32_t busy = 0;
    for (; busy < lanes_.count() && go_on(); ++busy) begin(busy);
    while (busy > 0) {
        ended_.clear();
        lanes_.wait(ended_);
        for (const Lanes::Ended& ended : ended_) {
            note(ended);
            if (go_on())
                begin(ended.lane);
            else
                --busy;
        }
    }
    shared_.operations.fetch_add(unreported_);
}

}  // namespace

Measurements run_lanes(Shared& shared, uint32_t number, uint64_t operations, Lanes& lanes) {
    LaneWorker worker(shared, number, operations, lanes);
    worker.work();
    return std::move(worker.measurements);
}

}  // namespace wss::ycsb
