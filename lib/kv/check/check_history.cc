// SPDX-License-Identifier: Apache-2.0
// Decides whether a history is Read Atomic, from the history alone. history.h has the definition.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "lib/kv/check/history.h"
#include "lib/kv/check/serial_order.h"

namespace wss::kv::check {

namespace {

constexpr size_t kViolationsMax = 50;

struct KeyValue {
    uint64_t key, value;
    bool operator==(const KeyValue&) const = default;
};
struct HashKeyValue {
    size_t operator()(const KeyValue& kv) const {
        return (kv.key * 0x9e3779b97f4a7c15u) ^ (kv.value * 0xc2b2ae3d27d4eb4fu);
    }
};

constexpr size_t kInitial = 0;  // the transaction that wrote 0 to every key, before all others

struct Transaction {
    int64_t name = 0;
    uint64_t session = 0;
    std::vector<KeyValue> reads, writes;
    std::vector<size_t> before;  // transactions that must come before this one
};

class HistoryChecker {
  public:
    HistoryChecker(const History& history, bool conditions) : is_partial_(history.is_partial) {
        transactions_.emplace_back();
        collect(history.operations);
        result_.operations = history.operations.size();
        result_.transactions = transactions_.size() - 1;
        resolve_reads();
        order_sessions();
        look_for_cycle();
        if (conditions) order_conditions();
    }
    CheckResult result_;

  private:
    void violate(std::string text) {
        if (result_.violations.size() < kViolationsMax) result_.violations.push_back(std::move(text));
    }
    void collect(std::span<const Operation> operations);
    void note_write(const Operation& operation, size_t transaction);
    void resolve_reads();
    void order_sessions();
    void check_reader(size_t reader, const std::unordered_map<uint64_t, size_t>& session_writes);
    void look_for_cycle();
    void order_conditions();
    size_t writer_of(const KeyValue& read) const;
    const KeyValue* written_by(size_t transaction, uint64_t key) const;

    const bool is_partial_;
    std::vector<Transaction> transactions_;
    std::unordered_map<KeyValue, size_t, HashKeyValue> writers_;
    std::unordered_map<KeyValue, uint64_t, HashKeyValue> aborted_;  // aborted writes and their sessions
};

constexpr size_t kNobody = SIZE_MAX;

void HistoryChecker::collect(std::span<const Operation> operations) {
    std::unordered_map<int64_t, size_t> by_name;
    for (const Operation& o : operations) {
        if (o.txn < 0) {
            aborted_[{o.key, o.value}] = o.session;
            continue;
        }
        auto [place, is_new] = by_name.try_emplace(o.txn, transactions_.size());
        if (is_new) transactions_.push_back({o.txn, o.session, {}, {}, {}});
        Transaction& transaction = transactions_[place->second];
        if (transaction.session != o.session)
            violate(fmt::format("transaction {} is in two sessions", o.txn));
        (o.write ? transaction.writes : transaction.reads).push_back({o.key, o.value});
        if (o.write) note_write(o, place->second);
    }
}

void HistoryChecker::note_write(const Operation& o, size_t transaction) {
    if (o.value == 0)
        return violate(fmt::format("transaction {} writes 0, which is the initial value", o.txn));
    auto [place, is_new] = writers_.try_emplace({o.key, o.value}, transaction);
    if (!is_new && place->second != transaction)
        violate(fmt::format("transactions {} and {} both wrote value {} of key {}",
                            transactions_[place->second].name, o.txn, o.value, o.key));
}

size_t HistoryChecker::writer_of(const KeyValue& read) const {
    if (read.value == 0) return kInitial;
    auto found = writers_.find(read);
    return found == writers_.end() ? kNobody : found->second;
}

const KeyValue* HistoryChecker::written_by(size_t transaction, uint64_t key) const {
    for (const KeyValue& write : transactions_[transaction].writes)
        if (write.key == key) return &write;
    return nullptr;
}

// Reports reads of values that were never written or whose write was aborted, and transactions that read two
// values of one key. Removes reads without a known writer.
void HistoryChecker::resolve_reads() {
    for (Transaction& reader : transactions_) {
        std::map<uint64_t, uint64_t> seen;
        for (const KeyValue& read : reader.reads) {
            auto [place, is_new] = seen.try_emplace(read.key, read.value);
            if (!is_new && place->second != read.value)
                violate(fmt::format("transaction {} reads values {} and {} of key {}", reader.name,
                                    place->second, read.value, read.key));
            if (writer_of(read) != kNobody) continue;
            bool was_aborted = aborted_.contains(read);
            if (is_partial_ && !was_aborted) {
                ++result_.unexplained;
                continue;
            }
            violate(fmt::format("transaction {} reads value {} of key {}, {}", reader.name, read.value,
                                read.key, was_aborted ? "of an aborted write" : "that was never written"));
        }
        std::erase_if(reader.reads, [this](const KeyValue& read) { return writer_of(read) == kNobody; });
    }
}

// Adds the edges of one reader. If another writer of a key that the reader reads precedes the reader (in its
// session, or because the reader read from it), it must also precede the writer from which the reader read
// the key.
void HistoryChecker::check_reader(size_t reader, const std::unordered_map<uint64_t, size_t>& session_writes) {
    Transaction& transaction = transactions_[reader];
    auto add = [&](size_t earlier, size_t from, uint64_t key) {
        if (earlier == from) return;
        if (from == kInitial)
            violate(fmt::format(
                "transaction {} reads the initial value of key {}, although transaction {} wrote it before",
                transaction.name, key, transactions_[earlier].name));
        else if (earlier != reader)
            transactions_[from].before.push_back(earlier);
    };
    std::vector<size_t> sources;
    for (const KeyValue& read : transaction.reads) sources.push_back(writer_of(read));
    std::sort(sources.begin(), sources.end());
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    for (const KeyValue& read : transaction.reads) {
        size_t from = writer_of(read);
        if (from == reader) continue;
        if (auto own = session_writes.find(read.key); own != session_writes.end())
            add(own->second, from, read.key);
        for (size_t source : sources)
            if (source != kInitial && written_by(source, read.key) != nullptr) add(source, from, read.key);
        if (from != kInitial) transaction.before.push_back(from);
    }
}

void HistoryChecker::order_sessions() {
    std::unordered_map<uint64_t, size_t> last;
    std::unordered_map<uint64_t, std::unordered_map<uint64_t, size_t>> writes;
    for (size_t i = 1; i < transactions_.size(); ++i) {
        uint64_t session = transactions_[i].session;
        if (auto found = last.find(session); found != last.end())
            transactions_[i].before.push_back(found->second);
        last[session] = i;
        check_reader(i, writes[session]);
        for (const KeyValue& write : transactions_[i].writes) writes[session][write.key] = i;
    }
}

// Kahn's algorithm. The transactions that it cannot remove are in a cycle or precede one.
void HistoryChecker::look_for_cycle() {
    std::vector<uint32_t> followers(transactions_.size());
    for (const Transaction& transaction : transactions_)
        for (size_t earlier : transaction.before) ++followers[earlier];
    std::vector<size_t> free;
    for (size_t i = 1; i < transactions_.size(); ++i)
        if (followers[i] == 0) free.push_back(i);
    size_t taken = 0;
    for (; !free.empty(); ++taken) {
        size_t last = free.back();
        free.pop_back();
        for (size_t earlier : transactions_[last].before)
            if (--followers[earlier] == 0) free.push_back(earlier);
    }
    if (taken == transactions_.size() - 1) return;
    // A walk along the remaining transactions finds a cycle when it returns to one of them.
    size_t at = 1;
    while (followers[at] == 0) ++at;
    std::vector<bool> seen(transactions_.size());
    // Each remaining transaction has a remaining follower, so the walk goes from follower to follower.
    std::unordered_map<size_t, size_t> follower;
    for (size_t i = 1; i < transactions_.size(); ++i)
        if (followers[i] != 0)
            for (size_t earlier : transactions_[i].before)
                if (followers[earlier] != 0) follower[earlier] = i;
    for (; !seen[at]; at = follower.at(at)) seen[at] = true;
    std::string cycle = std::to_string(transactions_[at].name);
    for (size_t i = follower.at(at); i != at; i = follower.at(i))
        cycle += fmt::format(" < {}", transactions_[i].name);
    violate(
        fmt::format("no order of the transactions is Read Atomic: {} < {}", cycle, transactions_[at].name));
}

void HistoryChecker::order_conditions() {
    SerialOrder order;
    for (size_t i = 1; i < transactions_.size(); ++i) {
        const Transaction& transaction = transactions_[i];
        if (transaction.reads.empty() || transaction.writes.empty()) continue;
        std::vector<SerialOrder::Condition> conditions;
        for (const KeyValue& read : transaction.reads)
            conditions.push_back({read.key, read.value, writer_of(read)});
        std::vector<uint64_t> written;
        for (const KeyValue& write : transaction.writes) written.push_back(write.key);
        const std::vector<uint64_t> cycle = order.add(i, conditions, written);
        if (cycle.empty()) continue;
        std::string text;
        for (uint64_t one : cycle) text += fmt::format("{} < ", transactions_[one].name);
        violate(fmt::format("transactions with conditions have no order: {}{}", text, transaction.name));
    }
}

}  // namespace

CheckResult check_history(const History& history, bool conditions) {
    return HistoryChecker(history, conditions).result_;
}

}  // namespace wss::kv::check
