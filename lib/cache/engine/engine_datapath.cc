// SPDX-License-Identifier: Apache-2.0
// The datapath of a cache engine: records from storage engines, and RDMA with clients. Nothing here
// allocates, locks or logs, except what happens once per client: its grant, and the acceptance of its
// connection.
#include <algorithm>
#include <cstring>

#include "lib/cache/engine/engine_parts.h"
#include "lib/cache/engine/storage.h"

namespace wss::cache {

using wire::CacheStatus;
using wire::ParseError;
using wire::RecordType;

bool Engine::SeLink::record(RecordLink&, const wire::Record& record) noexcept {
    if (auth_ != nullptr) return prove(record);
    switch (record.type) {
        case RecordType::kMove:
            return move(record);
        case RecordType::kHeader:
            return header(record);
        case RecordType::kWipe:
            return wipe(record);
        case RecordType::kGrant:
            return grant(record);
        case RecordType::kRevoke:
            return revoke(record);
        case RecordType::kStorage:
            return storage_volumes_ != nullptr && storage_volumes_->begin(record);
        case RecordType::kEngine:
            return storage_volumes_ != nullptr && storage_volumes_->named(record);
        case RecordType::kPing:
            ++pings_;
            link_->wrote(wire::put_plain(RecordType::kPong, 0, record.id, link_->room()));
            return true;
        case RecordType::kGoodbye:
            goodbye_received_ = true;
            storage_ = 0;  // the SE no longer needs the contents
            link_->close(Status(Code::kClosed, "released by the storage engine"));
            return true;
        default:
            return false;
    }
}

void Engine::SeLink::done(uint32_t id, CacheStatus status, bool urgent) noexcept {
    if (!link_->is_up()) return;
    link_->wrote(wire::put_plain(RecordType::kDone, static_cast<uint8_t>(status), id, link_->room()), urgent);
}

void Engine::SeLink::failed(uint32_t id, int error) noexcept {
    if (is_up()) link_->wrote(wire::put_failed(id, static_cast<uint32_t>(error), link_->room()));
}

void Engine::SeLink::report(const wire::CacheVolumeState& state) noexcept {
    if (is_up()) link_->wrote(wire::put_volume_state(state, link_->room()));
}

// ---- Moves -----------------------------------------------------------------------------------------------

bool Engine::SeLink::move(const wire::Record& record) noexcept {
    if (record.id >= operations_.size()) return false;
    Operation& operation = operations_[record.id];
    if (operation.state != Operation::State::kFree) return false;
    wire::CacheMove& move = operation.move;
    if (wire::parse_move(record, move) != ParseError::kNone) return false;
    const bool inside =
        move.slot < slots_ && move.offset <= line_bytes_ && move.length <= line_bytes_ - move.offset;
    if (!inside) return false;
    operation.client = nullptr;
    operation.pings = pings_;
    ++busy_;
    ++engine_.counters_.moves;
    if (move.handle != wire::kStorageHandle) {
        operation.client = client_of(move.handle);
        if (operation.client == nullptr) {
            moved(operation, CacheStatus::kNoClient);
            return true;
        }
    }
    run(operation);
    return true;
}

Engine::Client* Engine::SeLink::client_of(uint64_t handle) noexcept {
    auto found = engine_.grants_.find(handle);
    if (found == engine_.grants_.end() || found->second->link != this) return nullptr;
    return found->second->client;
}

bool Engine::SeLink::post(Operation& operation) noexcept {
    fabric::Segment segment;
    fabric::WorkRequest work = work_for(operation, net_, segment);
    return link_->post(work);
}

void Engine::SeLink::run(Operation& operation) noexcept {
    if (operation.move.atomic && operation.stage == Operation::kNoStage) {
        if (free_stages_.empty()) {
            ++engine_.counters_.waited_for_stage;
            operation.state = Operation::State::kWaiting;
            waiting_.push_back(operation);
            return;
        }
        operation.stage = free_stages_.back();
        free_stages_.pop_back();
    }
    if (operation.client != nullptr) return operation.client->run(operation);
    if (!post(operation)) moved(operation, CacheStatus::kFailed);
}

fabric::WorkRequest Engine::SeLink::work_for(Operation& operation, size_t net,
                                             fabric::Segment& segment) noexcept {
    const wire::CacheMove& move = operation.move;
    operation.state = Operation::State::kMoving;
    std::byte* local = operation.buffer != nullptr              ? operation.buffer
                       : operation.stage != Operation::kNoStage ? stage_memory(operation.stage)
                                                                : slot_memory(move.slot) + move.offset;
    segment = {local, move.length, engine_.lkey(net)};
    fabric::Op op = !move.to_peer    ? fabric::Op::kRead
                    : move.immediate ? fabric::Op::kWriteImmediate
                                     : fabric::Op::kWrite;
    return {.op = op,
            .cookie = reinterpret_cast<uint64_t>(&operation),
            .segments = {&segment, 1},
            .remote = {move.remote.address, move.remote.rkey},
            .immediate = move.immediate_value};
}

void Engine::SeLink::operation_over(RecordLink&, uint64_t cookie, bool good) noexcept {
    moved(*reinterpret_cast<Operation*>(cookie), good ? CacheStatus::kOk : CacheStatus::kFailed);
}

// CE2, CE3.
void Engine::SeLink::moved(Operation& operation, CacheStatus status) noexcept {
    if (operation.buffer != nullptr) return storage_volumes_->moved(operation, status);
    const wire::CacheMove& move = operation.move;
    EngineCounters& counters = engine_.counters_;
    const bool good = status == CacheStatus::kOk && link_->is_up();
    if (good && operation.stage != Operation::kNoStage)
        std::memcpy(slot_memory(move.slot) + move.offset, stage_memory(operation.stage), move.length);
    if (good && move.has_header) headers_[move.slot] = move.header;
    if (good) {
        const bool client = move.handle != wire::kStorageHandle;
        (move.to_peer ? (client ? counters.to_client_bytes : counters.to_storage_bytes)
                      : (client ? counters.from_client_bytes : counters.from_storage_bytes)) += move.length;
    } else {
        ++counters.failed_moves;
    }
    const bool had_stage = operation.stage != Operation::kNoStage;
    if (had_stage) free_stages_.push_back(std::exchange(operation.stage, Operation::kNoStage));
    operation.state = Operation::State::kFree;
    operation.client = nullptr;
    --busy_;
    done(operation.id, status, !good || !move.coalesced || operation.pings != pings_);
    if (had_stage) serve_stage_waiters();
}

void Engine::SeLink::serve_stage_waiters() noexcept {
    while (!free_stages_.empty()) {
        Operation* operation = waiting_.pop_front();
        if (operation == nullptr) return;
        run(*operation);
    }
}

// ---- Headers and wiping ----------------------------------------------------------------------------------

bool Engine::SeLink::header(const wire::Record& record) noexcept {
    wire::CacheHeader header;
    if (wire::parse_header(record, header) != ParseError::kNone || header.slot >= slots_) return false;
    headers_[header.slot] = header.header;
    done(record.id, CacheStatus::kOk);
    return true;
}

bool Engine::SeLink::wipe(const wire::Record& record) noexcept {
    uint32_t slot = 0;
    if (wire::parse_slot(record, slot) != ParseError::kNone || slot >= slots_) return false;
    headers_[slot] = {};
    std::memset(slot_memory(slot), 0, line_bytes_);
    ++engine_.counters_.wipes;
    done(record.id, CacheStatus::kOk);
    return true;
}

// ---- Clients ---------------------------------------------------------------------------------------------

bool Engine::SeLink::grant(const wire::Record& record) noexcept {
    wire::CacheLogin login;
    if (wire::parse_grant(record, login) != ParseError::kNone) return false;
    if (engine_.grants_.size() >= kGrantsMax || engine_.grants_.contains(login.handle)) return true;
    auto grant = std::make_unique<Grant>();
    grant->token = login.token;
    grant->link = this;
    engine_.grants_.emplace(login.handle, std::move(grant));
    return true;
}

bool Engine::SeLink::revoke(const wire::Record& record) noexcept {
    uint64_t handle = 0;
    if (wire::parse_handle(record, handle) != ParseError::kNone) return false;
    auto found = engine_.grants_.find(handle);
    if (found == engine_.grants_.end() || found->second->link != this) return true;
    if (found->second->client != nullptr)
        found->second->client->close();  // on_closed() erases the grant
    else
        engine_.grants_.erase(found);
    return true;
}

void Engine::SeLink::client_attached(Client& client) noexcept {
    if (link_->is_up()) link_->wrote(wire::put_handle(RecordType::kAttached, client.handle(), link_->room()));
}

void Engine::SeLink::client_detached(Client& client) noexcept {
    waiting_.for_each([&client](Operation& operation) {
        if (operation.client != &client) return;
        operation.unlink();
        operation.link->moved(operation, CacheStatus::kNoClient);
    });
    --clients_;
    if (link_->is_up()) link_->wrote(wire::put_handle(RecordType::kDetached, client.handle(), link_->room()));
}

void Engine::SeLink::engine_gone(uint64_t handle) noexcept {
    if (is_up()) link_->wrote(wire::put_handle(RecordType::kEngineGone, handle, link_->room()));
}

bool Engine::SeLink::is_quiet() const noexcept {
    return busy_ == 0 && clients_ == 0 && (storage_volumes_ == nullptr || storage_volumes_->is_quiet());
}

size_t Engine::SeLink::turn() noexcept {
    const size_t done = storage_volumes_ == nullptr ? 0 : storage_volumes_->turn();
    return link_ == nullptr ? done : done + link_->flush();
}

Status Engine::Client::accept(fabric::ConnectRequest& request, fabric::Poller& poller) {
    fabric::ConnectionOptions options;
    options.send_depth = kClientDepth;
    options.receive_depth = 1;
    options.send_segments = 1;
    options.inline_bytes = 0;
    auto connection = request.create(poller, options, *this);
    if (!connection) return connection.status();
    connection_ = std::move(*connection);
    link_->client_counted();
    if (Status accepted = connection_->accept({}); !accepted) connection_->close();
    return Status::ok();
}

void Engine::Client::on_established(fabric::Connection&, std::span<const std::byte>) noexcept {
    link_->client_attached(*this);
}

void Engine::Client::run(Operation& operation) noexcept {
    if (outstanding_ == kClientDepth) {
        operation.state = Operation::State::kWaiting;
        waiting_.push_back(operation);
        return;
    }
    fabric::Segment segment;
    fabric::WorkRequest work = link_->work_for(operation, net_, segment);
    if (connection_->post({&work, 1}) != Code::kOk) return link_->moved(operation, CacheStatus::kNoClient);
    ++outstanding_;
}

void Engine::Client::on_completions(fabric::Connection&,
                                    std::span<const fabric::Completion> completions) noexcept {
    for (const fabric::Completion& completion : completions) {
        --outstanding_;
        auto& operation = *reinterpret_cast<Operation*>(completion.cookie);
        link_->moved(operation, completion.status == fabric::CompletionStatus::kOk ? CacheStatus::kOk
                                                                                   : CacheStatus::kNoClient);
    }
    while (outstanding_ < kClientDepth) {
        Operation* operation = waiting_.pop_front();
        if (operation == nullptr) return;
        run(*operation);
    }
}

void Engine::Client::on_closed(fabric::Connection&, const Status&) noexcept {
    over_ = true;
    while (Operation* operation = waiting_.pop_front()) link_->moved(*operation, CacheStatus::kNoClient);
    engine_.client_over(*this);
    link_->client_detached(*this);
}

}  // namespace wss::cache
