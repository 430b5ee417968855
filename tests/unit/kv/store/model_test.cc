// SPDX-License-Identifier: Apache-2.0
// Random sequences of prepare, put, commit, abort, inquiry, reads, time, eviction and power cuts, against a
// model that keeps everything for ever. RapidCheck shrinks and prints a failing sequence.
//
// The model lacks one fact: a request that is not yet acknowledged may or may not survive a power cut. The
// model then reads the outcome from the store, once, and all keys of the transaction must agree.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/kv/store/bench.h"

namespace wss::kv::store {
namespace {

enum class Known { kNothing, kPreparing, kPrepared, kCommitted, kAborting, kAborted, kCommitEarly };

struct Model {
    struct Transaction {
        Known state = Known::kNothing;
        bool put = false;
        bool commit_logged = true;
        std::vector<std::string> keys;
    };
    std::map<uint64_t, Transaction> transactions;

    static std::string value(uint64_t ts, const std::string& key) {
        return key + "@" + std::to_string(ts) + std::string(ts % 7 * 300, '.');
    }
    // Returns the newest committed version of a key; 0: none.
    uint64_t latest(const std::string& key) const {
        uint64_t newest = 0;
        for (const auto& [ts, transaction] : transactions) {
            const bool has =
                std::find(transaction.keys.begin(), transaction.keys.end(), key) != transaction.keys.end();
            if (has && transaction.state == Known::kCommitted) newest = ts;
        }
        return newest;
    }
    bool writes(uint64_t ts, const std::string& key) const {
        auto at = transactions.find(ts);
        return at != transactions.end() &&
               std::find(at->second.keys.begin(), at->second.keys.end(), key) != at->second.keys.end();
    }
};

class World {
  public:
    explicit World(Durability durability)
        : bench_({.durability = durability, .decision_window = from_s(100000)}, size_t{256} << 10) {}

    void step(int action, uint64_t ts, uint32_t choice) {
        switch (action) {
            case 0:
            case 1:
                return begin(ts, choice, false);
            case 2:
                return begin(ts, choice, true);
            case 3:
            case 4:
                return commit(ts);
            case 5:
                return abort(ts, false);
            case 6:
                return abort(ts, true);
            case 7:
                return persist();
            case 8:
                bench_.pass(from_ms(choice % 4000));
                return;
            case 9:
                return crash(choice);
            default:
                return;
        }
    }
    void check() {
        for (const char* key : kKeys) check_key(key);
        for (const auto& [ts, transaction] : model_.transactions)
            if (transaction.state == Known::kPrepared)
                RC_ASSERT(bench_.store->inquire({ts}, {}) == Answer::kPrepared);
    }

  private:
    static constexpr const char* kKeys[] = {"a", "b", "c", "d"};
    bool is_sync() const { return bench_.options.durability == Durability::kSync; }

    std::vector<Put> puts(uint64_t ts, const std::vector<std::string>& keys) {
        std::vector<Put> all;
        for (const std::string& key : keys) all.push_back({key, Model::value(ts, key)});
        return all;
    }

    void begin(uint64_t ts, uint32_t choice, bool at_once) {
        Model::Transaction& transaction = model_.transactions[ts];
        const Known before = transaction.state;
        if (before == Known::kNothing || before == Known::kCommitEarly) {
            transaction.keys.clear();
            for (uint32_t i = 0; i < 4; i++)
                if (choice >> i & 1 || i == choice % 4) transaction.keys.push_back(kKeys[i]);
            transaction.put = at_once;
        }
        const std::vector<Put> writes =
            transaction.keys.empty() ? puts(ts, {"a"}) : puts(ts, transaction.keys);
        const Answer answer = at_once ? bench_.put(ts, writes) : bench_.prepare(ts, writes);
        switch (before) {
            case Known::kNothing:
            case Known::kCommitEarly:
                if (answer == Answer::kNoMemory || answer == Answer::kBusy) {
                    transaction.keys.clear();
                    return;
                }
                RC_ASSERT(answer == (is_sync() ? Answer::kPending : Answer::kOk));
                transaction.put = at_once || before == Known::kCommitEarly;
                transaction.state = Known::kPreparing;
                transaction.commit_logged = at_once;
                if (!is_sync()) became_durable(transaction);
                return;
            case Known::kPreparing:
            case Known::kAborting:
                RC_ASSERT(answer == Answer::kPending);
                return;
            case Known::kPrepared:
                RC_ASSERT(answer == Answer::kOk);
                if (at_once) transaction.state = Known::kCommitted, transaction.commit_logged = false;
                return;
            case Known::kCommitted:
                RC_ASSERT(answer == Answer::kOk);
                return;
            case Known::kAborted:
                RC_ASSERT(answer == Answer::kAborted);
                return;
        }
    }
    static void became_durable(Model::Transaction& transaction) {
        transaction.state = transaction.put ? Known::kCommitted : Known::kPrepared;
    }

    void commit(uint64_t ts) {
        Model::Transaction& transaction = model_.transactions[ts];
        const Answer answer = bench_.store->commit({ts});
        switch (transaction.state) {
            case Known::kNothing:
                transaction.state = Known::kCommitEarly;
                [[fallthrough]];
            case Known::kCommitEarly:
                RC_ASSERT(answer == Answer::kUnknown);
                return;
            case Known::kPreparing:
                RC_ASSERT(answer == Answer::kBusy);
                return;
            case Known::kPrepared:
                transaction.state = Known::kCommitted, transaction.commit_logged = false;
                [[fallthrough]];
            case Known::kCommitted:
                RC_ASSERT(answer == Answer::kOk);
                return;
            case Known::kAborting:
            case Known::kAborted:
                RC_ASSERT(answer == Answer::kAborted);
                return;
        }
    }

    void abort(uint64_t ts, bool inquiry) {
        Model::Transaction& transaction = model_.transactions[ts];
        const Answer answer = inquiry ? bench_.store->inquire({ts}, {}) : bench_.store->abort({ts}, {});
        switch (transaction.state) {
            case Known::kCommitEarly:
            case Known::kCommitted:
                RC_ASSERT(answer == Answer::kCommitted);
                return;
            case Known::kPreparing:
                if (inquiry) return RC_ASSERT(answer == Answer::kBusy);
                break;
            case Known::kPrepared:
                if (inquiry) return RC_ASSERT(answer == Answer::kPrepared);
                break;
            case Known::kAborting:
                RC_ASSERT(answer == Answer::kPending);
                return;
            case Known::kAborted:
                RC_ASSERT(answer == Answer::kAborted);
                return;
            case Known::kNothing:
                break;
        }
        RC_ASSERT(answer == (is_sync() ? Answer::kPending : Answer::kAborted));
        transaction.state = is_sync() ? Known::kAborting : Known::kAborted;
    }

    void persist() {
        bench_.persist();
        for (auto& [ts, transaction] : model_.transactions) {
            // A commit that arrived before its prepare was durable is logged only now.
            if (transaction.state != Known::kPreparing) transaction.commit_logged = true;
            if (transaction.state == Known::kPreparing) became_durable(transaction);
            if (transaction.state == Known::kAborting) transaction.state = Known::kAborted;
        }
    }

    // Only a synchronous store guarantees anything after a power cut.
    void crash(uint32_t choice) {
        if (!is_sync()) return;
        const size_t queued = bench_.log.unpersisted();
        bench_.restart(choice % (queued + 1));
        RC_ASSERT(bench_.recovered.is_ok());
        for (auto& [ts, transaction] : model_.transactions) learn(ts, transaction);
        persist();
    }
    // A request that was not acknowledged has either outcome. An acknowledged one is unchanged.
    void learn(uint64_t ts, Model::Transaction& transaction) {
        switch (transaction.state) {
            case Known::kCommitEarly:
                transaction = {};
                return;  // it was in RAM only
            case Known::kPreparing:
            case Known::kCommitted:
                if (transaction.state == Known::kCommitted && transaction.commit_logged) return;
                return learn_undecided(ts, transaction);
            case Known::kAborting:
                return learn_undecided(ts, transaction);
            default:
                return;
        }
    }
    void learn_undecided(uint64_t ts, Model::Transaction& transaction) {
        const bool may_be_nothing = transaction.state != Known::kCommitted || transaction.put;
        size_t present = 0;
        bool committed = false;
        std::vector<std::string> replaced;
        for (const std::string& key : transaction.keys) {
            const Found found = bench_.store->get_exact(key, {ts});
            if (found.presence == Presence::kNewer) replaced.push_back(key);
            if (found.presence != Presence::kExact) continue;
            present++;
            committed = found.committed;
        }
        // A committed version that is not the latest of its key may have been collected.
        const size_t collectable = transaction.state == Known::kCommitted ? replaced.size() : 0;
        RC_ASSERT(present == 0 || present + collectable == transaction.keys.size());
        if (present > 0) {
            for (const std::string& key : replaced) std::erase(transaction.keys, key);
            transaction.state = committed ? Known::kCommitted : Known::kPrepared;
            transaction.commit_logged = true;
            return;
        }
        const bool aborting = transaction.state == Known::kAborting;
        const bool collected = transaction.state == Known::kCommitted;
        if (collected && !transaction.keys.empty() && !may_be_nothing) {
            // An acknowledged commit may be so old that it was collected. Each key must have a newer version.
            for (const std::string& key : transaction.keys)
                RC_ASSERT(bench_.store->get_exact(key, {ts}).presence == Presence::kNewer);
            return;
        }
        RC_ASSERT(may_be_nothing);
        if (aborting && bench_.store->commit({ts}) == Answer::kAborted) {
            transaction.state = Known::kAborted;
            return;
        }
        if (aborting) {
            transaction.state = Known::kCommitEarly;  // the call above committed an unknown transaction
            return;
        }
        transaction = {};
    }

    void check_key(const std::string& key) {
        const uint64_t latest = model_.latest(key);
        const Found found = bench_.store->get(key);
        RC_ASSERT((found.presence == Presence::kExact) == (latest != 0));
        if (latest == 0) return;
        RC_ASSERT(found.version.timestamp == Timestamp{latest});
        const RemoteRead remote = bench_.read_remotely(key, found.slot);
        const bool cold = found.cold;
        RC_ASSERT(bench_.value_of(found) == Model::value(latest, key));
        if (found.slot.bytes != 0 && !cold) RC_ASSERT(remote.latest == Model::value(latest, key));
        for (const auto& [ts, transaction] : model_.transactions)
            check_exact(key, ts, transaction, latest, remote);
    }
    void check_exact(const std::string& key, uint64_t ts, const Model::Transaction& transaction,
                     uint64_t latest, const RemoteRead& remote) {
        const Found found = bench_.store->get_exact(key, {ts});
        const bool prepared = model_.writes(ts, key) && transaction.state == Known::kPrepared;
        if (found.presence == Presence::kExact) {
            RC_ASSERT(model_.writes(ts, key));
            RC_ASSERT(prepared || transaction.state == Known::kCommitted);
            RC_ASSERT(bench_.value_of(found) == Model::value(ts, key));
        } else {
            RC_ASSERT(!prepared && ts != latest);
            RC_ASSERT((found.presence == Presence::kNewer) == (latest > ts));
        }
        // The slot was read before values were fetched, which moves them. Its contents must be the same.
        if (remote.slot == SlotStatus::kOk && prepared && !remote.view.incomplete)
            RC_ASSERT(remote.view.find({ts}) != nullptr);
        const Entry* shown = remote.view.find({ts});
        if (remote.slot == SlotStatus::kOk && shown != nullptr && shown->state == EntryState::kPrepared)
            RC_ASSERT(prepared);
    }

    Model model_;
    Bench bench_;
};

void run(Durability durability) {
    World world(durability);
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, uint64_t, uint32_t>>>(rc::gen::tuple(
        rc::gen::inRange(0, 10), rc::gen::inRange<uint64_t>(1, 25), rc::gen::inRange<uint32_t>(0, 5000)));
    for (const auto& [action, ts, choice] : steps) {
        world.step(action, ts, choice);
        world.check();
    }
}

RC_GTEST_PROP(KvModel, AgreesWithTheStoreInMemory, ()) {
    run(Durability::kMemory);
}
RC_GTEST_PROP(KvModel, AgreesWithTheStoreLoggedWithoutWaiting, ()) {
    run(Durability::kAsync);
}
RC_GTEST_PROP(KvModel, AgreesWithTheDurableStoreThroughPowerCuts, ()) {
    run(Durability::kSync);
}

// RapidCheck found this sequence: one key of the commit had a newer version before.
TEST(KvModel, accepts_a_commit_whose_older_version_was_collected_before_the_power_cut) {
    World world(Durability::kSync);
    const std::vector<std::tuple<int, uint64_t, uint32_t>> steps = {
        {2, 12, 0}, {0, 11, 3}, {7, 1, 0}, {2, 11, 0}, {8, 1, 3510}, {8, 1, 1490}, {9, 1, 1319}};
    for (const auto& [action, ts, choice] : steps) {
        world.step(action, ts, choice);
        world.check();
    }
}

}  // namespace
}  // namespace wss::kv::store
