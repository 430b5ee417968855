// SPDX-License-Identifier: Apache-2.0
// Peer: a connection of a partition's server. Owed: a pending reply to a peer.
//
// A reply may become due long after its connection has ended. A peer lists its pending replies and clears
// their pointers to itself when it is destroyed. So no pointer dangles, and neither side has to search.
//
// Thread-safety: none; belongs to the lane's reactor.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "lib/base/list.h"
#include "lib/kv/service/access_rules.h"
#include "lib/kv/service/disk_share.h"
#include "lib/kv/service/lease_table.h"
#include "lib/kv/transport/channel.h"

namespace wss::kv {

class Peer;

class PeerHandler {
  public:
    virtual ~PeerHandler() = default;
    virtual void message_arrived(Peer& peer, wire::Bytes message) noexcept = 0;
    virtual void peer_gone(Peer& peer) noexcept = 0;  // may destroy it
};

class Owed : public ListNode<Owed> {
  public:
    Peer* peer() const { return peer_; }  // nullptr: gone, no reply is needed
    const wire::KvHeader& header() const { return header_; }
    void owe(Peer& peer, const wire::KvHeader& request);
    void settle() {
        unlink();
        peer_ = nullptr;
    }

  protected:
    ~Owed() { unlink(); }

  private:
    friend class Peer;
    Peer* peer_ = nullptr;
    wire::KvHeader header_;
};

// Pending replies that the store or its lock table completes through a pointer. They keep their memory.
template <typename Reply>
class OwedPool {
  public:
    Reply& take() {
        if (free_.empty()) free_.push_back(std::make_unique<Reply>());
        busy_.push_back(std::move(free_.back()));
        free_.pop_back();
        busy_.back()->at = busy_.size() - 1;
        return *busy_.back();
    }
    void give(Reply& reply) {
        reply.settle();
        const size_t at = reply.at;
        std::swap(busy_[at], busy_.back());
        busy_[at]->at = at;
        free_.push_back(std::move(busy_.back()));
        busy_.pop_back();
    }
    // `forget` withdraws a reply's context from the component that holds it. This may give() other replies.
    template <typename Forget>
    void clear(Forget&& forget) {
        while (!busy_.empty()) {
            Reply& last = *busy_.back();
            forget(last);
            give(last);
        }
    }

  private:
    std::vector<std::unique_ptr<Reply>> busy_, free_;
};

// Maximum length of a message before the greeting: a peer that has proven nothing can occupy no more memory
// with an incomplete one. A hello has 48 bytes.
constexpr size_t kHelloMax = 256;

// A connection: of a client, or of another partition (client id 0).
class Peer final : public ChannelOwner {
  public:
    Peer(Lane& lane, size_t lane_index, PeerHandler& handler)
        : ChannelOwner(lane), lane_index_(lane_index), handler_(handler) {}
    ~Peer() override {
        while (Owed* owed = owed_.pop_front()) owed->peer_ = nullptr;
    }
    using ChannelOwner::accept;
    void flush_now() { lane().flush_now(); }
    size_t lane_index() const { return lane_index_; }

    size_t at = 0;  // index in its handler's list
    bool greeted = false;
    uint32_t client_id = 0;
    LeaseTable::Lease* lease = nullptr;  // nullptr: another partition
    // Set by Access::apply().
    const ClientRights* rights = nullptr;  // nullptr: it may do everything
    bool may_access_memory = true;
    const DiskShare::Owner disk = std::make_shared<DiskShare::Account>();

  private:
    friend class Owed;
    void on_up(MessageChannel&) noexcept override {}
    size_t message_max() const noexcept override { return greeted ? wire::kKvMessageMax : kHelloMax; }
    void on_message(MessageChannel&, wire::Bytes message) noexcept override {
        handler_.message_arrived(*this, message);
    }
    void on_ended(const Status&) noexcept override { handler_.peer_gone(*this); }

    const size_t lane_index_;
    PeerHandler& handler_;
    List<Owed, Owed> owed_;
};

inline void Owed::owe(Peer& peer, const wire::KvHeader& request) {
    peer_ = &peer;
    header_ = request;
    peer.owed_.push_back(*this);
}

}  // namespace wss::kv
