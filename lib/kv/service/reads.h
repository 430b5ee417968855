// SPDX-License-Identifier: Apache-2.0
// Reads: handles gets. If all values are in memory, the reply is sent at once. If some are on disk,
// everything is copied, the missing values are fetched, and the reply follows.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: destroyed just before the store. The
// store calls it back only from poll(), and Service destroys both without a turn of the reactor in between.
#pragma once

#include <memory>
#include <vector>

#include "lib/kv/service/access.h"
#include "lib/kv/service/disk_share.h"
#include "lib/kv/service/partition.h"

namespace wss::kv {

class Reads {
  public:
    Reads(Partition& partition, Access& access, DiskShare& disk);
    ~Reads();
    void get(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void tick();  // frees completed jobs

  private:
    struct ColdGet;
    enum class Looked : uint8_t { kWarm, kCold, kTooMany };

    store::Found find(const wire::KvGet::Item& item, size_t& looks, bool addressed);
    wire::KvStatus check(const Peer& peer, const wire::KvHeader& header);
    wire::KvStatus lock(const Peer& peer);
    Looked look_up(uint8_t flags);
    void get_cold(Peer& peer, const wire::KvHeader& header, Nanoseconds began);
    void count_fallback(uint8_t flags);
    static void cold_arrived(void* context, const store::Found& found) noexcept;
    void send_cold(ColdGet& job);

    Partition& partition_;
    Access& access_;
    DiskShare& disk_;
    std::vector<std::unique_ptr<ColdGet>> cold_;
    // Scratch for one message at a time.
    wire::KvGet get_;
    wire::KvGetReply reply_;
    std::vector<Timestamp> among_;
    std::vector<store::Found> found_;
};

}  // namespace wss::kv
