// SPDX-License-Identifier: Apache-2.0
// A log without a disk, for the simulation and tests. It has the semantics of the real one (log.h) and can
// lose power. It never drops the row of a decision.
//
// Appended batches wait in a queue; persist() moves them to the storage that survives. crash() keeps that
// storage, and as many queued batches as requested (KL1: never a later one without the earlier ones).
//
// Thread-safety: none; everything happens in the caller's thread.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "lib/kv/store/log.h"

namespace wss::kv::store {

class MemoryLog final : public Log {
  public:
    enum class Persist : uint8_t {
        kAtPoll,  // the next poll() persists and completes all batches
        kByHand,  // persist(n) does
    };
    explicit MemoryLog(Persist persist = Persist::kAtPoll) : persist_(persist) {}

    void persist(size_t batches);
    // Power loss: the first `kept` of the queued batches survive. Completions are lost; a failed medium works
    // again.
    void crash(size_t kept);
    // Every batch that is persisted from now on fails. The first `written` of them reach the medium
    // nevertheless.
    void fail(size_t written = 0) {
        failed_ = true;
        written_anyway_ = written;
    }
    size_t unpersisted() const { return queue_.size(); }
    size_t stored_versions() const { return versions_.size(); }

    Status load(LogVisitor& visitor) override;
    void append(LogBatch batch, uint64_t ticket) override;
    void fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) override;
    Result<bool> find_transaction(Timestamp timestamp, LoggedTransaction& found) override;
    size_t poll(std::vector<LogCompletion>& done) override;
    bool arm() noexcept override { return done_.empty() && (persist_ == Persist::kByHand || queue_.empty()); }

  private:
    using VersionKey = std::pair<std::string, Timestamp>;
    struct Queued {
        LogBatch batch;
        uint64_t ticket = 0;
    };
    void apply(const LogBatch& batch);

    const Persist persist_;
    bool failed_ = false;
    size_t written_anyway_ = 0;
    std::deque<Queued> queue_;
    std::vector<LogCompletion> done_;
    std::map<VersionKey, std::string> versions_;
    std::map<Timestamp, std::string> transactions_;
    Timestamp floor_;
};

}  // namespace wss::kv::store
