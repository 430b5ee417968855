// SPDX-License-Identifier: Apache-2.0
// ReserveJob: a PERSISTENT RESERVE OUT in progress.
//
//   channel                    book                     every worker
//   begin() ---------------->  decide, store
//                              done ------------------> install() the book's state: new commands are checked
//                                                       against it; forbidden writes that have not begun do
//                                                       not begin; those that have begun hold the fence
//   Channel::reserved() <------------------------------ all have installed it, no write holds the fence
//   PREEMPT AND ABORT: abort the outstanding commands of the victims, then answer
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

    // `lasts`: the volume keeps its identity across a restart.
    static void begin(std::shared_ptr<ReserveJob> job, bool lasts);

  private:
    static void install(const std::shared_ptr<ReserveJob>& job);
    static void report(const std::shared_ptr<ReserveJob>& job);
};

}  // namespace wss::block
