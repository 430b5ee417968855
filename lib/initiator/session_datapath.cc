// SPDX-License-Identifier: Apache-2.0
// Session: requests become commands, responses become completions.
#include <algorithm>
#include <array>

#include "lib/initiator/answer.h"
#include "lib/initiator/session.h"

namespace wss::initiator {

bool Session::submit(Request& request) noexcept {
    request.outcome = Outcome::kOk;
    request.sense = {};
    request.mismatch_offset = 0;
    if (state_ == State::kClosing || state_ == State::kClosed)
        request.outcome = Outcome::kClosed;
    else
        request.outcome = request.volume->check(request);
    if (request.outcome == Outcome::kOk && state_ != State::kLive && failing_fast())
        request.outcome = Outcome::kConnectionLost;
    if (request.outcome != Outcome::kOk) return false;
    if (request.length == 0 && request.operation != Operation::kFlush) return false;
    return admit(request, queue_);
}

bool Session::submit_admin(Request& request) noexcept {
    request.outcome = Outcome::kOk;
    request.sense = {};
    request.received = 0;
    request.volume = nullptr;
    request.timeout = {};
    if (state_ != State::kDiscovering && state_ != State::kLive) request.outcome = Outcome::kConnectionLost;
    return request.outcome == Outcome::kOk && admit(request, admin_);
}

bool Session::admit(Request& request, List<Request>& list) noexcept {
    Nanoseconds timeout = request.timeout.count > 0 ? request.timeout : options_.request_timeout;
    // reactor.now() does not suffice: outside of a turn that time may be long past.
    request.deadline_ = reactor_.clock().now() + timeout;
    request.retries_ = 0;
    request.outstanding_ = 0;
    request.state_ = Request::State::kQueued;
    if (request.volume != nullptr) request.covers_ = request.volume->written_;
    begin(request, Stage::kMain);
    list.push_back(request);
    ++active_;
    wants_turn_ = true;
    if (!ticking_fast_) set_tick();
    return true;
}

// Prepares the request for the beginning of `stage`.
void Session::begin(Request& request, Stage stage) noexcept {
    bool data = stage == Stage::kMain && request.operation != Operation::kFlush;
    request.stage_ = stage;
    request.total_ = data ? request.length : 0;
    request.rewind();
}

// --- queue to wire ---

size_t Session::pump() noexcept {
    if (state_ != State::kLive && state_ != State::kDiscovering) return 0;
    size_t issued = pump_list(admin_);
    if (state_ == State::kLive && !units_unknown_) issued += pump_list(queue_);
    if (issued > 0)
        for (const auto& channel : channels_) channel->flush();
    return issued;
}

size_t Session::pump_list(List<Request>& list) noexcept {
    size_t issued = 0;
    while (Request* request = list.front()) {
        if (request->outstanding_ == 0 && request->deadline_ <= reactor_.now()) {
            // If it were sent now, the next check of deadlines would close the connection (see expire()).
            request->outcome = Outcome::kTimedOut;
            finish(*request);
            continue;
        }
        Channel* channel = pick_channel();
        if (channel == nullptr || !issue(*request, *channel)) break;
        ++issued;
        if (!request->fully_issued()) continue;
        request->unlink();
        request->state_ = Request::State::kIssued;
        issued_.push_back(*request);
    }
    return issued;
}

// Picks the channel with the fewest commands; among equals, round robin.
Channel* Session::pick_channel() noexcept {
    Channel* best = nullptr;
    for (size_t i = 0; i < channels_.size(); ++i) {
        Channel* channel = channels_[(next_channel_ + i) % channels_.size()].get();
        if (!channel->has_room()) continue;
        if (best == nullptr || channel->outstanding() < best->outstanding()) best = channel;
    }
    ++next_channel_;
    return best;
}

namespace {

// Sets direction and amount of the data that a command for `bytes` of the request moves.
void shape(const Request& request, uint64_t bytes, Payload& payload) {
    switch (request.operation) {
        case Operation::kRead:
        case Operation::kAdmin:
            payload.direction = Direction::kIn;
            payload.length = static_cast<uint32_t>(bytes);
            return;
        case Operation::kWrite:
            payload.direction = Direction::kOut;
            payload.length = static_cast<uint32_t>(bytes);
            return;
        case Operation::kCompareAndWrite:
            payload.direction = Direction::kOut;
            payload.length = static_cast<uint32_t>(2 * bytes);
            return;
        case Operation::kDiscard:
            payload.direction = Direction::kOut;
            payload.length = static_cast<uint32_t>(wire::unmap_list_bytes(1));
            return;
        case Operation::kFlush:
        case Operation::kWriteZeroes:
            payload.direction = Direction::kNone;
            payload.length = 0;
            return;
    }
}

}  // namespace

bool Session::issue(Request& request, Channel& channel) noexcept {
    bool flush = request.stage_ == Stage::kFlushAfter;
    uint64_t bytes = request.total_ - request.issued_;
    if (request.volume != nullptr) bytes = std::min(bytes, request.volume->command_max(request.operation));
    uint64_t at = request.offset + request.issued_;
    Command& command = channel.take();
    command.payload.kind = Payload::Kind::kNone;
    command.payload.where = request.cursor_;
    command.payload.length = 0;
    command.payload.direction = Direction::kNone;
    command.payload.transient = request.operation == Operation::kDiscard;
    if (!flush) shape(request, bytes, command.payload);

    // The data of a discard is a list of one range, which is copied before this function returns.
    std::array<std::byte, wire::unmap_list_bytes(1)> list;
    iovec list_buffer{list.data(), list.size()};
    if (request.operation == Operation::kDiscard) {
        uint32_t block = request.volume->info().block_size;
        wire::BlockRange range{at / block, static_cast<uint32_t>(bytes / block)};
        wire::encode_unmap_list({&range, 1}, list);
        command.payload.where = Cursor({&list_buffer, 1});
    }
    Descriptors descriptors{.device = channel.device()};
    if (!memory_->plan(command.payload, channel.immediate_room(), descriptors)) {
        channel.put_back(command);
        return false;
    }
    wire::Cdb cdb = flush                       ? wire::make_synchronize_cache16()
                    : request.volume != nullptr ? request.volume->make_cdb(request, at, bytes)
                                                : request.cdb;
    wire::CommandRequest words;
    words.lun = request.volume != nullptr ? request.volume->info().lun : request.lun;
    words.direction = command.payload.direction;
    words.cdb = cdb;
    words.descriptors = {descriptors.list.data(), descriptors.count};
    if (command.payload.kind == Payload::Kind::kImmediate) words.immediate_length = command.payload.length;
    command.request = &request;
    command.covered_length = bytes;
    if (!channel.send(command, words)) {
        memory_->release(command.payload);
        channel.put_back(command);
        lose(Status(Code::kInternal, "a command could not be encoded"));
        return false;
    }
    ++request.outstanding_;
    request.issued_ += bytes;
    request.owes_command_ = false;
    bool user_data = request.operation != Operation::kDiscard && !flush;
    if (user_data) request.cursor_.walk(command.payload.length, [](std::span<std::byte>) {});
    return true;
}

// --- answers ---

void Session::command_answered(Command& command, const wire::Response& response) noexcept {
    Request& request = *command.request;
    Disposition disposition = decide_disposition(response, request.operation);
    if (disposition.outcome == Outcome::kOk && disposition.again == Disposition::Again::kNo) {
        uint32_t got = command.payload.length;
        if (response.in.kind == wire::Residual::Kind::kUnder) got -= std::min(got, response.in.bytes);
        memory_->deliver(command.payload, got);
        if (request.operation == Operation::kAdmin) request.received = got;
    }
    memory_->release(command.payload);
    --request.outstanding_;
    take_disposition(request, disposition);
    if (disposition.units_changed) units_unknown_ = true;
    if (disposition.units_changed || (disposition.look_again && request.operation != Operation::kAdmin))
        look_again();
    command_over(request);
}

void Session::take_disposition(Request& request, const Disposition& disposition) noexcept {
    if (request.outcome != Outcome::kOk) return;  // only the first failure is reported
    bool again = disposition.again == Disposition::Again::kLater ||
                 (disposition.again == Disposition::Again::kNow && request.retries_ < kRetriesMax);
    if (again) {
        request.again_ = true;
        request.delayed_ = request.delayed_ || disposition.again == Disposition::Again::kLater;
        return;
    }
    request.outcome = disposition.outcome;
    request.sense = disposition.sense;
    if (disposition.outcome == Outcome::kMismatch && disposition.sense.has_information)
        request.mismatch_offset = disposition.sense.information;
}

// If a change has FUA but its command does not carry that bit, a flush must make it stable.
static bool owes_flush(const Request& request) {
    if (!request.fua || !request.volume->info().write_cache) return false;
    switch (request.operation) {
        case Operation::kWrite:
        case Operation::kCompareAndWrite:
            return !request.volume->info().fua;
        case Operation::kDiscard:
        case Operation::kWriteZeroes:
            return true;
        default:
            return false;
    }
}

// Called when one command of the request has ended.
void Session::command_over(Request& request) noexcept {
    bool stop = request.outcome != Outcome::kOk || request.again_;
    if (!stop && !request.fully_issued()) return;
    if (request.state_ == Request::State::kQueued) {
        // Send no more commands of the request.
        request.unlink();
        request.state_ = Request::State::kIssued;
        issued_.push_back(request);
    }
    if (request.outstanding_ > 0) return;
    if (request.outcome != Outcome::kOk) return finish(request);
    if (request.again_) return queue_again(request);
    if (request.stage_ != Stage::kMain || !owes_flush(request)) return finish(request);
    begin(request, Stage::kFlushAfter);
    request.unlink();
    request.state_ = Request::State::kQueued;
    queue_.push_front(request);
    wants_turn_ = true;
}

void Session::queue_again(Request& request) noexcept {
    bool later = request.delayed_;
    if (!later) ++request.retries_;
    begin(request, request.stage_);
    request.unlink();
    request.state_ = Request::State::kQueued;
    wants_turn_ = true;
    if (request.operation == Operation::kAdmin) return admin_.push_back(request);
    if (!later) return queue_.push_back(request);
    delayed_.push_back(request);
    if (!busy_timer_.is_set()) reactor_.set(busy_timer_, reactor_.clock().now() + kBusyDelay);
}

void Session::finish(Request& request) noexcept {
    request.unlink();
    request.state_ = Request::State::kIdle;
    --active_;
    if (request.volume != nullptr) request.volume->note_end(request);
    request.done(request, request.context);
}

// --- losses and deadlines ---

void Session::command_abandoned(Command& command) noexcept {
    memory_->release(command.payload);
    --command.request->outstanding_;
    command.request->again_ = true;
    command.request->stage_ = Stage::kMain;  // the data that the flush was for may be lost: repeat everything
}

// Fails the requests of `list` that are not on the wire. Their `done` may submit more requests, which stay.
void Session::fail_all(List<Request>& list, Outcome outcome) noexcept {
    List<Request> failed;
    list.for_each([&](Request& request) {
        if (request.outstanding_ > 0) return;
        request.unlink();
        failed.push_back(request);
    });
    while (Request* request = failed.front()) {
        if (request->outcome == Outcome::kOk) request->outcome = outcome;
        finish(*request);
    }
}

void Session::collect_expired(List<Request>& from, List<Request>& expired, bool& on_wire) noexcept {
    from.for_each([&](Request& request) {
        if (request.deadline_ > reactor_.now()) return;
        on_wire = on_wire || request.outstanding_ > 0;
        if (request.outstanding_ > 0) return;
        request.outcome = Outcome::kTimedOut;
        request.unlink();
        expired.push_back(request);
    });
}

void Session::sort_after_loss(List<Request>& from, List<Request>& keep, List<Request>& over) noexcept {
    from.for_each([&](Request& request) {
        request.unlink();
        // A request that waits for its flush has had its effect.
        bool was_on_wire = request.again_ || request.stage_ == Stage::kFlushAfter;
        if (request.outcome == Outcome::kOk && request.deadline_ <= reactor_.now())
            request.outcome = Outcome::kTimedOut;
        if (request.outcome == Outcome::kOk && was_on_wire && request.operation == Operation::kAdmin)
            request.outcome = Outcome::kConnectionLost;
        if (request.outcome == Outcome::kOk && was_on_wire &&
            request.operation == Operation::kCompareAndWrite)
            request.outcome = Outcome::kConnectionLost;
        if (request.outcome == Outcome::kOk && state_ == State::kClosing) request.outcome = Outcome::kClosed;
        if (request.outcome != Outcome::kOk) return over.push_back(request);
        // The request starts from its beginning, because data that the following flush was to make stable may
        // be lost with the target.
        begin(request, Stage::kMain);
        request.state_ = Request::State::kQueued;
        keep.push_back(request);
    });
}

}  // namespace wss::initiator
