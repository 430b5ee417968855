// SPDX-License-Identifier: Apache-2.0
// Runs a workload against a database with threads, like YCSB's client. It supports the load phase and the run
// phase, a target rate, a warm-up, and a status line.
//
// With `txnlen` (Bailis), one operation is one transaction of that many records, named READ-TXN, UPDATE-TXN
// or INSERT-TXN. A read-modify-write is measured as a whole and by its parts. Without lanes, operations are
// synchronous: each thread has one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "tools/ycsb/measurements.h"
#include "tools/ycsb/workload.h"

namespace wss::ycsb {

// Several concurrent operations of one thread, one on each lane (connectionsperthread). It uses as many
// connections as several threads would, but without their context switches.
class Lanes {
  public:
    struct Ended {
        uint32_t lane = 0;
        Status status;
    };
    virtual ~Lanes() = default;
    virtual uint32_t count() const = 0;
    // The lane must be idle. The operation may end during the call. wait() reports its end.
    virtual void begin_read(uint32_t lane, std::span<const std::string_view> keys) = 0;
    // Moves the values out of its argument.
    virtual void begin_write(uint32_t lane, std::span<const std::string_view> keys,
                             std::span<std::string> values) = 0;
    // Waits until at least one operation has ended.
    virtual void wait(std::vector<Ended>& ended) = 0;
};

// The interface to the store under test. Each object belongs to one thread.
class Database {
  public:
    virtual ~Database() = default;
    // Reads all records, or returns kNotFound. `values` gets one value for each key.
    virtual Status read(std::span<const uint64_t> records, std::span<const std::string> keys,
                        std::vector<std::string>& values) = 0;
    virtual Status write(std::span<const uint64_t> records, std::span<const std::string> keys,
                         std::span<const std::string> values) = 0;
    virtual Status scan(const std::string& first, uint64_t count, uint64_t& found) = 0;
    // nullptr: the database allows only one operation at a time.
    virtual Lanes* lanes() { return nullptr; }
};

enum class Phase : uint8_t { kLoad, kRun };

struct RunOptions {
    Phase phase = Phase::kRun;
    uint64_t seed = 1;
    // Called in the thread that will use it.
    std::function<Result<std::unique_ptr<Database>>(uint32_t thread)> open;
    // Gets one line every status.interval seconds. May be empty.
    std::function<void(const std::string& line)> status;
    // Set from outside, to end the run early.
    const std::atomic<bool>* stop = nullptr;
    // Called once, when the warm-up has ended and measuring begins.
    std::function<void()> measuring;
};

struct RunResult {
    Measurements measurements;
    Nanoseconds run_time;  // measured part
};

// Fails if a thread cannot open its database. Failed operations are counted, but do not make it fail.
Result<RunResult> run(Workload& workload, const RunOptions& options);

}  // namespace wss::ycsb
