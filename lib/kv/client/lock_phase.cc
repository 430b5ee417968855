// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/client/lock_phase.h"

#include <algorithm>
#include <utility>

#include "lib/kv/client/session.h"

namespace wss::kv {

void LockPhase::acquire(uint64_t owner, bool exclusive, bool sequential,
                        void (*done)(void*, LockResult) noexcept, void* context) {
    owner_ = owner;
    latest_ = {};
    behind_.reset();
    was_full_ = false;
    exclusive_ = exclusive;
    sequential_ = sequential;
    done_ = done;
    context_ = context;
    result_ = LockResult::kGranted;
    next_ = outstanding_ = 0;
    std::sort(wanted_.begin(), wanted_.end(), [&](const Wanted& a, const Wanted& b) {
        if (sequential) return a.key < b.key;
        return a.partition != b.partition ? a.partition < b.partition : a.key < b.key;
    });
    wanted_.erase(std::unique(wanted_.begin(), wanted_.end(),
                              [](const Wanted& a, const Wanted& b) { return a.key == b.key; }),
                  wanted_.end());
    send_next();
}

void LockPhase::send_next() noexcept {
    if (sequential_) {
        send(wanted_[next_].partition, {wanted_[next_].key}, true);
        ++next_;
    }
    while (!sequential_ && next_ < wanted_.size()) {
        uint32_t partition = wanted_[next_].partition;
        std::vector<std::string_view> keys;
        for (; next_ < wanted_.size() && wanted_[next_].partition == partition; ++next_)
            keys.push_back(wanted_[next_].key);
        send(partition, std::move(keys), false);
    }
    if (outstanding_ == 0) done_(context_, result_);
}

void LockPhase::send(uint32_t partition, std::vector<std::string_view> keys, bool wait) noexcept {
    size_t index = outstanding_++;
    if (asks_.size() <= index) asks_.push_back(std::make_unique<Ask>());
    Ask& ask = *asks_[index];
    ask.partition = partition;
    ask.phase = this;
    ask.call.done = &LockPhase::on_reply;
    ask.call.context = &ask;
    wire::KvLock body{.owner = owner_, .exclusive = exclusive_, .wait = wait, .keys = std::move(keys)};
    ++session_.statistics().messages;
    if (!session_.link(partition).call(ask.call, wire::KvKind::kLock, 0, body)) {
        result_ = LockResult::kLost;
        --outstanding_;
    }
}

void LockPhase::on_reply(Call& call, const wire::KvHeader* header, wire::Bytes message) noexcept {
    Ask& ask = *static_cast<Ask*>(call.context);
    wire::KvDecision reply;
    if (header != nullptr && wire::parse(message, reply)) {
        ask.phase->session_.clock().observe({reply.timestamp});
        if (header->status == wire::KvStatus::kTooFarAhead)
            ask.phase->behind_ = {.partition = ask.partition, .clock = {reply.timestamp}};
        else
            ask.phase->latest_ = std::max(ask.phase->latest_, Timestamp{reply.timestamp});
    }
    LockResult result = LockResult::kGranted;
    if (header == nullptr)
        result = LockResult::kLost;
    else if (header->status == wire::KvStatus::kPermission)
        result = LockResult::kDenied;
    else if (header->status != wire::KvStatus::kOk)
        result = LockResult::kConflict;
    if (result == LockResult::kDenied)
        ask.phase->denial_ = ask.phase->session_.link(ask.partition).denied(message);
    if (header != nullptr && header->status == wire::KvStatus::kNoMemory) ask.phase->was_full_ = true;
    ask.phase->answered(result);
}

void LockPhase::answered(LockResult result) noexcept {
    result_ = std::max(result_, result);
    if (--outstanding_ > 0) return;
    if (result_ == LockResult::kGranted && next_ < wanted_.size()) return send_next();
    done_(context_, result_);
}

void LockPhase::release(uint64_t owner) noexcept {
    uint32_t last = UINT32_MAX;
    std::sort(wanted_.begin(), wanted_.end(),
              [](const Wanted& a, const Wanted& b) { return a.partition < b.partition; });
    for (const Wanted& wanted : wanted_) {
        if (wanted.partition == last) continue;
        last = wanted.partition;
        ++session_.statistics().messages;
        session_.link(last).send_only(wire::KvKind::kUnlock, 0, wire::KvLock{.owner = owner, .keys = {}});
    }
}

void LockPhase::forget() noexcept {
    for (auto& ask : asks_)
        if (ask->call.id != 0) session_.link(ask->partition).forget(ask->call);
    outstanding_ = 0;
}

}  // namespace wss::kv
