// SPDX-License-Identifier: Apache-2.0
// Work between requests: the log's completions, collection by window, expiry, eviction to disk.
#include <algorithm>

#include "lib/kv/hlc.h"
#include "lib/kv/mutation.h"
#include "lib/kv/store/parts.h"

namespace wss::kv::store {
namespace {

// Above the first share of the arena, items that were not referenced recently go to disk. Below the second
// the window has its configured length again.
constexpr uint64_t kEvictAbove_percent = 85;
constexpr uint64_t kRelaxedBelow_percent = 75;
constexpr uint64_t kWarmBelow_percent = 90;  // below it fetched values return to RAM
constexpr size_t kReliefBudget = 1024;
constexpr size_t kSpillBytes = size_t{2} << 20;  // copied for the disk between two turns of maintain()
constexpr size_t kForgetFactor = 8;  // finished transactions per unit of other work, as they are cheap
constexpr size_t kTrashMax = 512;    // changes in one batch

bool is_above(const Arena& arena, uint64_t percent) {
    return arena.used() / percent > arena.bytes() / 100;
}

}  // namespace

uint64_t Store::Parts::append(LogBatch batch, Timestamp of) {
    const uint64_t ticket = next_ticket++;
    waiting.push_back({.ticket = ticket, .transaction = of});
    log->append(std::move(batch), ticket);
    return ticket;
}

size_t Store::Parts::poll() noexcept {
    if (log == nullptr) return 0;
    completions.clear();
    completions.swap(fresh_fetches);
    log->poll(completions);
    // Code below may append, which changes only `waiting`, and fetch, which changes only `fresh_fetches`.
    for (LogCompletion& completion : completions) {
        if (!waiting.empty() && waiting.front().ticket == completion.ticket)
            on_appended(completion);
        else
            on_fetched(completion);
    }
    return completions.size();
}

void Store::Parts::on_appended(const LogCompletion& completion) {
    const Waiting done = std::move(waiting.front());
    waiting.pop_front();
    if (completion.code != Code::kOk) {
        counts.log_failures++;
        log_failed = true;
    }
    if (!done.spilled.empty()) return on_spilled(done, completion.code);
    if (done.transaction.is_none()) return;
    Decision* decision = find(done.transaction);
    if (decision == nullptr || !decision->logging || decision->ticket != completion.ticket) return;
    if (decision->state == DecisionState::kPreparing) return on_prepare_appended(*decision, completion.code);
    decision->logging = false;
    decision->failed = completion.code != Code::kOk;
    answer_waiting(*decision, completion.code == Code::kOk ? Answer::kAborted : Answer::kIo);
}

// The value stays in RAM if it was read meanwhile.
void Store::Parts::on_spilled(const Waiting& done, Code code) {
    Item* item = table.find(done.spilled);
    Version* version = item != nullptr ? table.find(*item, done.version) : nullptr;
    if (version == nullptr || !version->spilling) return;
    version->spilling = false;
    version->logged = code == Code::kOk;
    if (!version->logged || item->referenced) return;
    table.cool(*version);
    table.publish(*item);
    counts.evicted++;
}

void Store::Parts::on_prepare_appended(Decision& decision, Code code) {
    std::vector<Continuation> all = std::move(decision.waiting);
    if (code == Code::kOk) {
        durable(decision);
        for (Continuation done : all) done.run(done.context, Answer::kOk);
        return;
    }
    remove_versions(decision);
    const bool early = decision.early;
    const Timestamp timestamp = decision.timestamp;
    drop(decision);
    if (early) create(timestamp, DecisionState::kCommitted).early = true;
    for (Continuation done : all) done.run(done.context, Answer::kIo);
}

void Store::Parts::on_fetched(LogCompletion& completion) {
    auto at = fetching.find(completion.ticket);
    if (at == fetching.end()) return;  // forget() has removed it
    const Fetching fetch = std::move(at->second);
    fetching.erase(at);
    counts.fetched++;
    Found found{.presence = Presence::kGone};
    Item* item = table.find(fetch.key);
    Version* version = item != nullptr ? table.find(*item, fetch.timestamp) : nullptr;
    const Bytes bytes = std::as_bytes(std::span(completion.record));
    if (version != nullptr && version->is_cold() && completion.code == Code::kOk &&
        !is_above(table.arena(), kWarmBelow_percent)) {
        if (table.warm(*version, bytes)) table.publish(*item);
    }
    if (version != nullptr) {
        item->referenced = true;
        RecordView record;
        if (!version->is_cold()) {
            found = {.presence = Presence::kExact, .version = table.view(*version)};
        } else if (completion.code == Code::kOk && parse_record(bytes, record) && record.key == fetch.key) {
            found = {.presence = Presence::kExact, .version = record};
        }
        found.committed = version->state == VersionState::kCommitted;
        found.slot = table.slot_of(*item);
    }
    if (fetch.done.run != nullptr) fetch.done.run(fetch.done.context, found);
}

size_t Store::Parts::maintain(Timestamp now, size_t budget) {
    latest_now = now;
    spilled_bytes = 0;
    table.write_late_records();
    const bool relaxed = !is_above(table.arena(), kRelaxedBelow_percent) && !is_heap_full();
    if (relaxed) window = options.window;
    size_t work = collect(budget) + collect_graves(budget) + expire(now, budget) + forget_decisions(budget) +
                  forget_finished(kForgetFactor * budget);
    if (is_above(table.arena(), kEvictAbove_percent)) work += evict(budget);
    flush_trash();
    return work + table.show_more();
}

// The committed version that replaced it.
const Version* Store::Parts::successor(const Version& version) {
    const Version* next = version.newer;
    while (next != nullptr && next->state != VersionState::kCommitted) next = next->newer;
    return next;
}

bool Store::Parts::is_pinned(const Version& version) const {
    if (pins.empty()) return false;
    const Version* next = successor(version);
    return std::any_of(pins.begin(), pins.end(), [&](Timestamp pin) {
        return version.timestamp <= pin && (next == nullptr || pin < next->timestamp);
    });
}

size_t Store::Parts::collect(size_t budget) {
    const Nanoseconds keep = mutated(Mutation::kNoWindow) ? Nanoseconds{0} : window;
    size_t done = collect(table.retired_alone, std::min(keep, options.window_alone), budget);
    table.retired_alone_count -= done;
    // They have waited long enough.
    if (pins.empty()) done += collect(table.pinned, Nanoseconds{0}, budget - done);
    return done + collect(table.retired, keep, budget - done);
}

// Collects early, because recently written cells are in the processor's cache and the next writes need cells.
// Versions with a slot stay for window_alone: each early collection would rewrite their slot. The budget is
// twice the number of written versions, because more are written per turn of maintain() than it collects.
void Store::Parts::recycle(size_t written, Nanoseconds now) {
    const Nanoseconds keep = std::min(window, options.window_alone);
    for (size_t budget = 2 * written; budget > 0 && table.retired_alone_count > options.retired_alone_max;
         budget--) {
        const Version* oldest = table.retired_alone.front();
        if (oldest == nullptr) return;
        if (oldest->item->slot != Arena::kNowhere && oldest->retired_at + keep > now) return;
        table.retired_alone_count -= collect(table.retired_alone, Nanoseconds{0}, 1);
    }
}

size_t Store::Parts::collect(List<Version, RetiredTag>& retired, Nanoseconds keep, size_t budget) {
    const Nanoseconds now = clock.now();
    size_t done = 0;
    for (; done < budget; done++) {
        Version* version = retired.front();
        if (version == nullptr || version->retired_at + keep > now) break;
        if (is_pinned(*version)) {
            static_cast<ListNode<RetiredTag>&>(*version).unlink();
            table.pinned.push_back(*version);
            continue;
        }
        Item& item = *version->item;
        item.collected = std::max(item.collected, version->timestamp);
        collected_to = std::max(collected_to, successor(*version)->timestamp);
        if (version->logged || version->spilling) trash.remove_version(item.key, version->timestamp);
        // The slot of a frequently written key does not show the versions that are collected here.
        const bool shown = version->timestamp >= item.shown_from;
        table.erase(*version);
        if (shown) table.publish(item);
        counts.collected++;
    }
    if (trash.changes().size() > kTrashMax) flush_trash();
    return done;
}

// A deleted key is forgotten when no older write can return: older prepares are refused.
size_t Store::Parts::collect_graves(size_t budget) {
    const Nanoseconds now = clock.now();
    size_t done = 0;
    for (; done < budget; done++) {
        Item* item = table.graves.front();
        if (item == nullptr || item->grave_at + window > now) break;
        static_cast<ListNode<GraveTag>&>(*item).unlink();
        Version* latest = item->latest;
        if (!latest->tombstone) continue;
        const bool alone = item->newest == latest && latest->older == nullptr;
        // The holder of a lock may write below the floor.
        const bool locked = locks != nullptr && locks->is_exclusive(item->key);
        if (!alone || locked || item->held > 0 || latest->timestamp > floor) {
            item->grave_at = now;
            table.graves.push_back(*item);
            continue;
        }
        if (latest->logged || latest->spilling) trash.remove_version(item->key, latest->timestamp);
        table.erase(*latest);
        table.erase_if_empty(*item);
        counts.collected++;
    }
    return done;
}

// A version that cannot expire yet keeps its place. The next turn continues after it, and starts over at the
// end.
size_t Store::Parts::expire(Timestamp now, size_t budget) {
    size_t done = 0;
    for (auto at = table.expiring.upper_bound(expired_to); done < budget; done++) {
        if (at == table.expiring.end() || (*at)->expires > now) {
            expired_to = {};
            break;
        }
        Version& version = **at;
        expired_to = Table::BySoonest::of(&version);
        ++at;  // expire_one() removes it
        if (expire_one(version)) counts.expired++;
    }
    return done;
}

// Writes the tombstone that the writer requested, with the requested time. Readers compare `expires`
// themselves, so a delay is harmless. Expired versions occupy the memory of a full store, which is why there
// is a reserve (S7).
bool Store::Parts::expire_one(Version& version) {
    Item& item = *version.item;
    // An undecided write that is not later than the expiry would end up behind the tombstone: acknowledged,
    // but never read.
    for (const Version* at = item.newest; at != &version; at = at->older)
        if (at->timestamp <= version.expires) return false;
    // The same applies to the coming write of a transaction that holds the key's exclusive lock: its
    // timestamp was chosen when it got the lock, and writes under locks are not rolled back.
    if (locks != nullptr && locks->is_exclusive(item.key)) return false;
    if (item.held > 0) return false;
    const RecordView record{.key = item.key, .timestamp = version.expires, .tombstone = true};
    Version* tombstone = add_version(item, record);
    if (tombstone == nullptr) return false;
    if (options.durability != Durability::kMemory) {
        LogBatch batch;
        batch.put_version(item.key, tombstone->timestamp, table.record(*tombstone));
        tombstone->logged = true;
        append(std::move(batch), kNoTimestamp);
    }
    table.commit(*tombstone, clock.now());
    table.publish(item);
    return true;
}

size_t Store::Parts::forget_decisions(size_t budget) {
    const Nanoseconds now = clock.now();
    size_t done = 0;
    for (; done < budget; done++) {
        Decision* decision = decided.front();
        if (decision == nullptr || decision->logging || decision->since + options.decision_window > now)
            break;
        if (decision->timestamp.ticks() > latest_now.ticks() && floor.ticks() <= latest_now.ticks()) {
            // Ahead of this clock: after raising the floor, this partition would refuse writes of clients
            // with correct clocks. If the clock was set back behind the floor, it already refuses them.
            decision->since = now;
            decision->unlink();
            decided.push_back(*decision);
            continue;
        }
        set_floor(std::max(floor, decision->timestamp));
        drop(*decision);
    }
    return done;
}

// Other participants inquire about prepared transactions on several partitions. Without a log only this
// memory has the decision. A put was prepared nowhere.
Finished::Kind Store::Parts::kind_of(bool put, size_t participants_bytes) const {
    const bool is_shared =
        options.durability == Durability::kMemory && !put && participants_bytes > sizeof(uint16_t);
    return is_shared ? Finished::Kind::kShared : Finished::Kind::kAlone;
}

// Returns false if the transaction stays, because it is ahead of the clock, which the floor must not pass (as
// above). Transactions so far ahead that the clock must have been set back are forgotten without raising the
// floor; otherwise they would stay until the clock reaches them.
bool Store::Parts::forget_oldest_finished(Finished::Kind kind) {
    const Finished::Entry oldest = *finished.oldest(kind);
    const Timestamp timestamp = oldest.timestamp;
    const Nanoseconds now = clock.now();
    if (timestamp.ticks() <= latest_now.ticks() || floor.ticks() > latest_now.ticks()) {
        finished.forget_oldest(kind);
        if (timestamp > floor) set_floor(timestamp);
        return true;
    }
    if (latest_now.is_none() || timestamp.ticks() <= latest_now.ticks() + kAheadMax_ticks) {
        finished.keep_oldest(now, kind);
        return false;
    }
    if (oldest.since + std::min(kFinishedAge, options.decision_window) > now) return false;
    finished.forget_oldest(kind);
    ahead_first = ahead_first.is_none() ? timestamp : std::min(ahead_first, timestamp);
    ahead_last = std::max(ahead_last, timestamp);
    return true;
}

bool Store::Parts::is_forgotten_ahead(Timestamp timestamp) const {
    return ahead_first <= timestamp && timestamp <= ahead_last;
}

bool Store::Parts::has_room_to_finish(Finished::Kind kind) {
    const bool is_shared = kind == Finished::Kind::kShared;
    if (finished.size(kind) < (is_shared ? options.finished_shared_max : options.finished_max)) return true;
    if (is_shared && finished.oldest(kind)->since + options.decision_window > clock.now()) return false;
    return forget_oldest_finished(kind);
}

// Returns how many were forgotten; visited ones that stay do not count.
size_t Store::Parts::forget_finished(Finished::Kind kind, size_t budget) {
    const Nanoseconds before = clock.now() - keep_finished(kind);
    size_t done = 0;
    for (size_t looked = 0; looked < budget; looked++) {
        const Finished::Entry* oldest = finished.oldest(kind);
        if (oldest == nullptr || oldest->since > before) break;
        done += forget_oldest_finished(kind);
    }
    return done;
}

size_t Store::Parts::forget_finished(size_t budget) {
    const size_t done = forget_finished(Finished::Kind::kAlone, budget);
    return done + forget_finished(Finished::Kind::kShared, budget - done);
}

// With Durability::kMemory a value must first be written. Until it is on disk, its copy in the log takes
// memory too.
bool Store::Parts::may_evict() const {
    if (log == nullptr || log_failed) return false;
    return options.durability != Durability::kMemory || (spilled_bytes < kSpillBytes && !log->is_congested());
}

size_t Store::Parts::evict(size_t budget) {
    const uint64_t before = table.cold_versions;
    for (size_t looked = 0; looked < budget && may_evict(); looked++) {
        Item* item = table.warm_items.front();
        if (item == nullptr) break;
        static_cast<ListNode<WarmTag>&>(*item).unlink();
        table.warm_items.push_back(*item);
        if (!item->referenced) evict_item(*item);
        item->referenced = false;
    }
    counts.evicted += table.cold_versions - before;
    return table.cold_versions - before;
}

void Store::Parts::evict_item(Item& item) {
    for (Version* version = item.newest; version != nullptr; version = version->older) {
        if (version->state != VersionState::kCommitted || version->is_cold() || version->spilling) continue;
        if (version->logged) {
            table.cool(*version);
            continue;
        }
        if (!may_evict()) break;
        spilled_bytes += version->length;
        LogBatch batch;
        batch.put_version(item.key, version->timestamp, table.record(*version));
        version->spilling = true;
        append(std::move(batch), kNoTimestamp);
        waiting.back().spilled = item.key;
        waiting.back().version = version->timestamp;
    }
    table.publish(item);
}

bool Store::Parts::relieve() {
    // Must not erase items: the caller holds one.
    window = options.window_floor;
    const bool is_for_heap = is_heap_full();
    const uint64_t used = table.arena().used();
    // If the arena is full, collection helps only if it freed arena memory.
    if (collect(kReliefBudget) + forget_finished(kForgetFactor * kReliefBudget) > 0 &&
        (is_for_heap || table.arena().used() < used))
        return !is_heap_full();
    return evict(kReliefBudget) + evict(kReliefBudget) > 0 && !is_heap_full();
}

// The time is reduced when memory runs short, before it is full. Shared transactions keep theirs: an
// inquiring partition treats a transaction as aborted if it is not remembered that long (terminations.h).
// Writes are refused instead.
Nanoseconds Store::Parts::keep_finished(Finished::Kind kind) const {
    const bool is_short = heap_used() > options.heap_limit / 4 * 3;
    return is_short && kind == Finished::Kind::kAlone ? std::min(kFinishedAge, options.decision_window)
                                                      : options.decision_window;
}

size_t Store::Parts::heap_used() const {
    return table.heap_used() + decisions.size() * sizeof(Decision) + finished.bytes();
}

bool Store::Parts::is_heap_full(bool for_tombstone) const {
    const uint64_t used = heap_used();
    // As in the arena, tombstones have a reserve, because they free a full store.
    return used > options.heap_limit &&
           (!for_tombstone || used - options.heap_limit > options.heap_limit / 16);
}

void Store::Parts::flush_trash() {
    if (floor > logged_floor && options.durability != Durability::kMemory) trash.put_floor(floor);
    logged_floor = floor;
    if (trash.empty()) return;
    LogBatch batch;
    std::swap(batch, trash);
    if (log != nullptr && !log_failed) append(std::move(batch), kNoTimestamp);
}

void Store::Parts::unpin(Timestamp timestamp) {
    auto at = std::find(pins.begin(), pins.end(), timestamp);
    if (at != pins.end()) pins.erase(at);
}

}  // namespace wss::kv::store
