// SPDX-License-Identifier: Apache-2.0
// Snapshots: a client sends a timestamp, the same for all partitions, and a name. Each partition creates a
// directory of that name below the one that its operator configured; a client must not choose where a
// partition writes. Only one snapshot runs at a time. One that failed also counts until the disk has removed
// what it wrote.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: destroyed before the store.
#pragma once

#include <memory>

#include "lib/kv/service/partition.h"
#include "lib/kv/store/snapshot.h"

namespace wss::kv {

class Snapshots {
  public:
    explicit Snapshots(Partition& partition) : partition_(partition) {}
    void begin(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void tick();
    void stop() { snapshot_.reset(); }

  private:
    struct Waiter : Owed {};
    void end(const Status& status);
    void clean_up();

    Partition& partition_;
    std::unique_ptr<store::Snapshot> snapshot_;
    bool is_ended_ = false;  // the client has its answer, and snapshot_ is being cleaned up
    Waiter waiter_;
};

}  // namespace wss::kv
