// SPDX-License-Identifier: Apache-2.0
#include "target/cache/engine_link.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "lib/fabric/sources.h"
#include "target/cache/limits.h"

namespace wss::cache {

using wire::CacheStatus;
using wire::ParseError;
using wire::RecordType;

// Time limit for a header, a wipe, or a move between the engine and the target. It is a hundred thousand
// times the usual duration.
constexpr Nanoseconds kOwnWorkMax = from_s(10);
// Other pings have id 0, and so do pongs that an engine sends without a ping.
constexpr uint32_t kPingOfGrant = 1;

Status EngineLink::accept(fabric::ConnectRequest& request, fabric::Fabric& fabric, fabric::Poller& poller,
                          const Identity& identity, const wire::CacheWelcome& welcome) {
    begin(identity, welcome);
    std::array<std::byte, 64> data;
    const size_t length = wire::encode_cache_welcome(welcome, data);
    return open(request, fabric, poller, {data.data(), length});
}

Status EngineLink::ask_for_proof(fabric::ConnectRequest& request, fabric::Fabric& fabric,
                                 fabric::Poller& poller, std::shared_ptr<const auth::SecretBook> secrets) {
    std::array<std::byte, 64> data;
    const size_t length = wire::encode_cache_prove(data);
    auth_ = std::make_unique<auth::Authenticator>(std::move(secrets), wire::padded_for_proof(request.data()),
                                                  wire::padded_for_proof({data.data(), length}));
    return open(request, fabric, poller, {data.data(), length});
}

void EngineLink::admit(const Identity& identity, const wire::CacheWelcome& welcome) {
    begin(identity, welcome);
    std::array<std::byte, 64> data;
    const size_t length = wire::encode_cache_welcome(welcome, data);
    link_->wrote(wire::put_bytes(RecordType::kWelcome, {data.data(), length}, link_->room()));
}

void EngineLink::begin(const Identity& identity, const wire::CacheWelcome& welcome) {
    identity_ = identity;
    if (link_ != nullptr) identity_.via.device = link_->device();
    slots_max_ = is_storage() ? 0 : identity.memory / welcome.line_bytes;
    by_id_.assign(welcome.operations, nullptr);
    for (uint32_t id = welcome.operations; id > 0; --id) free_ids_.push_back(id - 1);
}

Status EngineLink::open(fabric::ConnectRequest& request, fabric::Fabric& fabric, fabric::Poller& poller,
                        wire::Bytes answer) {
    RecordLink::Options options;
    options.operations = 1;  // the target sends requests, the engine moves data
    auto link = RecordLink::create(fabric, options, *this);
    if (!link) return link.status();
    link_ = std::move(*link);
    WSS_TRY(link_->accept(request, poller, answer));
    identity_.via.device = link_->device();
    if (auth_) auth_->bind(link_->channel_binding());
    return Status::ok();
}

static void log_unproven(const std::string& peer, const std::string& name, std::string_view why) {
    static log::SourceLimiter limiter(10);
    if (limiter.allow(fabric::source_of(peer)))
        log::warning("{}: cache engine '{}' refused: {}", peer, name, why);
}

bool EngineLink::prove(const wire::Record& record) noexcept {
    using Progress = auth::Authenticator::Progress;
    if (record.type != RecordType::kAuthStart && record.type != RecordType::kAuthProof) return false;
    std::array<std::byte, 256> answer;
    size_t length = 0;
    const Progress progress = auth_->take(record.body, answer, length);
    if (progress == Progress::kViolation) return false;
    if (progress == Progress::kRefused || progress == Progress::kOutdated) {
        log_unproven(link_->peer(), auth_->name(), auth_->finding());
        // The engine disconnects when it has received this. Otherwise the time limit ends the link.
        length = auth_->result(auth_->refusal("cache engine"), answer);
    }
    std::string refusal;
    if (progress == Progress::kProven) refusal = owner_.engine_limit(*this);
    if (progress == Progress::kProven) length = auth_->result(refusal, answer);
    const RecordType type =
        progress == Progress::kChallenge ? RecordType::kAuthChallenge : RecordType::kAuthResult;
    link_->wrote(wire::put_bytes(type, {answer.data(), length}, link_->room()));
    if (progress != Progress::kProven || !refusal.empty()) return true;
    auth_.reset();
    owner_.engine_proven(*this);
    return true;
}

void EngineLink::submit(Transfer& transfer) noexcept {
    WSS_ASSERT(!transfer.under_way, "a transfer in flight is not submitted again");
    transfer.under_way = true;
    transfer.error = 0;
    if (over_ || !link_->is_up()) return refused_.push_back(transfer);
    if (!free_ids_.empty()) return send(transfer);
    transfer.move.coalesced = false;  // a ping that flushes completions may overtake it
    queue_.push_back(transfer);
}

// True for operations that depend on no other node: a sound engine completes them. An engine that has failed
// one must not stay admitted. Otherwise a header that claims dirty data would stay, or the operation would be
// repeated without end.
static bool cannot_fail(const Transfer& transfer) noexcept {
    const bool is_move = transfer.kind == Transfer::Kind::kMove;
    return transfer.kind == Transfer::Kind::kHeader || transfer.kind == Transfer::Kind::kWipe ||
           (is_move && transfer.move.handle == wire::kStorageHandle);
}

// True if the transfer takes too long. The operation that waits for it holds a line, and a freeze or flush
// may wait for that line.
static bool is_late(const Transfer* transfer, Nanoseconds now) noexcept {
    return transfer != nullptr && cannot_fail(*transfer) && !transfer->move.coalesced &&
           transfer->seen != kNever && now - transfer->seen > kOwnWorkMax;
}

void EngineLink::send(Transfer& transfer) noexcept {
    const uint32_t id = free_ids_.back();
    free_ids_.pop_back();
    by_id_[id] = &transfer;
    transfer.seen = kNever;
    ++outstanding_;
    const wire::CacheMove& move = transfer.move;
    coalesced_ += move.coalesced;
    switch (transfer.kind) {
        case Transfer::Kind::kMove:
            if (move.immediate) bytes_to_clients_ += move.length;
            return link_->wrote(wire::put_move(id, move, link_->room()));
        case Transfer::Kind::kHeader:
            return link_->wrote(
                wire::put_header(RecordType::kHeader, id, {move.slot, move.header}, link_->room()));
        case Transfer::Kind::kStorage:
            if (transfer.storage.op == wire::CacheStorage::Op::kRead &&
                transfer.storage.handle != wire::kStorageHandle)
                bytes_to_clients_ += transfer.storage.length;
            return link_->wrote(wire::put_storage(id, transfer.storage, link_->room()));
        case Transfer::Kind::kWipe:
            return link_->wrote(wire::put_slot(RecordType::kWipe, id, move.slot, link_->room()));
    }
}

// The engine rejects a client that connects before its grant. The engine processes records in order, so the
// answer to a ping sent after the grant confirms the grant.
void EngineLink::grant(const wire::CacheEngineNotice& notice) noexcept {
    if (!link_->is_up()) return;
    if (granted_.size() >= kGrantsUnconfirmedMax)
        return close(Status(Code::kInvalid, "the cache engine does not confirm its clients' grants"));
    link_->wrote(wire::put_grant({notice.handle, notice.token}, link_->room()));
    link_->wrote(wire::put_plain(RecordType::kPing, 0, kPingOfGrant, link_->room()));
    granted_.push_back(notice);
}

bool EngineLink::has_requests_of(uint32_t volume) noexcept {
    bool found = false;
    const auto look = [&](const Transfer& one) {
        found = found || (one.kind == Transfer::Kind::kStorage && one.storage.volume == volume);
    };
    for (const Transfer* one : by_id_)
        if (one != nullptr) look(*one);
    queue_.for_each(look);
    return found;
}

void EngineLink::pong(uint32_t id) noexcept {
    if (id != kPingOfGrant || granted_.empty()) return;  // a sign of life only
    const wire::CacheEngineNotice notice = granted_.front();
    granted_.pop_front();
    owner_.grant_known(*this, notice);
}

void EngineLink::revoke(uint64_t handle) noexcept {
    if (link_->is_up()) link_->wrote(wire::put_handle(RecordType::kRevoke, handle, link_->room()));
}

void EngineLink::name_engine(const wire::CacheEngineNotice& notice) noexcept {
    if (link_->is_up()) link_->wrote(wire::put_engine(notice, link_->room()));
}

void EngineLink::flush_completions() noexcept {
    if (coalesced_ > 0 && link_->is_up())
        link_->wrote(wire::put_plain(RecordType::kPing, 0, 0, link_->room()));
}

void EngineLink::say_goodbye() noexcept {
    released_ = true;
    if (link_->is_up()) link_->wrote(wire::put_plain(RecordType::kGoodbye, 0, 0, link_->room()));
}

bool EngineLink::record(RecordLink&, const wire::Record& record) noexcept {
    uint64_t handle = 0;
    if (auth_ != nullptr) return prove(record);
    if (!identity_.index.exists()) return false;
    switch (record.type) {
        case RecordType::kDone:
            if (record.flags > static_cast<uint8_t>(CacheStatus::kRefused)) return false;
            return done(record, static_cast<CacheStatus>(record.flags), 0);
        case RecordType::kFailed: {
            uint32_t error = 0;
            return wire::parse_failed(record, error) == ParseError::kNone &&
                   done(record, CacheStatus::kFailed, static_cast<int>(error));
        }
        case RecordType::kVolumeState:
            return take_state(record);
        case RecordType::kVolume:
        case RecordType::kStaging:
            return take_offer(record);
        case RecordType::kEngineGone:
            if (staging_.bytes == 0 || wire::parse_handle(record, handle) != ParseError::kNone) return false;
            owner_.engine_gone(*this, handle);
            return true;
        case RecordType::kAttached:
            if (wire::parse_handle(record, handle) != ParseError::kNone) return false;
            owner_.client_attached(*this, handle);
            return true;
        case RecordType::kDetached:
            if (wire::parse_handle(record, handle) != ParseError::kNone) return false;
            owner_.client_detached(*this, handle);
            return true;
        case RecordType::kItem:
            return take_item(record);
        case RecordType::kInventoryEnd:
            return take_slots(record);
        case RecordType::kAddress: {
            std::string text;
            if (wire::parse_text(record, text) != ParseError::kNone || addresses_.size() == kAddressesMax)
                return false;
            auto address = fabric::Address::parse(text, WSS_SRP_DEFAULT_PORT);
            if (address) addresses_.push_back(std::move(*address));
            return true;
        }
        case RecordType::kReady:
            if (ready_) return false;
            ready_ = true;
            owner_.engine_ready(*this);
            return true;
        case RecordType::kLeave:
            if (std::exchange(leaving_, true)) return true;
            owner_.engine_wants_to_leave(*this);
            return true;
        case RecordType::kPong:
            pong(record.id);
            return true;
        default:
            return false;
    }
}

// The record is well-formed, but its claims exceed the peer's limits. `why` goes into the log.
bool EngineLink::violates(std::string why) noexcept {
    static log::SourceLimiter limiter(10);
    if (limiter.allow(fabric::source_of(link_->peer()))) log::warning("{}: {}", link_->peer(), why);
    close(Status(Code::kInvalid, std::move(why)));
    return true;
}

bool EngineLink::take_item(const wire::Record& record) noexcept {
    wire::CacheHeader item;
    if (ready_ || wire::parse_header(record, item) != ParseError::kNone) return false;
    if (item.slot < next_item_ || item.slot >= slots_max_)
        return violates(
            fmt::format("the cache engine's inventory has slot {} where one of {} to {} is expected",
                        item.slot, next_item_, slots_max_));
    next_item_ = uint64_t{item.slot} + 1;
    owner_.engine_item(*this, item);
    return true;
}

bool EngineLink::take_slots(const wire::Record& record) noexcept {
    if (ready_ || wire::parse_slot(record, slots_) != ParseError::kNone) return false;
    if (slots_ <= slots_max_) return true;
    return violates(fmt::format("the cache engine claims {} slots, but lends memory for {}",
                                std::exchange(slots_, 0), slots_max_));
}

// Takes the offer of real storage: a volume, or staging buffers.
bool EngineLink::take_offer(const wire::Record& record) {
    wire::CacheVolume volume;
    if (ready_ || !is_storage()) return false;
    if (record.type == RecordType::kStaging)
        return staging_.bytes == 0 && wire::parse_staging(record, staging_) == ParseError::kNone;
    if (volumes_.size() == kStorageVolumesMax || wire::parse_volume(record, volume) != ParseError::kNone)
        return false;
    volumes_.push_back(std::move(volume));
    return true;
}

bool EngineLink::take_state(const wire::Record& record) {
    wire::CacheVolumeState state;
    if (wire::parse_volume_state(record, state) != ParseError::kNone) return false;
    const bool known = std::any_of(volumes_.begin(), volumes_.end(),
                                   [&](const auto& volume) { return volume.number == state.number; });
    if (!known) return false;
    auto found = std::find_if(states_.begin(), states_.end(),
                              [&](const auto& one) { return one.number == state.number; });
    if (found == states_.end()) found = states_.emplace(found);
    *found = std::move(state);
    if (ready_) owner_.volume_state_changed(*this);
    return true;
}

const wire::CacheVolumeState* EngineLink::state_of(uint32_t number) const noexcept {
    auto found = std::find_if(states_.begin(), states_.end(),
                              [number](const auto& state) { return state.number == number; });
    return found == states_.end() ? nullptr : &*found;
}

bool EngineLink::done(const wire::Record& record, CacheStatus status, int error) noexcept {
    if (record.id >= by_id_.size() || by_id_[record.id] == nullptr) return false;
    if (status != CacheStatus::kOk && cannot_fail(*by_id_[record.id]))
        return violates("the cache engine failed an operation that cannot fail: disconnected");
    Transfer& transfer = *std::exchange(by_id_[record.id], nullptr);
    free_ids_.push_back(record.id);
    --outstanding_;
    coalesced_ -= transfer.move.coalesced;
    transfer.under_way = false;
    // This precedes `done`, which may submit more transfers: they must not overtake the queue.
    if (Transfer* next = queue_.pop_front()) send(*next);
    transfer.error = error;
    transfer.done(transfer, status);
    return true;
}

void EngineLink::link_over(RecordLink&, const Status& why) noexcept {
    over_ = true;
    // An engine whose secret is wrong leaves when it has received this target's proof.
    if (auth_ != nullptr && auth_->expects_proof())
        log_unproven(link_->peer(), auth_->name(), auth_->suspicion());
    for (Transfer*& transfer : by_id_) {
        if (transfer == nullptr) continue;
        refused_.push_back(*std::exchange(transfer, nullptr));
        --outstanding_;
    }
    refused_.splice_back(queue_);
    // SE4: the index drops the engine before its transfers end, so that a retry takes another path.
    owner_.engine_over(*this, why);
}

size_t EngineLink::turn() noexcept {
    size_t done = link_->flush();
    if (refused_.empty()) return done;
    List<Transfer> failed;
    failed.splice_back(refused_);
    while (Transfer* transfer = failed.pop_front()) {
        transfer->under_way = false;
        transfer->done(*transfer, CacheStatus::kFailed);
        ++done;
    }
    return done;
}

void EngineLink::tick(Nanoseconds now, Nanoseconds limit) noexcept {
    if (over_ || !link_->is_up()) return;
    for (Transfer* transfer : by_id_)
        if (transfer != nullptr && transfer->seen == kNever) transfer->seen = now;
    if (std::any_of(by_id_.begin(), by_id_.end(), [now](auto* transfer) { return is_late(transfer, now); }))
        return close(Status(Code::kTimedOut, "it answers pings but does not complete operations"));
    if (heard_ != link_->messages_received()) asked_since_ = kNever;
    heard_ = link_->messages_received();
    if (asked_since_ != kNever) {
        if (now - asked_since_ > limit) close(Status(Code::kTimedOut, "it does not answer"));
        return;
    }
    asked_since_ = now;
    link_->wrote(wire::put_plain(RecordType::kPing, 0, 0, link_->room()));
    link_->flush();
}

}  // namespace wss::cache
