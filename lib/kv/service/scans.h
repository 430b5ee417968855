// SPDX-License-Identifier: Apache-2.0
// Scans: handles scans. A reply is a page of keys in order, with their values if requested. Values that are
// only on disk are fetched before the page is sent.
//
// Thread-safety: none; belongs to the partition's reactor. Ownership: destroyed just before the store. The
// store calls it back only from poll(), and Service destroys both without a turn of the reactor in between.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "lib/kv/service/access.h"
#include "lib/kv/service/disk_share.h"
#include "lib/kv/service/partition.h"

namespace wss::kv {

class Scans {
  public:
    Scans(Partition& partition, Access& access, DiskShare& disk);
    ~Scans();
    void scan(Peer& peer, const wire::KvHeader& header, wire::Bytes message);
    void tick();  // frees completed jobs

  private:
    struct ColdScan;
    struct ColdRow;

    void scan_cold(Peer& peer, const wire::KvHeader& header, std::span<const size_t> cold,
                   DiskShare::Hold hold);
    void fetch_row(ColdRow& row);
    static void row_arrived(void* context, const store::Found& found) noexcept;
    void send_cold(ColdScan& job);

    Partition& partition_;
    Access& access_;
    DiskShare& disk_;
    std::vector<std::unique_ptr<ColdScan>> cold_;
    wire::KvScanReply reply_;  // scratch for one message
};

}  // namespace wss::kv
