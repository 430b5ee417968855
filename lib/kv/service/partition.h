// SPDX-License-Identifier: Apache-2.0
// Partition: the state that all message handlers of a partition share: options, clock, store, and how replies
// are built.
//
// Thread-safety: none; belongs to one reactor.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "lib/kv/hlc.h"
#include "lib/kv/service/options.h"
#include "lib/kv/service/peer.h"
#include "lib/kv/service/slow_log.h"
#include "lib/kv/store/store.h"

namespace wss::kv {

class Partition {
  public:
    Partition(reactor::Reactor& reactor, WallClock& wall, ServiceOptions options);
    ~Partition();
    Partition(const Partition&) = delete;
    Partition& operator=(const Partition&) = delete;
    // Recovers the contents of the log. `seen` gets the timestamps in it that this clock has not reached.
    Status open(const store::Store::Memory& memory, store::Log* log,
                const std::function<void(Timestamp)>& seen);

    const ServiceOptions& options() const { return options_; }
    // Number of partitions of the map.
    uint32_t count() const { return static_cast<uint32_t>(options_.partitions.size()); }
    reactor::Reactor& reactor() const { return reactor_; }
    Random& random() { return random_; }
    store::Store& store() { return *store_; }
    const store::Store& store() const { return *store_; }
    ServiceCounters& counters() { return counters_; }
    const ServiceCounters& counters() const { return counters_; }
    const SlowLog& slow_log() const { return slow_log_; }
    uint64_t incarnation() const { return incarnation_; }
    Nanoseconds started() const { return started_; }
    // False until the transactions found prepared at start are decided, or a time limit has passed
    // (terminations.cc). Clients get "not ready" until then.
    bool ready() const { return ready_; }
    void set_ready(bool ready) { ready_ = ready; }

    // --- time
    Timestamp clock_stamp() const { return Timestamp::make(clock_.now_ticks(), 0); }
    // The clock, or the floor if it is later: writes must be above the floor even if the clock is behind it.
    Timestamp lease_clock() const { return std::max(clock_stamp(), store_->floor()); }
    // True if the timestamp is beyond the bound and belongs to no transaction that the store knows. The part
    // `lead` of the bound must stay free.
    bool is_too_far_ahead(Timestamp timestamp, uint64_t lead = 0);
    bool is_beyond_bound(Timestamp timestamp, uint64_t lead = 0) const;
    void note_time(wire::KvKind kind, const Peer& peer, size_t keys, Nanoseconds began);

    // --- answers
    wire::KvStatus check_key(std::string_view key) const;
    wire::KvHeader reply_to(const wire::KvHeader& request, wire::KvStatus status) const;
    void answer(Peer& peer, const wire::KvHeader& request, wire::KvStatus status,
                uint64_t timestamp = 0) const;
    void refuse(Peer& peer, const wire::KvHeader& request, wire::KvStatus status, std::string_view why);
    // The reply contains the timestamp that the client's clock must pass, or this partition's clock.
    void refuse_write(Peer& peer, const wire::KvHeader& request, wire::KvStatus status,
                      Timestamp refused) const;

  private:
    reactor::Reactor& reactor_;
    const ServiceOptions options_;
    mutable HybridClock clock_;  // reads the time of day
    Random random_;
    const uint64_t incarnation_;
    std::unique_ptr<store::Store> store_;
    bool ready_ = false;
    ServiceCounters counters_;
    SlowLog slow_log_;
    const Nanoseconds started_;
};

}  // namespace wss::kv
