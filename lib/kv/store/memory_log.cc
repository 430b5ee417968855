// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/memory_log.h"

#include <algorithm>

namespace wss::kv::store {

void MemoryLog::append(LogBatch batch, uint64_t ticket) {
    queue_.push_back({std::move(batch), ticket});
}

void MemoryLog::apply(const LogBatch& batch) {
    for (const LogBatch::Change& change : batch.changes()) {
        switch (change.kind) {
            case LogBatch::Kind::kPutVersion:
                versions_[{change.key, change.timestamp}] = change.value;
                break;
            case LogBatch::Kind::kRemoveVersion:
                versions_.erase({change.key, change.timestamp});
                break;
            case LogBatch::Kind::kPutTransaction:
                transactions_[change.timestamp] = change.value;
                break;
            case LogBatch::Kind::kPutFloor:
                floor_ = std::max(floor_, change.timestamp);
                break;
        }
    }
}

void MemoryLog::persist(size_t batches) {
    for (; batches > 0 && !queue_.empty(); batches--) {
        if (!failed_ || written_anyway_ > 0) apply(queue_.front().batch);
        if (failed_ && written_anyway_ > 0) written_anyway_--;
        if (queue_.front().ticket != 0)
            done_.push_back({.ticket = queue_.front().ticket, .code = failed_ ? Code::kIo : Code::kOk});
        queue_.pop_front();
    }
}

void MemoryLog::crash(size_t kept) {
    persist(kept);
    queue_.clear();
    done_.clear();
    failed_ = false;
}

void MemoryLog::fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) {
    LogCompletion completion{.ticket = ticket, .code = Code::kNotFound};
    if (auto at = versions_.find({std::string(key), timestamp}); at != versions_.end()) {
        completion.code = Code::kOk;
        completion.record = at->second;
    }
    for (const Queued& queued : queue_)  // KL4
        for (const LogBatch::Change& change : queued.batch.changes()) {
            if (change.key != key || change.timestamp != timestamp) continue;
            const bool put = change.kind == LogBatch::Kind::kPutVersion;
            completion.code = put ? Code::kOk : Code::kNotFound;
            completion.record = change.value;
        }
    done_.push_back(std::move(completion));
}

Result<bool> MemoryLog::find_transaction(Timestamp timestamp, LoggedTransaction& found) {
    auto at = transactions_.find(timestamp);
    return at != transactions_.end() && parse_transaction(timestamp, at->second, found);
}

size_t MemoryLog::poll(std::vector<LogCompletion>& done) {
    if (persist_ == Persist::kAtPoll) persist(queue_.size());
    const size_t count = done_.size();
    std::move(done_.begin(), done_.end(), std::back_inserter(done));
    done_.clear();
    return count;
}

Status MemoryLog::load(LogVisitor& visitor) {
    WSS_TRY(visitor.on_floor(floor_));
    for (const auto& [timestamp, bytes] : transactions_) {
        LoggedTransaction row;
        if (!parse_transaction(timestamp, bytes, row)) return failure(Code::kIo, "a damaged transaction row");
        WSS_TRY(visitor.on_transaction(row));
    }
    for (const auto& [key, record] : versions_)
        WSS_TRY(visitor.on_version(key.first, key.second, std::as_bytes(std::span(record))));
    return Status::ok();
}

}  // namespace wss::kv::store
