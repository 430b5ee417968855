// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/block_client.h"

#include "tests/sim/checkers/sector_stamp.h"

namespace wss::sim {

using initiator::Operation;
using initiator::Outcome;

constexpr Nanoseconds kRequestTimeout = from_s(12);
// A request may outlive its limit by the time that closing a connection takes, and by the interval of the
// timer that checks limits.
constexpr Nanoseconds kGrace = from_s(8);

BlockClient::BlockClient(Node& node, const fabric::SimNetwork& network, const std::string& target,
                         uint32_t depth, BlockShared& shared)
    : node_(node),
      shared_(shared),
      target_(target),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, network)),
      poller_(std::move(*fabric_->create_poller())),
      random_(node.world().random().next()),
      ios_(depth),
      retry_([](void* self) noexcept { static_cast<BlockClient*>(self)->create_session(); }, this) {
    for (Io& io : ios_) io.client = this;
    reactor_.add(*poller_);
    node_.run(reactor_);
}

BlockClient::~BlockClient() {
    reactor_.cancel(retry_);
    node_.forget(reactor_);
    session_.reset();
    reactor_.remove(*poller_);
}

void BlockClient::create_session() {
    initiator::Options options;
    options.address = {.scheme = fabric::Scheme::kSim, .host = target_, .port = 1};
    options.request_timeout = kRequestTimeout;
    options.reconnect_timeout = from_s(60);  // requests end by their own limit
    options.bounce_bytes = 4 * 1024 * 1024;
    options.queue_depth = 16;
    auto session = initiator::Session::create(reactor_, *fabric_, *poller_, random_, options, *this);
    if (!session) {
        reactor_.set(retry_, reactor_.now() + from_ms(100));
        return;
    }
    session_ = std::move(*session);
    session_->start();
}

void BlockClient::start() {
    create_session();
}

void BlockClient::close() {
    closing_ = true;
    reactor_.cancel(retry_);
    if (session_ && session_->state() != initiator::Session::State::kClosed)
        session_->close();
    else
        closed_ = true;
}

void BlockClient::on_ready(initiator::Session& session) noexcept {
    shared_.reconnects += volume_ != nullptr;
    release_zombies();
    if (volume_ != nullptr) return;
    session.open_volume(volume_name_, [this](Result<initiator::Volume*> opened) {
        if (opened) volume_ = *opened;
    });
}

void BlockClient::on_failed(initiator::Session&, const Status&) noexcept {
    // The user repeats a failed first connect, but not from within the session's callback.
    if (!closing_) reactor_.set(retry_, reactor_.now() + from_ms(50));
    closed_ = closing_;
}

void BlockClient::on_closed(initiator::Session&) noexcept {
    closed_ = true;
}

// A new session was granted: the target has fenced the old one, whose writes have no further effect.
void BlockClient::release_zombies() {
    for (const Zombie& zombie : zombies_) shared_.model.change_failed(zombie.first, zombie.count, zombie.id);
    zombies_.clear();
}

void BlockClient::choose(Io& io) {
    uint64_t sectors = shared_.model.sectors();
    uint64_t longest = random_.chance(8) ? 512 : 32;
    io.count = 1 + random_.below(longest);
    io.first = random_.below(sectors - std::min(io.count, sectors - 1));
    io.count = std::min(io.count, sectors - io.first);
    if (align_ > 1 && random_.chance(2)) {
        io.first -= io.first % align_;
        io.count = std::min((io.count + align_ - 1) / align_ * align_, sectors - io.first);
    }
    initiator::Request& request = io.request;
    request.fua = false;
    switch (random_.below(20)) {
        case 0 ... 7:
            request.operation = Operation::kRead;
            // Half of the reads, at random, continue where the previous read ended, so that read-ahead takes
            // part.
            if (random_.chance(2)) {
                io.first = next_read_ < sectors ? next_read_ : 0;
                io.count = std::min(io.count, sectors - io.first);
            }
            next_read_ = io.first + io.count;
            break;
        case 8 ... 15:
            request.operation = Operation::kWrite;
            request.fua = random_.chance(4);
            break;
        case 16:
        case 17:
            request.operation = Operation::kFlush;
            break;
        case 18:
            request.operation = Operation::kDiscard;
            break;
        default:
            request.operation = Operation::kWriteZeroes;
            break;
    }
}

bool BlockClient::prepare(Io& io) {
    initiator::Request& request = io.request;
    bool changes = request.operation != Operation::kRead && request.operation != Operation::kFlush;
    if (changes && shared_.model.busy(io.first, io.count)) return false;
    request.volume = volume_;
    request.offset = request.operation == Operation::kFlush ? 0 : io.first * kSectorBytes;
    request.length = request.operation == Operation::kFlush ? 0 : io.count * kSectorBytes;
    request.done = done;
    request.context = &io;
    io.bytes.resize(io.count * kSectorBytes);
    io.buffer = {io.bytes.data(), io.bytes.size()};
    request.buffers = {};
    if (request.operation == Operation::kRead || request.operation == Operation::kWrite)
        request.buffers = {&io.buffer, 1};
    io.id = request.operation == Operation::kWrite ? shared_.next_id++ : 0;
    if (request.operation == Operation::kWrite)
        for (uint64_t i = 0; i < io.count; ++i)
            stamp_sector(io.bytes.data() + i * kSectorBytes, io.first + i, io.id);
    if (changes) shared_.model.change_begins(io.first, io.count, io.id);
    if (request.operation == Operation::kRead) shared_.model.read_begins(io.first, io.count);
    if (request.operation == Operation::kFlush) io.flush_token = shared_.model.flush_begins();
    return true;
}

bool BlockClient::begin(Io& io) {
    if (!prepare(io)) return false;
    io.used = true;
    io.begun = node_.world().now();
    ++under_way_;
    ++shared_.begun;
    if (!session_->submit(io.request)) ended(io);
    return true;
}

bool BlockClient::begin_one() {
    if (volume_ == nullptr || closing_) return false;
    for (Io& io : ios_) {
        if (io.used) continue;
        choose(io);
        return begin(io);
    }
    return false;
}

bool BlockClient::begin(Operation operation, uint64_t first, uint64_t count) {
    if (volume_ == nullptr || closing_) return false;
    for (Io& io : ios_) {
        if (io.used) continue;
        io.first = first;
        io.count = count;
        io.request.operation = operation;
        io.request.fua = false;
        return begin(io);
    }
    return false;
}

void BlockClient::done(initiator::Request&, void* context) noexcept {
    auto* io = static_cast<Io*>(context);
    io->client->ended(*io);
}

void BlockClient::ended(Io& io) {
    io.used = false;
    --under_way_;
    ++shared_.ended;
    last_outcome_ = io.request.outcome;
    shared_.failed += io.request.outcome != Outcome::kOk;
    if (io.request.outcome == Outcome::kOk && io.request.operation != Operation::kFlush)
        shared_.newest_success = std::max(shared_.newest_success, io.begun);
    node_.world().note(static_cast<uint64_t>(io.request.outcome) << 32 | io.first);
    Nanoseconds took = node_.world().now() - io.begun;
    if (took > kRequestTimeout + kGrace)
        shared_.fail(fmt::format("{} took {} ms", describe(io.request), took.count / 1'000'000));
    switch (io.request.operation) {
        case Operation::kRead:
            return read_ended(io);
        case Operation::kFlush:
            if (io.request.outcome == Outcome::kOk) shared_.model.flush_acknowledged(io.flush_token);
            return;
        default:
            return change_ended(io);
    }
}

void BlockClient::read_ended(Io& io) {
    if (io.request.outcome != Outcome::kOk) return shared_.model.read_failed(io.first, io.count);
    std::vector<uint64_t> found(io.count);
    for (uint64_t i = 0; i < io.count; ++i)
        found[i] = read_stamp(io.bytes.data() + i * kSectorBytes, io.first + i);
    std::string wrong = shared_.model.read_ends(io.first, found);
    if (!wrong.empty()) shared_.fail(fmt::format("{} of {}: {}", describe(io.request), node_.name(), wrong));
}

void BlockClient::change_ended(Io& io) {
    switch (io.request.outcome) {
        case Outcome::kOk:
            return shared_.model.change_acknowledged(io.first, io.count, io.id, io.request.fua,
                                                     io.request.operation == Operation::kDiscard);
        case Outcome::kTimedOut:
        case Outcome::kConnectionLost:
        case Outcome::kClosed:
            zombies_.push_back({io.first, io.count, io.id});
            return;
        default:
            return shared_.model.change_failed(io.first, io.count, io.id);
    }
}

}  // namespace wss::sim
