// SPDX-License-Identifier: Apache-2.0
// Operations in flight. They are delivered one after the other per direction (F1), and completed in posting
// order (F2).
#include <algorithm>
#include <cstring>

#include "lib/fabric/sim/endpoint.h"

namespace wss::fabric {

static void deliver_front(const EndpointPtr& from);

static sim::World& world_of(const EndpointPtr& end) {
    return end->node->world();
}

static void complete(const EndpointPtr& end, Completion completion) {
    if (!end->lives()) return;
    end->poller->notify({.kind = SimNews::Kind::kCompletion, .endpoint = end, .completion = completion});
}

static CompletionKind kind_of(Op op) {
    if (op == Op::kRead) return CompletionKind::kRead;
    return op == Op::kSend || op == Op::kSendInvalidate ? CompletionKind::kSend : CompletionKind::kWrite;
}

// A send queue completes in order: a finished operation waits for the operations that were posted before it.
static void retire(const EndpointPtr& end) {
    while (!end->sends.empty() && end->sends.front()->done) {
        auto operation = end->sends.front();
        end->sends.pop_front();
        if (operation->signalled)
            complete(end, {.cookie = operation->cookie, .kind = kind_of(operation->op)});
    }
}

void break_endpoint(const EndpointPtr& end, const Status& why, SimOperation* culprit,
                    CompletionStatus cause) {
    if (!end->lives() || end->state == SimState::kClosing || end->state == SimState::kClosed) return;
    // The connecting side has not reported a connection to its user yet, so it reports a refusal instead of a
    // close.
    auto kind = end->state == SimState::kConnecting ? SimNews::Kind::kRefused : SimNews::Kind::kClosed;
    end->state = SimState::kClosing;
    retire(end);
    for (const auto& operation : end->sends)
        complete(end, {.cookie = operation->cookie,
                       .kind = kind_of(operation->op),
                       .status = operation.get() == culprit ? cause : CompletionStatus::kFlushed});
    end->sends.clear();
    end->wire.clear();
    for (const auto& receive : end->receives)
        complete(end, {.cookie = receive.cookie,
                       .kind = CompletionKind::kReceive,
                       .status = CompletionStatus::kFlushed});
    end->receives.clear();
    end->poller->notify({.kind = kind, .endpoint = end, .why = why});
}

void break_connection(const EndpointPtr& end, const Status& why, SimOperation* culprit,
                      CompletionStatus cause) {
    EndpointPtr peer = end->peer.lock();
    break_endpoint(end, why, culprit, cause);
    if (!peer) return;
    sim::World& world = world_of(end);
    if (!world.connected(*end->node, *peer->node)) return;  // the notification does not get through
    world.schedule_in(end->lives() ? end->poller->fabric().delay() : from_us(10), [peer] {
        break_endpoint(peer, Status(Code::kClosed, "the peer closed the connection"), nullptr,
                       CompletionStatus::kFlushed);
    });
}

// Copies `bytes` to the segments. Returns false if they do not fit.
static bool scatter(std::span<const std::byte> bytes, std::span<const Segment> segments) {
    size_t room = 0;
    for (const Segment& segment : segments) room += segment.length;
    if (bytes.size() > room) return false;
    for (const Segment& segment : segments) {
        size_t part = std::min<size_t>(segment.length, bytes.size());
        if (part > 0) std::memcpy(segment.address, bytes.data(), part);
        bytes = bytes.subspan(part);
    }
    return true;
}

static std::vector<std::byte> gather(const SimOperation& operation) {
    if (operation.is_inlined) return operation.inlined;
    std::vector<std::byte> bytes;
    bytes.reserve(operation.length);
    for (const Segment& segment : operation.segments)
        bytes.insert(bytes.end(), segment.address, segment.address + segment.length);
    return bytes;
}

// Delivers a message to a receive of `to` and returns the status for the sender.
static CompletionStatus receive_message(const EndpointPtr& to, const SimOperation& operation) {
    SimReceive receive = std::move(to->receives.front());
    to->receives.pop_front();
    Completion completion{.cookie = receive.cookie,
                          .kind = CompletionKind::kReceive,
                          .length = operation.length,
                          .immediate = operation.immediate};
    if (operation.op == Op::kWriteImmediate) {
        completion.kind = CompletionKind::kReceiveImmediate;
        complete(to, completion);
        return CompletionStatus::kOk;
    }
    if (scatter(gather(operation), receive.segments)) {
        complete(to, completion);
        return CompletionStatus::kOk;
    }
    completion.status = CompletionStatus::kLength;
    complete(to, completion);
    return CompletionStatus::kLength;
}

static CompletionStatus execute(const EndpointPtr& to, SimOperation& operation,
                                std::vector<std::byte>& answer) {
    SimFabric& fabric = to->poller->fabric();
    if (operation.op == Op::kRead) {
        std::byte* memory = fabric.reach(operation.remote, operation.length, false);
        if (memory == nullptr) return CompletionStatus::kRemoteAccess;
        answer.assign(memory, memory + operation.length);
        return CompletionStatus::kOk;
    }
    if (operation.op == Op::kWrite || operation.op == Op::kWriteImmediate) {
        std::byte* memory = fabric.reach(operation.remote, operation.length, true);
        if (memory == nullptr && operation.length > 0) return CompletionStatus::kRemoteAccess;
        if (operation.length > 0) {
            std::vector<std::byte> bytes = gather(operation);
            std::memcpy(memory, bytes.data(), bytes.size());
        }
        if (operation.op == Op::kWrite) return CompletionStatus::kOk;
    }
    return receive_message(to, operation);
}

static void acknowledged(const EndpointPtr& from, const std::shared_ptr<SimOperation>& operation,
                         CompletionStatus status, const std::vector<std::byte>& answer) {
    if (!from->open()) return;
    if (status != CompletionStatus::kOk) {
        Status why = failure(Code::kRefused, "the peer refused an operation: {}", to_string(status));
        break_connection(from, why, operation.get(), status);
        return;
    }
    if (operation->op == Op::kRead) scatter(answer, operation->segments);
    operation->done = true;
    retire(from);
}

static void peer_lost(const EndpointPtr& from) {
    if (!from->open() || from->wire.empty()) return;
    SimOperation* culprit = from->sends.empty() ? nullptr : from->sends.front().get();
    break_connection(from, Status(Code::kUnavailable, "the peer does not answer"), culprit,
                     CompletionStatus::kPeerLost);
}

// The message does not get through now: retry until SimNetwork::retries has passed.
static void retry(const EndpointPtr& from, const SimOperation& operation) {
    sim::World& world = world_of(from);
    Nanoseconds limit = operation.posted + from->poller->fabric().network().retries;
    if (world.now() >= limit) {
        from->delivering = false;
        peer_lost(from);
        return;
    }
    Nanoseconds next = std::min(world.now() + from_ms(10), limit);
    world.schedule(next, [from] { deliver_front(from); });
}

static void deliver_front(const EndpointPtr& from) {
    if (!from->open() || from->wire.empty()) {
        from->delivering = false;
        return;
    }
    std::shared_ptr<SimOperation> operation = from->wire.front();
    EndpointPtr to = from->peer.lock();
    sim::World& world = world_of(from);
    bool there = to && to->lives() && world.connected(*from->node, *to->node);
    if (!there || to->state == SimState::kClosing || to->state == SimState::kClosed) {
        retry(from, *operation);
        return;
    }
    bool needs_receive = operation->op == Op::kSend || operation->op == Op::kWriteImmediate;
    // F3: the operation waits for a receive without a limit, and post_receives() restarts the transmission.
    // The operation also waits until the accepting end has opened, which restarts the transmission too.
    if (to->state != SimState::kOpen || (needs_receive && to->receives.empty())) {
        from->delivering = false;
        return;
    }
    from->wire.pop_front();
    from->delivering = false;
    world.note(from->id << 8 | static_cast<uint64_t>(operation->op));
    if (world.fault("sim.break", from->poller->fabric().network().break_one_in)) {
        break_connection(from, Status(Code::kUnavailable, "the connection broke"), operation.get(),
                         CompletionStatus::kPeerLost);
        return;
    }
    std::vector<std::byte> answer;
    CompletionStatus status = execute(to, *operation, answer);
    world.schedule_in(to->poller->fabric().delay(), [from, operation, status, answer = std::move(answer)] {
        acknowledged(from, operation, status, answer);
    });
    // F4: a refused access also closes the refusing side.
    if (status != CompletionStatus::kOk)
        break_endpoint(to, Status(Code::kRefused, "an operation of the peer was refused"), nullptr,
                       CompletionStatus::kFlushed);
    start_transmission(from);
}

void start_transmission(const EndpointPtr& from) {
    if (from->delivering || from->wire.empty() || !from->open()) return;
    from->delivering = true;
    world_of(from).schedule_in(from->poller->fabric().delay(), [from] { deliver_front(from); });
}

}  // namespace wss::fabric
