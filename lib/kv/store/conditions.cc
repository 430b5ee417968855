// SPDX-License-Identifier: Apache-2.0
// Conditions: rule S13 of store.h.
//
// A transaction with conditions *holds* the keys of its conditions and of its writes from its prepare until
// its decision, even across restarts. A write of a key that another transaction holds is answered with kBusy.
// A transaction with conditions gets the same answer if one of its keys has another undecided write (as in
// S12). No transaction waits, so there is no deadlock. Conditions of several transactions may hold a key
// together. A held key does not expire and is not forgotten, and no owner can lock it. The transaction has a
// later timestamp than the latest versions of its conditions' keys, as S11 requires for its writes.
#include <algorithm>

#include "lib/kv/mutation.h"
#include "lib/kv/store/parts.h"

namespace wss::kv::store {

Timestamp Store::Parts::present(const Item* item, Timestamp timestamp) const {
    const Version* latest = item != nullptr ? item->latest : nullptr;
    if (latest == nullptr || latest->tombstone) return kNoTimestamp;
    const bool has_expired = !latest->expires.is_none() && latest->expires <= std::max(latest_now, timestamp);
    return has_expired ? kNoTimestamp : latest->timestamp;
}

size_t Store::Parts::failed_condition(const Transaction& transaction) const {
    const auto& all = transaction.conditions;
    const auto failed = std::find_if(all.begin(), all.end(), [&](const Condition& condition) {
        return present(table.find(condition.key), transaction.timestamp) != condition.expected;
    });
    return static_cast<size_t>(failed - all.begin());
}

Answer Store::Parts::check_conditions(const Transaction& transaction) const {
    for (const Condition& condition : transaction.conditions)
        if (const Item* item = table.find(condition.key); item != nullptr && is_undecided(*item))
            return Answer::kBusy;
    if (failed_condition(transaction) < transaction.conditions.size()) return Answer::kConflict;
    for (const Condition& condition : transaction.conditions)
        if (const Item* item = table.find(condition.key);
            item != nullptr && item->latest != nullptr && item->latest->timestamp > transaction.timestamp)
            return Answer::kTooOld;
    return Answer::kOk;
}

void Store::Parts::hold(Decision& decision, std::string_view key) {
    Item& item = table.find_or_create(key);
    item.held++;
    decision.held.push_back(&item);
}

// Returns false if there is no memory for a new key.
bool Store::Parts::hold_all(const Transaction& transaction, Decision& decision) {
    if (!transaction.conditional) return true;
    for (const Write& write : transaction.writes) hold(decision, write.key);
    if (mutated(Mutation::kConditionNotHeld)) return true;
    for (const Condition& condition : transaction.conditions) {
        if (table.find(condition.key) == nullptr && is_heap_full() && !relieve()) return false;
        hold(decision, condition.key);
    }
    return true;
}

void Store::Parts::release(Decision& decision) {
    for (Item* item : decision.held) {
        if (--item->held > 0) continue;
        if (locks != nullptr) locks->decided(item->key);
        table.erase_if_empty(*item);
    }
    decision.held.clear();
}

}  // namespace wss::kv::store
