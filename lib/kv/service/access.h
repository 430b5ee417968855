// SPDX-License-Identifier: Apache-2.0
// Access: checks every message of a client against its rights (access_rules.h), sends the refusals, and
// counts them by client.
//
// A client is known by the name that its connection has proven. Without rules, every client may do
// everything, and each message costs one branch.
//
// Memory. One-sided reads reach the whole arena, whatever the rights. Only clients that may read every key
// get its address. For all others, the fabric refuses READs and WRITEs on their connections, so that a key
// that they guess or remember is useless. This includes rings.
//
// Thread-safety: none; belongs to the partition's reactor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "lib/kv/service/access_rules.h"
#include "lib/kv/service/partition.h"

namespace wss::kv {

class Access {
  public:
    // What a message of a kind needs.
    enum class Need : uint8_t {
        kNothing,    // concerns only the connection, or what the client's own earlier messages created
        kGreeting,   // any right; a partition's greeting needs that of a partition
        kKeys,       // rights to its keys, or to those of the transaction that it decides
        kReadAll,    // right to read every key
        kAll,        // right to read and write every key
        kPartition,  // the right of a partition
    };
    struct Kind {
        Need need;
        std::string_view name;
    };
    static Kind kind_of(wire::KvKind kind) noexcept;

    explicit Access(Partition& partition) : partition_(partition), rules_(partition.options().access) {}

    // Call apply() for every connection afterwards.
    void set_rules(std::shared_ptr<const AccessRules> rules) { rules_ = std::move(rules); }
    const AccessRules* rules() const { return rules_.get(); }
    // Gives a connection the rights of its client: when it arrives, and after a change of the rules.
    void apply(Peer& peer) noexcept;

    // These return true if the client has the necessary rights. Otherwise they have sent the refusal.
    //
    // admits() decides by the kind. It removes flags that request access to memory that the client lacks.
    bool admits(Peer& peer, wire::KvHeader& header) {
        return peer.rights == nullptr || check_kind(peer, header);
    }
    // `body` is that of a hello, get, prepare, put-if, scan, lock, commit or abort.
    template <typename Body>
    bool allows(Peer& peer, const wire::KvHeader& header, const Body& body) {
        return peer.rights == nullptr || check(peer, header, body);
    }

    // Refused messages by name; "": clients without a name.
    const std::map<std::string, uint64_t, std::less<>>& refused() const { return refused_; }

  private:
    static constexpr size_t kNamesMax = 4096;  // the rest counts together, as kOtherNames
    static constexpr std::string_view kOtherNames = "*";

    bool check_kind(Peer& peer, wire::KvHeader& header);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvHello& hello);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvGet& get);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvPrepare& prepare);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvPutIf& put);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvScan& scan);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvLock& lock);
    bool check(Peer& peer, const wire::KvHeader& header, const wire::KvDecision& decision);
    bool reads(Peer& peer, const wire::KvHeader& header, std::string_view key);
    bool writes(Peer& peer, const wire::KvHeader& header, std::string_view key);
    bool decides(Peer& peer, const wire::KvHeader& header, Timestamp transaction);
    bool refuse(Peer& peer, const wire::KvHeader& header, std::string_view action);
    void count(std::string_view name);

    Partition& partition_;
    std::shared_ptr<const AccessRules> rules_;  // nullptr: every client may do everything
    std::map<std::string, uint64_t, std::less<>> refused_;
};

}  // namespace wss::kv
