// SPDX-License-Identifier: Apache-2.0
#include "target/block/reserve.h"

#include "lib/base/log.h"
#include "target/block/service.h"

namespace wss::block {

void ReserveJob::begin(std::shared_ptr<ReserveJob> job, bool lasts) {
    volume::ReservationBook& book = job->service.reservations();
    auto changed = std::make_shared<bool>(false);
    auto decide = [job, changed](const volume::Reservations& now) {
        job->result = scsi::carry_out(job->order, registrant_of(*job->requester), now);
        *changed = job->result.next.has_value();
        return std::exchange(job->result.next, std::nullopt);
    };
    auto done = [job, changed](const Status& status, const volume::ReservationBook::Shared& now) {
        job->status = status;
        job->now = now;
        status&&* changed ? install(job) : report(job);
    };
    book.change(job->wwid, lasts, std::move(decide), std::move(done));
}

void ReserveJob::install(const std::shared_ptr<ReserveJob>& job) {
    auto fence = std::make_shared<volume::WriteFence>(std::make_shared<std::atomic<uint64_t>>(0),
                                                      [job] { report(job); });
    for (size_t i = 0; i < job->service.workers(); ++i) {
        Worker& worker = job->service.worker(i);
        worker.reactor().post([&worker, job, fence] { worker.reservations_changed(*job, fence); });
    }
}

void ReserveJob::report(const std::shared_ptr<ReserveJob>& job) {
    job->service.worker(job->requester->worker).reactor().post([job] {
        // The channel lives at least as long as its request waits for the job.
        WSS_ASSERT(job->requester->channel != nullptr, "the channel waits for its request");
        job->requester->channel->reserved(*job);
    });
}

// ---- The channel's part ----------------------------------------------------------------------------------

void Channel::reserve(Request& request) noexcept {
    Unit& unit = *request.unit;
    auto job = std::make_shared<ReserveJob>(ReserveJob{.service = worker_.service(),
                                                       .requester = record_,
                                                       .slot = request.index,
                                                       .lun = unit.lun(),
                                                       .wwid = unit.open->volume().wwid(),
                                                       .order = {}});
    wire::Sense sense;
    if (!scsi::parse_reserve_out(request.command.cdb, {request.data, request.action.data_out_length},
                                 unit.device, job->order, sense))
        return respond_sense(request, sense);
    // An initiator with read-only access must not exclude others.
    if (rights_.permission(unit) != volume::Permission::kWrite)
        return respond_sense(request, scsi::sense::write_protected());
    request.state = State::kReserving;
    ++busy_;
    ReserveJob::begin(std::move(job), unit.open->volume().memory().empty());
}

void Channel::reserved(const ReserveJob& job) noexcept {
    Request& request = requests_[job.slot];
    WSS_ASSERT(request.state == State::kReserving,
               "a reservation is reported to a request that waits for it");
    --busy_;
    // The volume was deleted meanwhile, so this change may have come after forget().
    if (request.unit->removed && !request.unit->open->reopening())
        worker_.service().reservations().forget(job.wwid);
    if (!running()) {
        release(request);
        if (dead()) lane_.channel_died();
        return;
    }
    if (request.aborted) return respond(request);
    if (!job.status) {
        log::error("reservations of volume {} were not changed: {}", request.unit->open->volume().name(),
                   job.status.to_string());
        return respond_sense(request, scsi::sense::internal_failure());
    }
    if (job.result.status != wire::kGood)
        return respond_failure(request, job.result.status, job.result.sense);
    if (job.result.aborted.empty()) return respond_good(request);
    request.state = State::kAborting;
    AbortJob::begin(worker_, record_, request,
                    {.lun = request.command.lun, .function = WSS_SRP_TSK_CLEAR_TASK_SET}, false,
                    job.result.aborted);
}

}  // namespace wss::block
