// SPDX-License-Identifier: Apache-2.0
// The work requests that move a request's data and send its answer.
//
// A request whose data is one descriptor costs one RDMA operation. A read's WRITE carries the completion as
// its immediate value if that was negotiated (fused completion). Otherwise the response follows in the same
// post(). A write's READ precedes its storage operation.
//
// Writes that complete in the same turn share one message if that was negotiated (batched completion). The
// first write gets a fused completion, which becomes the message when there is a second write. The message is
// inlined, so that the slot that contains it can be reused immediately.
//
// These work requests are signalled: every READ, because its data is needed; the last one of an answer whose
// data is in a buffer that will be reused (F2); messages that are not inlined; the last one of a request that
// an abort job waits for; messages of a draining channel; and of all others, one in kSignalEvery. A read from
// a RAM volume sends from memory that is never reused, so it needs no completion.
#include "target/block/channel.h"

#include <algorithm>

#include "target/block/service.h"

namespace wss::block {

// ---- Fetching --------------------------------------------------------------------------------------------

void Channel::begin_fetch(Request& request, std::byte* to, uint32_t lkey, uint32_t length) noexcept {
    request.state = State::kFetchingData;
    request.remote = &request.command.out;
    request.local = to;
    request.local_lkey = lkey;
    request.to_move = length;
    request.moved = request.descriptor = request.descriptor_offset = request.outstanding = 0;
    counters_.data_requests.add();
    fetches_.push_back(request);
    mark_dirty();
}

void Channel::begin_table_fetch(Request& request) noexcept {
    request.state = State::kFetchingTable;
    request.local = request.admin;
    request.local_lkey = lane_.arena().pool(Part::kAdmin).lkey();
    request.to_move = request.admin_bytes;
    request.moved = request.outstanding = 0;
    fetches_.push_back(request);
    mark_dirty();
}

void Channel::fetched(Request& request) noexcept {
    if (request.aborted) return respond(request);
    if (request.state == State::kFetchingTable) {
        wire::DataBuffer& side = request.command.out.partial ? request.command.out : request.command.in;
        if (wire::parse_descriptor_table({request.admin, request.admin_bytes}, side) !=
            wire::ParseError::kNone)
            return respond_sense(request, scsi::sense::wrong_data_buffer());
        return with_table(request);
    }
    request.out_taken = request.to_move;
    counters_.written_bytes.add(request.to_move);
    if (request.cache_command != nullptr) return cached_data_here(request);
    if (request.data_is_volume) return respond_good(request);
    data_ready(request);
}

bool Channel::build_reads(Request& request) noexcept {
    while (request.moved < request.to_move) {
        if (!has_room() || reads_outstanding_ >= read_depth_) return false;
        uint32_t length = 0;
        fabric::RemoteAddress remote = next_segment(request, length);
        fabric::WorkRequest& work =
            add(fabric::Op::kRead, request.local + request.moved, length, request.local_lkey);
        work.remote = remote;
        signal(work, reinterpret_cast<uint64_t>(&request));
        ++request.outstanding;
        ++reads_outstanding_;
        (request.state == State::kFetchingTable ? counters_.table_reads : counters_.rdma_reads).add();
        advance(request, length);
    }
    static_cast<ListNode<>&>(request).unlink();
    return true;
}

// The next segment of the initiator's memory: within one descriptor, and at most the fabric's transfer_max.
fabric::RemoteAddress Channel::next_segment(Request& request, uint32_t& length) const noexcept {
    wire::RemoteBuffer descriptor =
        request.state == State::kFetchingTable
            ? (request.command.out.partial ? request.command.out : request.command.in).table
            : request.remote->descriptor(request.descriptor);
    uint32_t offset = request.state == State::kFetchingTable ? request.moved : request.descriptor_offset;
    length = std::min(descriptor.length - offset, request.to_move - request.moved);
    if (uint32_t most = lane_.fabric().caps().transfer_max; most > 0) length = std::min(length, most);
    return {descriptor.address + offset, descriptor.rkey};
}

void Channel::advance(Request& request, uint32_t length) noexcept {
    request.moved += length;
    if (request.state == State::kFetchingTable) return;
    request.descriptor_offset += length;
    if (request.descriptor_offset < request.remote->descriptor(request.descriptor).length) return;
    ++request.descriptor;
    request.descriptor_offset = 0;
}

// ---- Answering -------------------------------------------------------------------------------------------

static wire::Residual residual(uint32_t room, uint32_t used) {
    using Kind = wire::Residual::Kind;
    if (used < room) return {Kind::kUnder, room - used};
    if (used > room) return {Kind::kOver, used - room};
    return {};
}

bool Channel::can_fuse(const Request& request) const noexcept {
    return terms_.fused() && request.ready_bytes == 0 && request.status == wire::kGood &&
           !request.is_task_management && request.in_given == request.command.in.length &&
           request.out_taken == request.command.out.length && owed_ < WSS_FUSED_CREDIT_MASK;
}

uint32_t Channel::take_credits_to_return() noexcept {
    uint32_t count = 1 + std::exchange(owed_, 0);
    credits_ += count;
    return count;
}

static void count_latency(const Request& request, Nanoseconds now, Counters& counters) noexcept {
    if (request.action.kind == scsi::Action::Kind::kRead) counters.read_latency.add(now - request.received);
    if (request.action.kind == scsi::Action::Kind::kWrite) counters.write_latency.add(now - request.received);
}

// Returns true if the whole answer is built; then the fabric owns the request, or it is recycled. Returns
// false if there is no room for the rest.
bool Channel::build_answer(Request& request) noexcept {
    const bool fused = can_fuse(request);
    const bool fused_into_data = fused && request.to_move > 0 && request.moved < request.to_move;
    if (!build_data_writes(request, fused)) return false;
    if (!fused_into_data) {
        const bool joined = fused && join_done(request);
        if (!joined && !has_room()) return false;
        if (request.ready_bytes > 0)
            build_ready(request);
        else if (!fused)
            build_message(request);
        else if (!joined)
            begin_done(request);
    }
    static_cast<ListNode<>&>(request).unlink();
    count_latency(request, worker_.answer_time(), counters_);
    // Data in a RAM volume's memory needs no completion; all other data does. A request that an abort job
    // waits for needs one as well: the job's answer may be sent on another channel, which is not ordered with
    // the WRITEs of this one.
    if ((request.to_move > 0 && !request.data_is_volume) || request.abort_job != nullptr)
        signal(batch_[batch_count_ - 1], reinterpret_cast<uint64_t>(&request));
    else if (!request.answer_waits)
        recycle(request);
    return true;
}

bool Channel::build_data_writes(Request& request, bool fused) noexcept {
    while (request.moved < request.to_move) {
        if (!has_room()) return false;
        uint32_t length = 0;
        fabric::RemoteAddress remote = next_segment(request, length);
        const bool last = request.moved + length == request.to_move;
        fabric::WorkRequest& work = add(last && fused ? fabric::Op::kWriteImmediate : fabric::Op::kWrite,
                                        request.local + request.moved, length, request.local_lkey);
        work.remote = remote;
        counters_.rdma_writes.add();
        if (last && fused) build_fused(work, request);
        advance(request, length);
    }
    return true;
}

void Channel::build_fused(fabric::WorkRequest& work, Request& request) noexcept {
    work.immediate = wire::pack_fused({.tag = static_cast<uint16_t>(request.command.tag),
                                       .credits = static_cast<uint8_t>(take_credits_to_return())});
    counters_.fused.add();
}

void Channel::begin_done(Request& request) noexcept {
    end_done();
    done_.work = &add(fabric::Op::kWriteImmediate, nullptr, 0, 0);
    done_.text = request.slot + kSlotAnswer;
    done_.lkey = request.slot_lkey;
    done_.tags[0] = static_cast<uint16_t>(request.command.tag);
    done_.credits = take_credits_to_return();
    done_.count = 1;
}

// Returns false if the request needs its own work request: there is none to join, or it must be signalled.
bool Channel::join_done(Request& request) noexcept {
    if (!terms_.batched() || done_.count == 0 || done_.count >= done_max_) return false;
    if (request.to_move > 0 || request.abort_job != nullptr) return false;
    done_.tags[done_.count++] = static_cast<uint16_t>(request.command.tag);
    done_.credits += take_credits_to_return();
    return true;
}

void Channel::end_done() noexcept {
    const size_t count = std::exchange(done_.count, 0);
    if (count == 0) return;
    fabric::WorkRequest& work = *done_.work;
    if (count == 1) {
        work.immediate =
            wire::pack_fused({.tag = done_.tags[0], .credits = static_cast<uint8_t>(done_.credits)});
        counters_.fused.add();
        return;
    }
    size_t length =
        wire::encode_done(done_.credits, {done_.tags.data(), count}, {done_.text, kSlotAnswerBytes});
    fabric::Segment& segment = segments_[static_cast<size_t>(&work - batch_.data())];
    segment = {done_.text, static_cast<uint32_t>(length), done_.lkey};
    work.op = fabric::Op::kSend;
    work.segments = {&segment, 1};
    work.inlined = true;
    counters_.batched.add(count);
    counters_.sends.add();
}

static uint32_t first_rkey(const wire::Command& command) {
    if (command.in.count > 0) return command.in.descriptor(0).rkey;
    if (command.out.count > 0) return command.out.descriptor(0).rkey;
    return 0;
}

void Channel::build_message(Request& request) noexcept {
    std::byte sense[wire::kSenseMax];
    wire::Response response{.tag = request.command.tag,
                            .credits = take_credits_to_return(),
                            .status = request.status,
                            .has_task_status = request.is_task_management,
                            .task_status = request.task_status,
                            .out = residual(request.command.out.length, request.out_taken),
                            .in = residual(request.command.in.length, request.in_given)};
    if (request.has_sense) {
        scsi::Device absent{.present = false};
        auto format = scsi::sense_format(request.unit != nullptr ? request.unit->device : absent);
        response.sense = {sense, wire::encode_sense(request.sense, format, sense)};
    }
    std::byte* text = request.slot + kSlotAnswer;
    size_t length = wire::encode_response(response, {text, kSlotAnswerBytes});
    WSS_ASSERT(length > 0, "the slot has room for every response");
    uint32_t rkey = terms_.remote_invalidate() ? first_rkey(request.command) : 0;
    fabric::WorkRequest& work = add(rkey != 0 ? fabric::Op::kSendInvalidate : fabric::Op::kSend, text,
                                    static_cast<uint32_t>(length), request.slot_lkey);
    work.immediate = rkey;
    work.inlined = length <= inline_max_;
    counters_.sends.add();
    if (rkey != 0) counters_.invalidates.add();
    request.answer_waits = !work.inlined;
    if (!work.inlined)
        signal(work, reinterpret_cast<uint64_t>(&request));
    else if (life_ == Life::kDraining)
        signal(work, 0);
}

// Sends the complete message in the slot. It carries no credits: authentication uses none, and a RETRY
// implicitly returns the credit of its command.
void Channel::build_ready(Request& request) noexcept {
    signal(add(fabric::Op::kSend, request.slot + kSlotAnswer, request.ready_bytes, request.slot_lkey),
           reinterpret_cast<uint64_t>(&request));
    request.answer_waits = true;
    counters_.sends.add();
}

void Channel::build_short() noexcept {
    const bool inlined = sizeof(ShortBytes) <= inline_max_;
    while (short_count_ > 0 && has_room() && !short_busy_) {
        ShortBytes& payload = short_posting_[inlined ? batch_count_ : 0];
        payload = short_queue_[short_head_];
        short_head_ = (short_head_ + 1) % kShortQueue;
        --short_count_;
        fabric::WorkRequest& work =
            add(fabric::Op::kSend, payload.bytes.data(), sizeof(ShortBytes), messages_->lkey());
        work.inlined = inlined;
        short_busy_ = !inlined;
        // The last message of a connection must complete before the connection is closed.
        if (!inlined || life_ == Life::kDraining) signal(work, inlined ? 0 : kShortCookie);
        counters_.sends.add();
    }
}

// ---- Posting ---------------------------------------------------------------------------------------------

fabric::WorkRequest& Channel::add(fabric::Op op, std::byte* data, uint32_t length, uint32_t lkey) noexcept {
    segments_[batch_count_] = {data, length, lkey};
    fabric::WorkRequest& work = batch_[batch_count_] = {.op = op, .signalled = false};
    if (length > 0) work.segments = {&segments_[batch_count_], 1};
    ++batch_count_;
    ++sends_outstanding_;
    if (++since_signal_ >= kSignalEvery) signal(work, 0);
    return work;
}

// `work` is the last one added.
void Channel::signal(fabric::WorkRequest& work, uint64_t cookie) noexcept {
    work.cookie = cookie;
    if (work.signalled) return;
    work.signalled = true;
    if (signalled_head_ == signalled_tail_)
        record_->sending_since_ns.store(worker_.reactor().now().count, std::memory_order_relaxed);
    signalled_[signalled_tail_] = static_cast<uint16_t>(since_signal_);
    signalled_tail_ = (signalled_tail_ + 1) % signalled_.size();
    since_signal_ = 0;
}

void Channel::build() noexcept {
    build_all();
    end_done();
}

void Channel::build_all() noexcept {
    if (fence_wanted_ && has_room()) {
        signal(add(fabric::Op::kWrite, nullptr, 0, 0), kFenceCookie);
        fence_wanted_ = false;
    }
    build_short();
    while (Request* request = answers_.front())
        if (!build_answer(*request)) return;
    build_notice();
    while (Request* request = fetches_.front())
        if (!build_reads(*request)) return;
}

// Called before the answers are posted: the peer may use their credits at once.
bool Channel::post_receives() noexcept {
    if (reposts_.empty()) return true;
    Code code = connection_->post_receives(reposts_);
    reposts_.clear();
    if (code == Code::kOk) return true;
    close("its receives cannot be posted");
    return false;
}

size_t Channel::flush() noexcept {
    size_t posted = 0;
    while (running()) {
        if (batch_count_ == 0) build();
        if (!post_receives() || batch_count_ == 0) break;
        Code code = connection_->post({batch_.data(), batch_count_});
        if (code == Code::kExhausted && signalled_head_ != signalled_tail_) break;  // a completion will come
        if (code != Code::kOk) {
            close(to_string(code));
            break;
        }
        counters_.posts.add();
        posted += batch_count_;
        batch_count_ = 0;
    }
    finish_drain_if_idle();
    return posted;
}

}  // namespace wss::block
