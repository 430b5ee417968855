// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lib/kv/check/history.h"

namespace wss::kv::check {

namespace {

using Pair = std::pair<uint64_t, uint64_t>;
struct HashPair {
    size_t operator()(const Pair& pair) const {
        return (pair.first * 0x9e3779b97f4a7c15u) ^ (pair.second * 0xc2b2ae3d27d4eb4fu);
    }
};
using Pairs = std::unordered_set<Pair, HashPair>;

Pair version_of(const Operation& o) {
    return {o.key, o.value};
}
bool is_initial(const Operation& o) {
    return o.write && o.session >= kInitialSessions && o.session < kUnknownSessions;
}
bool is_undecided(const Operation& o) {
    return o.write && o.txn < 0 && o.session >= kUnknownSessions;
}

class Merger {
  public:
    explicit Merger(std::span<const History> histories) : histories_(histories) {
        find_versions();
        find_committed();
        for (size_t i = 0; i < histories.size(); ++i) add(i);
    }
    History result_;

  private:
    void find_versions();
    void find_committed();
    void add(size_t index);

    std::span<const History> histories_;
    Pairs seen_;       // versions that were read, or were there at the start of a process
    Pairs written_;    // versions with a known writer
    Pairs committed_;  // writes of unknown outcome that were seen: history, session
    std::unordered_map<Pair, uint64_t, HashPair> sessions_, transactions_;
};

void Merger::find_versions() {
    for (const History& history : histories_)
        for (const Operation& o : history.operations) {
            if (!o.write || is_initial(o))
                seen_.insert(version_of(o));
            else if (o.txn >= 0)
                written_.insert(version_of(o));
        }
}

void Merger::find_committed() {
    for (size_t i = 0; i < histories_.size(); ++i)
        for (const Operation& o : histories_[i].operations)
            if (is_undecided(o) && seen_.contains(version_of(o))) committed_.emplace(i, o.session);
    for (size_t i = 0; i < histories_.size(); ++i)
        for (const Operation& o : histories_[i].operations)
            if (is_undecided(o) && committed_.contains({i, o.session})) written_.insert(version_of(o));
}

void Merger::add(size_t index) {
    for (Operation o : histories_[index].operations) {
        if (is_initial(o) && !written_.insert(version_of(o)).second) continue;
        // A session of an undecided write has no other transaction: its number can name the transaction, too.
        const bool is_found = is_undecided(o) && committed_.contains({index, o.session});
        if (o.txn >= 0 || is_found) {
            const uint64_t name = is_found ? o.session | uint64_t{1} << 63 : static_cast<uint64_t>(o.txn);
            o.txn = static_cast<int64_t>(
                transactions_.try_emplace({index, name}, transactions_.size()).first->second);
        }
        o.session = sessions_.try_emplace({index, o.session}, sessions_.size()).first->second;
        result_.operations.push_back(o);
    }
    result_.is_partial = result_.is_partial || histories_[index].is_partial;
}

}  // namespace

History merge_histories(std::vector<History> histories) {
    if (histories.size() == 1) return std::move(histories[0]);
    return std::move(Merger(histories).result_);
}

}  // namespace wss::kv::check
