// SPDX-License-Identifier: Apache-2.0
// The parts of a Service that its files share: who is connected, and what is waited for.
#pragma once

#include <string>

#include "lib/kv/service.h"

namespace wss::kv {

// A connection: of a client, or of another partition (client id 0).
class Service::Peer final : public ChannelOwner {
  public:
    Peer(Service& service, size_t at_lane)
        : ChannelOwner(*service.lanes_[at_lane]), lane(at_lane), service_(service) {}
    using ChannelOwner::accept;

    void on_up(Channel&) noexcept override {}
    void on_message(Channel&, wire::Bytes message) noexcept override {
        service_.message_arrived(*this, message);
    }
    void on_ended(const Status&) noexcept override { service_.peer_gone(*this); }

    const size_t lane;  // by its index
    bool greeted = false;
    uint32_t client_id = 0;
    LeaseTable::Lease* lease = nullptr;  // nullptr: another partition

  private:
    Service& service_;
};

// A write, decision or lock that the store answers later.
struct Service::Pending {
    Service* service = nullptr;
    Peer* peer = nullptr;  // nullptr: gone, nobody waits for the answer
    wire::KvHeader header;
    Timestamp timestamp;
    bool committing = false;
    uint64_t unlock = 0;  // owner whose locks end with it
    std::string key;      // whose lock is waited for
    uint32_t keys = 0;
    Nanoseconds since{};
};

// A get of which a part is on disk: everything is copied, what is missing is fetched.
struct Service::ColdGet {
    struct Item {
        ColdGet* get = nullptr;
        wire::KvGetReply::Item reply;
        std::string metadata, value;
    };
    Service* service = nullptr;
    Peer* peer = nullptr;
    wire::KvHeader header;
    std::vector<Item> items;
    size_t bytes = 0;  // with what is to be fetched
    uint32_t outstanding = 0;
    bool is_over = false;
    Nanoseconds began{};
};

// A page of a scan of which values are on disk.
struct Service::ColdRow {
    ColdScan* scan = nullptr;
    std::string key, value;
    Timestamp timestamp, expires;
    uint32_t fetches = 0;
    bool is_gone = false;  // deleted meanwhile
};
struct Service::ColdScan {
    Service* service = nullptr;
    Peer* peer = nullptr;
    wire::KvHeader header;
    std::vector<ColdRow> rows;  // does not grow once the first is fetched
    std::string cursor;
    size_t bytes = 0;  // with what is to be fetched
    uint32_t outstanding = 0;
    bool failed = false;
    bool is_over = false;
};

// A transaction whose client is late, and what the other participants say about it.
struct Service::Termination {
    struct Ask {
        Call call;
        uint32_t partition = 0;
        Termination* job = nullptr;
    };
    Service* service = nullptr;
    Timestamp timestamp;
    std::vector<std::unique_ptr<Ask>> asks;
    uint32_t outstanding = 0;
    Nanoseconds deadline{};  // when those that have not replied are given up
    bool building = false;
    bool committed = false, aborted = false, unsure = false;
    bool is_old = false;  // prepared here for longer than others remember decisions
    bool forgot = false;  // one says that this is older than what it remembers
};

}  // namespace wss::kv
