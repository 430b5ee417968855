// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/store.h"

#include <algorithm>

#include "lib/kv/store/parts.h"

namespace wss::kv::store {

std::string_view to_string(Durability durability) {
    switch (durability) {
        case Durability::kMemory:
            return "memory";
        case Durability::kAsync:
            return "async";
        case Durability::kSync:
            return "sync";
    }
    return "?";
}

Pin& Pin::operator=(Pin&& other) noexcept {
    release();
    store_ = std::exchange(other.store_, nullptr);
    timestamp_ = other.timestamp_;
    return *this;
}

void Pin::release() noexcept {
    if (store_ != nullptr) store_->parts_->unpin(timestamp_);
    store_ = nullptr;
}

Store::Parts::~Parts() {
    while (undecided.pop_front() != nullptr) {
    }
    while (decided.pop_front() != nullptr) {
    }
}

Store::Store(std::unique_ptr<Parts> parts, Clock& clock)
    : parts_(std::move(parts)), locks_(clock, parts_.get(), parts_->options.secret) {
    parts_->locks = &locks_;
}
Store::~Store() = default;

Result<std::unique_ptr<Store>> Store::create(const Options& options, const Memory& memory, Clock& clock,
                                             Log* log) {
    if (options.epoch == 0) return failure(Code::kInvalid, "the store's epoch must not be 0");
    if (memory.arena.size() < 2 * Arena::kPageBytes)
        return failure(Code::kInvalid, "{} bytes are too few for a store: at least {}", memory.arena.size(),
                       2 * Arena::kPageBytes);
    if (options.inline_cells > kInlineCellsMax || options.inline_max > kInlineBytesMax)
        return failure(Code::kInvalid,
                       "at most {} versions of at most {} bytes can be kept in a key's extent",
                       kInlineCellsMax, kInlineBytesMax);
    if (log == nullptr && options.durability != Durability::kMemory)
        return failure(Code::kInvalid, "durability '{}' needs a log", to_string(options.durability));
    if (options.window < options.window_floor || options.decision_window < options.window)
        return failure(Code::kInvalid,
                       "window_floor may not exceed window, and window may not exceed decision_window");
    auto parts = std::make_unique<Parts>(options, memory.arena, memory.index, clock, log);
    return std::unique_ptr<Store>(new Store(std::move(parts), clock));
}

Status Store::recover(const std::function<void(Timestamp)>& seen) {
    return parts_->recover(seen);
}

ArenaView Store::arena() const {
    return {.bytes = parts_->table.arena().bytes(), .epoch = parts_->options.epoch};
}

IndexFacts Store::index() const {
    const SlotIndex& index = parts_->table.index();
    return {.bytes = index.bytes(), .groups = index.groups()};
}

void Store::expect_readers() {
    parts_->table.offers_slots = true;
}

Answer Store::prepare(const Transaction& transaction, Continuation done) {
    return parts_->prepare(transaction, false, done);
}

Answer Store::put(const Transaction& transaction, Continuation done) {
    return parts_->prepare(transaction, true, done);
}

Answer Store::commit(Timestamp timestamp) {
    return parts_->commit(timestamp);
}

Answer Store::abort(Timestamp timestamp, Continuation done) {
    return parts_->abort(timestamp, done);
}

Answer Store::withdraw(Timestamp timestamp, Continuation done) {
    return parts_->withdraw(timestamp, done);
}

bool Store::knows(Timestamp timestamp) const {
    const Decision* decision = parts_->find(timestamp);
    return decision != nullptr ? !decision->early : parts_->finished.has(timestamp);
}

Answer Store::inquire(Timestamp timestamp, Continuation done) {
    return parts_->inquire(timestamp, done);
}

void Store::forget(void* context) {
    // Continuations wait only for batches of the log. There are far fewer of these than decisions.
    for (const Parts::Waiting& batch : parts_->waiting) {
        Decision* decision = batch.transaction.is_none() ? nullptr : parts_->find(batch.transaction);
        if (decision == nullptr) continue;
        std::erase_if(decision->waiting,
                      [context](const Continuation& done) { return done.context == context; });
    }
    for (auto& [ticket, fetch] : parts_->fetching)
        if (fetch.done.context == context) fetch.done = {};
    locks_.forget(context);
}

std::vector<Overdue> Store::overdue(Nanoseconds age, size_t limit) const {
    std::vector<Overdue> all;
    const Nanoseconds now = parts_->clock.now();
    const auto add = [&](Decision& decision) {
        if (decision.state != DecisionState::kPrepared || decision.since > now - age) return;
        Overdue& one = all.emplace_back();
        one.timestamp = decision.timestamp;
        one.age = now - decision.since;
        one.participants = std::as_bytes(std::span(decision.participants));
        for (Version* version = decision.versions; version != nullptr; version = version->sibling)
            one.keys.emplace_back(version->item->key);
    };
    // Ends when it has enough, or at the first transaction that is too young.
    (void)parts_->deferred.find_if([&](Decision& decision) {
        if (all.size() >= limit - limit / 2) return true;
        add(decision);
        return false;
    });
    (void)parts_->undecided.find_if([&](Decision& decision) {
        if (all.size() >= limit || decision.since > now - age) return true;
        add(decision);
        return false;
    });
    return all;
}

void Store::visit_undecided(Timestamp timestamp,
                            const std::function<void(std::string_view key, bool is_written)>& visit) const {
    const Decision* decision = parts_->find(timestamp);
    if (decision == nullptr) return;
    for (const Version* version = decision->versions; version != nullptr; version = version->sibling)
        visit(version->item->key, true);
    for (const Item* item : decision->held) visit(item->key, false);
}

void Store::defer(Timestamp timestamp) {
    Decision* decision = parts_->find(timestamp);
    if (decision == nullptr || decision->state != DecisionState::kPrepared) return;
    decision->unlink();
    parts_->deferred.push_back(*decision);
    if (!std::exchange(decision->deferred, true)) parts_->deferred_count++;
}

bool Store::defers_too_many() const {
    return parts_->deferred_count >= parts_->options.prepared_max;
}

Timestamp Store::floor() const {
    return parts_->floor;
}

Timestamp Store::newest(const Transaction& transaction) const {
    return parts_->newest_of(transaction);
}

size_t Store::failed(const Transaction& transaction) const {
    return parts_->failed_condition(transaction);
}

Timestamp Store::present(std::string_view key, Timestamp timestamp) const {
    return parts_->present(parts_->table.find(key), timestamp);
}

void Store::raise_floor(Timestamp floor) {
    if (floor > parts_->floor) parts_->set_floor(floor);
}

bool Store::settled(Timestamp at) const {
    bool settled = true;
    const auto look = [&](Decision& decision) { settled = settled && decision.timestamp > at; };
    parts_->undecided.for_each(look);
    parts_->deferred.for_each(look);
    return settled && !locks_.may_write_until(at);
}

Result<Pin> Store::pin(Timestamp at) {
    if (at < parts_->collected_to)
        return failure(
            Code::kNotFound,
            "versions of this time are no longer kept; a time {} us later would be accepted. Create "
            "another snapshot; if it fails too, compare the clocks of the machines",
            parts_->collected_to.ticks() - at.ticks());
    parts_->pins.push_back(at);
    return Pin(this, at);
}

void Store::fetch(std::string_view key, Timestamp timestamp, FetchDone done) {
    const uint64_t ticket = parts_->next_ticket++;
    parts_->fetching.emplace(ticket, Parts::Fetching{std::string(key), timestamp, done});
    const Item* item = parts_->table.find(key);
    const Version* version = item != nullptr ? parts_->table.find(*item, timestamp) : nullptr;
    if (version != nullptr && version->is_cold())
        parts_->log->fetch(key, timestamp, ticket);
    else
        parts_->fresh_fetches.push_back({.ticket = ticket});
}

size_t Store::maintain(Timestamp now, size_t budget) {
    return parts_->maintain(now, budget) + locks_.expire();
}

Statistics Store::statistics() const {
    const Parts& parts = *parts_;
    Statistics all = parts.counts;
    all.keys = parts.table.keys();
    all.versions = parts.table.versions;
    all.cold_versions = parts.table.cold_versions;
    all.prepared = parts.undecided_count;
    all.deferred = parts.deferred_count;
    all.decisions = parts.decisions.size() - parts.undecided_count + parts.finished.size();
    all.arena_bytes = parts.table.arena().bytes();
    all.arena_used = parts.table.arena().used();
    all.heap_used = parts.heap_used() + parts.decisions.bytes();
    all.window_now = parts.window;
    all.indexed = parts.table.index().entries();
    all.index_used = uint64_t{parts.table.index().groups()} * kGroupBytes;
    all.refused_locks = locks_.refused();
    if (Version* oldest = parts_->table.retired.front(); oldest != nullptr)
        all.gc_lag = std::max(Nanoseconds{}, parts_->clock.now() - oldest->retired_at - parts.window);
    return all;
}

size_t Store::poll() noexcept {
    return parts_->poll();
}

bool Store::arm() noexcept {
    if (!parts_->fresh_fetches.empty()) return false;
    return parts_->log == nullptr || parts_->log->arm();
}

int Store::fd() const noexcept {
    return parts_->log == nullptr ? -1 : parts_->log->fd();
}

}  // namespace wss::kv::store
