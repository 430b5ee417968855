// SPDX-License-Identifier: Apache-2.0
// A PERSISTENT RESERVE OUT on its way.
//
//   channel                    book                     every worker
//   begin() ---------------->  decide, keep
//                              done ------------------> install() what the book has now: commands that come
//                                                       are checked by that, writes that have not begun do
//                                                       not begin; those that have hold the fence
//   Channel::reserved() <------------------------------ all have installed it, no write holds the fence
//   PREEMPT AND ABORT: abort what the victims have outstanding, then answer
//
// Thread-safety: passed from thread to thread.
#pragma once

#include <atomic>
#include <memory>

#include "target/scsi/persistent_reservations.h"
#include "target/volume/reservation_book.h"

namespace wss::block {

class Service;
struct ChannelRecord;

struct ReserveJob {
    Service& service;
    std::shared_ptr<ChannelRecord> requester;
    uint16_t slot;
    uint64_t lun, wwid;
    scsi::ReserveOrder order;
    scsi::ReserveResult result = {};
    Status status = {};
    volume::ReservationBook::Shared now = {};

    // `lasts`: the volume has its identity after a restart.
    static void begin(std::shared_ptr<ReserveJob> job, bool lasts);

  private:
    static void install(const std::shared_ptr<ReserveJob>& job);
    static void report(const std::shared_ptr<ReserveJob>& job);
};

}  // namespace wss::block
