// SPDX-License-Identifier: Apache-2.0
// VolumeLoad: random reads and changes of this client's part of one volume, each checked by the ledger.
//
// A volume is divided into stripes of 1 MiB. Client number N of COUNT uses the stripes with index % COUNT ==
// N. So COUNT clients can share a volume, and each of them determines the order of all changes to its part.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lib/initiator/wss.h"
#include "tests/chaos/block/load/history.h"
#include "tests/chaos/block/load/ledger.h"

namespace wss::chaos {

constexpr uint64_t kStripeSectors = 2048;
constexpr uint64_t kTransferSectors = 512;  // longest read or write

struct Counters {
    std::atomic<uint64_t> reads{0}, writes{0}, zeroes{0}, discards{0}, flushes{0}, errors{0}, timeouts{0},
        slowest_ms{0};
};

struct Client {
    wss_client* session = nullptr;
    uint32_t number = 0, count = 1;
    Counters counters;
    std::atomic<bool> paused{false};
    History* history = nullptr;
    // Called once with a description of the violation; does not return.
    void (*wrong)(const std::string& volume, const std::string& what) = nullptr;
};

class VolumeLoad {
  public:
    VolumeLoad(Client& client, std::string name, Ledger ledger, uint64_t seed);
    ~VolumeLoad();  // waits for the operations in flight

    const std::string& name() const { return name_; }
    void stop() { stopping_ = true; }
    void set_limit(uint64_t sectors);
    void set_unsure(bool unsure);
    void loosen();
    void cut(uint64_t sectors, bool certain);
    // Reads every sector of this client's part that is in use, and flushes. Retries until the deadline.
    // Returns an empty string, or the reason of the last failure. Must be called while the client is paused.
    std::string verify(std::chrono::steady_clock::time_point deadline);

  private:
    using Handle = std::shared_ptr<wss_volume>;
    enum class Kind : uint8_t { kRead, kWrite, kStableWrite, kZeroes, kDiscard, kFlush };
    static const char* name_of(Kind kind);
    struct Operation {
        Kind kind;
        Range range;
        uint64_t token = 0;  // token of the change or flush
        uint64_t epoch = 0;  // the ledger's epoch when the operation began
        uint64_t event = 0;  // number of the event in the history
    };
    void run(uint64_t seed);
    Handle handle();
    void give_back(const Handle& handle, int error);
    Operation draw(std::mt19937_64& random) const;
    bool begin(Operation& operation);
    int perform(wss_volume* volume, const Operation& operation, std::span<std::byte> buffer);
    void end(const Operation& operation, int result, std::span<const std::byte> data);
    [[noreturn]] void report(const Operation& operation, const Wrong& wrong);
    void count(Kind kind, int result);

    Client& client_;
    const std::string name_;
    std::mutex m_;
    Ledger ledger_;           // guarded by m_
    std::vector<bool> busy_;  // sectors with a change or read in flight; guarded by m_
    Handle handle_;           // guarded by open_m_
    std::mutex open_m_;
    std::atomic<uint64_t> limit_;  // the ledger's limit
    std::atomic<bool> stopping_{false};
    std::atomic<uint32_t> active_{0};
    std::vector<std::thread> threads_;
};

}  // namespace wss::chaos
