// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/service/access.h"

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "lib/fabric/sources.h"

namespace wss::kv {

namespace {

constexpr size_t kShownMax = 64;

// A key as readable text. The client that sent it may print it, so unprintable bytes are escaped.
std::string shown(std::string_view key) {
    std::string out;
    for (char letter : key.substr(0, kShownMax))
        if (letter >= ' ' && letter <= '~' && letter != '\\')
            out += letter;
        else
            out += fmt::format("\\x{:02x}", static_cast<uint8_t>(letter));
    return out + (key.size() > kShownMax ? "…" : "");
}

}  // namespace

// There is no default: a new kind of message does not compile without a decision.
Access::Kind Access::kind_of(wire::KvKind kind) noexcept {
    using K = wire::KvKind;
    switch (kind) {
        case K::kHello:
            return {Need::kGreeting, "hello"};
        case K::kGet:
            return {Need::kKeys, "get"};
        case K::kPrepare:
            return {Need::kKeys, "prepare"};
        case K::kCommit:
            return {Need::kKeys, "commit"};
        case K::kAbort:
            return {Need::kKeys, "abort"};
        case K::kInquire:
            return {Need::kPartition, "inquire"};
        case K::kPutIf:
            return {Need::kKeys, "put-if"};
        case K::kScan:
            return {Need::kKeys, "scan"};
        case K::kLock:
            return {Need::kKeys, "lock"};
        case K::kUnlock:
            return {Need::kNothing, "unlock"};
        case K::kInfo:
            return {Need::kReadAll, "info"};
        case K::kSnapshot:
            return {Need::kAll, "snapshot"};
        case K::kPing:
            return {Need::kNothing, "ping"};
        case K::kGoodbye:
            return {Need::kNothing, "goodbye"};
    }
    return {Need::kAll, "unknown"};
}

void Access::apply(Peer& peer) noexcept {
    peer.rights = rules_ == nullptr ? nullptr : &rules_->of(peer.channel()->connection()->peer_name());
    peer.may_access_memory = peer.rights == nullptr || peer.rights->reads_all();
    if (!peer.channel()->connection()->let_peer_access_memory(peer.may_access_memory) &&
        !peer.may_access_memory)
        peer.channel()->close("this fabric cannot restrict a client to some of the keys: use tls://");
}

bool Access::check_kind(Peer& peer, wire::KvHeader& header) {
    const ClientRights& rights = *peer.rights;
    if (!peer.may_access_memory && header.kind == wire::KvKind::kHello)
        header.flags &= static_cast<uint8_t>(~wire::kKvHelloIndex);
    if (!peer.may_access_memory && header.kind == wire::KvKind::kGet)
        header.flags &= static_cast<uint8_t>(~wire::kKvGetAddresses);
    switch (kind_of(header.kind).need) {
        case Need::kNothing:
        case Need::kGreeting:  // the greeting and the keys are checked when the message has been parsed
        case Need::kKeys:
            return true;
        case Need::kReadAll:
            return rights.reads_all() || refuse(peer, header, "read every key");
        case Need::kAll:
            return (rights.reads_all() && rights.writes_all()) ||
                   refuse(peer, header, "read and write every key");
        case Need::kPartition:
            return rights.is_partition() || refuse(peer, header, "inquire about transactions (partition)");
    }
    return refuse(peer, header, "do this");
}

bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvHello& hello) {
    if (hello.nonce == 0)
        return peer.rights->is_partition() || refuse(peer, header, "connect as a partition (partition)");
    return peer.rights->is_client() || refuse(peer, header, "read or write any key");
}

bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvGet& get) {
    for (const wire::KvGet::Item& item : get.items)
        if (!reads(peer, header, item.key)) return false;
    return true;
}

bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvPrepare& prepare) {
    for (const wire::KvPrepare::Item& item : prepare.items)
        if (!writes(peer, header, item.key)) return false;
    // The answer reveals the version of the key, and an undecided transaction excludes writes of it.
    for (const wire::KvPrepare::Condition& condition : prepare.conditions)
        if (!reads(peer, header, condition.key)) return false;
    return decides(peer, header, {prepare.timestamp});
}

bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvPutIf& put) {
    return writes(peer, header, put.item.key) && reads(peer, header, put.item.key) &&
           decides(peer, header, {put.timestamp});
}

// A scan is refused rather than cut to the readable keys: the cursors of its pages would reveal other keys.
bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvScan& scan) {
    return peer.rights->may_scan(scan.prefix) ||
           refuse(peer, header, fmt::format("read all keys with the prefix '{}'", shown(scan.prefix)));
}

bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvLock& lock) {
    for (std::string_view key : lock.keys)
        if (lock.exclusive ? !writes(peer, header, key) : !reads(peer, header, key)) return false;
    return true;
}

// A client that may write no key can leave only a transaction without writes undecided, which is known here.
// The decision about an unknown transaction would be remembered.
bool Access::check(Peer& peer, const wire::KvHeader& header, const wire::KvDecision& decision) {
    const Timestamp transaction{decision.timestamp};
    const store::Store& store = partition_.store();
    const bool leaves_trace =
        transaction.client() == peer.client_id && transaction > store.floor() && !store.knows(transaction);
    if (leaves_trace && !peer.rights->writes_any())
        return refuse(peer, header, "decide a transaction that is not known here: it may write no key");
    return decides(peer, header, transaction);
}

bool Access::reads(Peer& peer, const wire::KvHeader& header, std::string_view key) {
    return peer.rights->may_read(key) || refuse(peer, header, fmt::format("read '{}'", shown(key)));
}

bool Access::writes(Peer& peer, const wire::KvHeader& header, std::string_view key) {
    return peer.rights->may_write(key) || refuse(peer, header, fmt::format("write '{}'", shown(key)));
}

// A client decides transactions with its own id, and a repeated prepare can decide as well. But ids pass from
// client to client, so the keys of the transaction count, not only those that the message lists. The refusal
// does not name them: the client may not know them.
bool Access::decides(Peer& peer, const wire::KvHeader& header, Timestamp transaction) {
    if (transaction.client() != peer.client_id) return true;  // the handler refuses it, whatever its keys are
    bool may = true;
    partition_.store().visit_undecided(transaction, [&](std::string_view key, bool is_written) {
        may = may && (is_written ? peer.rights->may_write(key)
                                 : peer.rights->may_read(key) || peer.rights->may_write(key));
    });
    return may || refuse(peer, header, "decide this transaction, because of its keys");
}

bool Access::refuse(Peer& peer, const wire::KvHeader& header, std::string_view action) {
    const std::string_view name = peer.channel()->connection()->peer_name();
    count(name);
    const std::string from = peer.channel()->connection()->peer();
    static log::SourceLimiter limiter(10);
    // The line does not contain the key, which may be a secret.
    if (limiter.allow(fabric::source_of(from)))
        log::warning("audit: key-value partition {}: refused: client='{}' peer={} message={}: no right",
                     partition_.options().partition, name, from, kind_of(header.kind).name);
    const std::string who =
        name.empty() ? "a client without a pre-shared key" : fmt::format("client '{}'", name);
    partition_.refuse(peer, header, wire::KvStatus::kPermission,
                      fmt::format("{} has no right to {} (--kv-access)", who, action));
    return false;
}

void Access::count(std::string_view name) {
    ++partition_.counters().refused_permission;
    auto found = refused_.find(name);
    if (found == refused_.end())
        found = refused_.emplace(refused_.size() < kNamesMax ? name : kOtherNames, 0).first;
    ++found->second;
}

}  // namespace wss::kv
