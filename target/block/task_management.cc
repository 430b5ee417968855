// SPDX-License-Identifier: Apache-2.0
// Task management. Each initiator (nexus) has its own task set (mode page 0A, TST = 001b): ABORT TASK SET and
// CLEAR TASK SET end the commands of the requesting initiator, on all of its channels, and no others. LOGICAL
// UNIT RESET ends the commands of all initiators. The others receive TASK ABORTED (TAS = 1) and, if they do
// not receive notifications, a unit attention. LOGICAL UNIT RESET by an initiator with read-only access ends
// only that initiator's commands. PREEMPT AND ABORT ends the commands of the preempted initiators, which
// receive TASK ABORTED as well.
//
// A task management request is answered when no command that it concerns can still have an effect through a
// storage or RDMA operation. Commands that are already answered (kSending) are not aborted, but the request
// waits for them. Requests that concern the same command are answered together (AbortJob).
#include "target/block/channel.h"
#include "target/block/service.h"

namespace wss::block {

static uint64_t breadth(uint8_t function) {
    return function == WSS_SRP_TSK_LUN_RESET ? 2 : function == WSS_SRP_TSK_ABORT_TASK ? 0 : 1;
}

void AbortJob::begin(Worker& home, std::shared_ptr<ChannelRecord> requester, const Request& request,
                     const wire::TaskManagement& task, bool everybodys,
                     std::vector<volume::Registrant> victims) {
    Service& service = home.service();
    auto* job = new AbortJob{.left = static_cast<uint32_t>(service.workers()),
                             .home = home,
                             .requester = std::move(requester),
                             .slot = request.index,
                             .task = task,
                             .everybodys = everybodys,
                             .victims = std::move(victims),
                             .rank = breadth(task.function) << 56 | service.next_task_management(),
                             .lock = {},
                             .followers = {}};
    for (size_t i = 0; i < service.workers(); ++i) {
        Worker& worker = service.worker(i);
        worker.reactor().post([&worker, job] { worker.abort_tasks(*job); });
    }
}

void Channel::begin_answer(Request& request) noexcept {
    ++in_flight_;
    request.state = State::kAborting;
    request.is_task_management = true;
    request.report_aborted = request.aborted = request.has_sense = request.answer_waits = request.locked =
        false;
    request.unit = nullptr;
    request.status = wire::kGood;
    request.to_move = request.moved = request.in_given = request.out_taken = 0;
    request.data_is_volume = false;
    request.ready_bytes = 0;
}

void Channel::start_task_management(Request& request) noexcept {
    if (!take_credit()) return;
    wire::TaskManagement task;
    if (wire::parse_task_management({request.iu(), request.iu_length}, task) != wire::ParseError::kNone)
        return violation(WSS_SRP_LOGOUT_MALFORMED);
    counters_.task_management.add();
    begin_answer(request);
    request.command = {.tag = task.tag, .lun = task.lun};
    switch (task.function) {
        case WSS_SRP_TSK_ABORT_TASK:
        case WSS_SRP_TSK_ABORT_TASK_SET:
        case WSS_SRP_TSK_CLEAR_TASK_SET:
        case WSS_SRP_TSK_LUN_RESET:
            break;
        default:
            request.task_status = WSS_SRP_TSK_MGMT_NOT_SUPPORTED;
            return respond(request);
    }
    Unit* unit = find_unit(task.lun);
    if (unit == nullptr) {
        request.task_status = WSS_SRP_TSK_MGMT_FAILED;
        return respond(request);
    }
    const bool everybodys =
        task.function == WSS_SRP_TSK_LUN_RESET && rights_.permission(*unit) == volume::Permission::kWrite;
    AbortJob::begin(worker_, record_, request, task, everybodys);
}

static bool means(const wire::TaskManagement& task, const Request& request) {
    if (request.state == State::kReceiving || request.is_task_management) return false;
    if (request.command.lun != task.lun) return false;
    return task.function != WSS_SRP_TSK_ABORT_TASK || request.command.tag == task.task_tag;
}

void Channel::abort_tasks(AbortJob& job) noexcept {
    for (uint32_t i = 0; i < slots_; ++i)
        if (means(job.task, requests_[i])) abort(requests_[i], job);
    const bool others = record_->session_id != job.requester->session_id;
    if (others && job.victims.empty() && !terms_.notify() && running() && auth_ == nullptr &&
        find_unit(job.task.lun) != nullptr)
        attentions_.add(job.task.lun, scsi::Attention::kReset);
    // On the requester's own channel the answer is ordered after everything posted before.
    if (job.requester != record_ && life_ != Life::kClosed && sends_outstanding_ > 0) fence_for(job);
}

// WRITEs of commands that were answered without a completion may still be in flight.
void Channel::fence_for(AbortJob& job) noexcept {
    // A fence WRITE that is already built does not cover work requests after it.
    const bool is_built = fence_job_ != nullptr && !fence_wanted_;
    AbortJob*& place = is_built ? next_fence_job_ : fence_job_;
    place = AbortJob::join(place, job);
    if (is_built) return;
    fence_wanted_ = true;
    mark_dirty();
}

void Channel::fence_passed() noexcept {
    AbortJob* passed = std::exchange(fence_job_, std::exchange(next_fence_job_, nullptr));
    fence_wanted_ = fence_job_ != nullptr;
    if (fence_wanted_) mark_dirty();
    if (passed != nullptr) passed->drop();
}

void Channel::abort(Request& victim, AbortJob& job) noexcept {
    // An initiator that aborts its own command expects no answer, even if others abort the command as well.
    const bool others = record_->session_id != job.requester->session_id;
    victim.report_aborted = others && (victim.abort_job == nullptr || victim.report_aborted);
    victim.abort_job = AbortJob::join(victim.abort_job, job);
    if (victim.aborted) return;
    if (victim.state == State::kSending) return;
    victim.aborted = true;
    if (victim.cache_command != nullptr) worker_.gateway()->flush_completions();
    // A command that waits for a buffer, a limit, a range or engines has not begun and ends here. Other
    // commands end at their next step.
    const bool has_posted = victim.state == State::kFetchingData || victim.state == State::kFetchingTable;
    const bool waits = victim.state == State::kWaiting || victim.state == State::kThrottled ||
                       victim.state == State::kHeld || victim.state == State::kAwaiting;
    if (waits || (has_posted && victim.moved == 0)) {
        stop_waiting(victim, true);
        respond(victim);
    }
}

void Channel::tasks_aborted(uint16_t slot) noexcept {
    Request& request = requests_[slot];
    if (!running() || request.state != State::kAborting) return;
    if (!request.is_task_management) return respond_good(request);  // PREEMPT AND ABORT
    request.task_status = WSS_SRP_TSK_MGMT_SUCCESS;
    respond(request);
}

}  // namespace wss::block
