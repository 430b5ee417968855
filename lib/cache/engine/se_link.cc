// SPDX-License-Identifier: Apache-2.0
// SeLink: joins a storage engine and rejoins it after a loss.
#include <algorithm>
#include <utility>

#include "lib/base/log.h"
#include "lib/cache/engine/engine_parts.h"
#include "lib/cache/engine/storage.h"
#include "lib/cache/header.h"
#include "lib/cache/types.h"

namespace wss::cache {

constexpr uint32_t kProbeEvery = 4;               // checks
constexpr Nanoseconds kLastReport = from_ms(50);  // time for the message to arrive
// The number of items that every full message has at least. A message is full when it has no room for a
// record of the maximum size; an item takes 80 bytes.
constexpr uint32_t kItemsPerMessage = (wire::kCacheMessageMax - RecordLink::kRecordMax) / 80;

Engine::SeLink::SeLink(Engine& engine, size_t net, fabric::Address address)
    : engine_(engine),
      net_(net),
      address_(std::move(address)),
      retry_(
          [](void* self) noexcept {
              auto& link = *static_cast<SeLink*>(self);
              link.stopping_ ? link.stop() : link.connect();
          },
          this),
      look_([](void* self) noexcept { static_cast<SeLink*>(self)->look_for_storage(); }, this) {}

Engine::SeLink::~SeLink() {
    engine_.reactor_.cancel(retry_);
    engine_.reactor_.cancel(look_);
}

Status Engine::SeLink::start(std::span<std::byte> part) {
    part_ = part;
    if (!engine_.options_.volumes.empty()) {
        auto storage = Storage::create(engine_, *this, part);
        if (!storage) return storage.status();
        storage_volumes_ = std::move(*storage);
    }
    connect();
    return Status::ok();
}

wire::CacheJoin Engine::SeLink::join() const {
    return {.engine = engine_.options_.identity,
            .memory = part_.size(),
            .incarnation = incarnation_,
            .storage = storage_,
            .is_storage = storage_volumes_ != nullptr};
}

void Engine::SeLink::connect() noexcept {
    if (stopping_) return;
    // Operations in progress may still change contents and headers (CE1). The wait also ensures that no
    // command from before the loss is in progress when the SE accepts this engine again.
    if (!is_quiet()) return retry_later();
    RecordLink::Options options;
    options.operations = wire::kCacheOperationsMax;
    // The inventory needs one more record for each slot.
    options.spill_max += static_cast<uint32_t>(part_.size() / kSubBlockBytes / kItemsPerMessage);
    auto link = RecordLink::create(*engine_.nets_[net_].fabric, options, *this);
    Status status = link.status();
    if (status) {
        link_ = std::move(*link);
        std::array<std::byte, 64> data;
        const size_t length = wire::encode_cache_join(join(), data);
        auth_.reset();
        status = link_->connect(*engine_.nets_[net_].poller, address_, {data.data(), length});
    }
    if (status) return;
    last_error_ = status.to_string();
    retry_later();
}

void Engine::SeLink::retry_later() noexcept {
    const Nanoseconds least = engine_.options_.reconnect_min;
    pause_ = std::min(std::max(least, Nanoseconds{pause_.count * 2}), engine_.options_.reconnect_max);
    engine_.reactor_.set(retry_, engine_.reactor_.clock().now() + pause_);
}

bool Engine::SeLink::link_up(RecordLink&, std::span<const std::byte> data) noexcept {
    if (wire::is_cache_prove(data)) return begin_proving(data);
    if (!engine_.options_.secret.name.empty())
        return refuse(
            "the target does not authenticate: it is not the intended target, or was started without "
            "--cache-secrets");
    return welcomed(data);
}

// Logged as an error once, and again only when the reason changes.
bool Engine::SeLink::refuse(std::string why) noexcept {
    if (refusal_ != why) log::error("{}: {}", address_.to_string(), why);
    refusal_ = why;
    refused_ = true;
    link_->close(Status(Code::kRefused, std::move(why)));
    return true;
}

bool Engine::SeLink::welcomed(std::span<const std::byte> data) noexcept {
    wire::CacheWelcome welcome;
    if (wire::parse_cache_welcome(data, welcome) != wire::ParseError::kNone)
        return refuse("the process that listens there is not a storage engine");
    // An SE can release only its own contents.
    if (storage_ != 0 && welcome.storage != storage_ && dirty_lines() > 0)
        return refuse(fmt::format(
            "this engine holds {} dirty lines of another target: start that target with its --state file and "
            "the .cache file beside it, or restart this engine, which destroys the lines",
            dirty_lines()));
    const bool keep = welcome.keep && welcome.storage == storage_ && welcome.line_bytes == line_bytes_ &&
                      welcome.incarnation == incarnation_;
    if (const uint64_t dirty = keep ? 0 : dirty_lines(); dirty > 0)
        log::warning(
            "{}: destroying the {} dirty lines of this engine: the target has recorded another incarnation "
            "of this engine, or has an older state file",
            address_.to_string(), dirty);
    if (!keep) cut(welcome);
    operations_ = std::vector<Operation>(welcome.operations);
    for (uint32_t id = 0; id < welcome.operations; ++id) {
        operations_[id].link = this;
        operations_[id].id = id;
    }
    pause_ = {};
    last_error_.clear();
    refusal_.clear();
    goodbye_received_ = false;
    if (storage_volumes_ != nullptr)
        log::info("{}: joined as its real storage", address_.to_string());
    else
        log::info("{}: joined, {} lines of {} KiB{}", address_.to_string(), slots_, line_bytes_ >> 10,
                  keep ? "; contents kept" : "");
    introduce(keep, welcome);
    silent_for_ = 0;
    received_ = link_->messages_received();
    engine_.reactor_.set(look_, engine_.reactor_.clock().now() + engine_.options_.silence);
    return true;
}

// ---- Proofs ----------------------------------------------------------------------------------------------

bool Engine::SeLink::begin_proving(std::span<const std::byte> data) noexcept {
    if (engine_.options_.secret.name.empty())
        return refuse("the target accepts only cache engines that authenticate: use --secret-file");
    auth_ = std::make_unique<wire::AuthInitiator>(engine_.options_.secret, target_name_);
    // The join is the same as in connect(): nothing changes it in between.
    std::array<std::byte, 64> sent;
    const size_t sent_length = wire::encode_cache_join(join(), sent);
    std::array<std::byte, 256> out;
    const size_t length = auth_->start(wire::padded_for_proof({sent.data(), sent_length}),
                                       wire::padded_for_proof(data), link_->channel_binding(), out);
    link_->wrote(wire::put_bytes(wire::RecordType::kAuthStart, {out.data(), length}, link_->room()));
    return true;
}

// The order of records: CHALLENGE with the SE's proof, this engine's proof, RESULT, the welcome, and then all
// others.
bool Engine::SeLink::prove(const wire::Record& record) noexcept {
    std::array<std::byte, 256> out;
    if (record.type == wire::RecordType::kAuthChallenge) {
        const auto length = auth_->take_challenge(record.body, out);
        if (!length && length.status().code() == Code::kPermission) return refuse(length.status().text());
        if (!length) return false;
        link_->wrote(wire::put_bytes(wire::RecordType::kAuthProof, {out.data(), *length}, link_->room()));
        return true;
    }
    if (record.type == wire::RecordType::kAuthResult) {
        const Status granted = auth_->take_result(record.body);
        return granted.code() == Code::kRefused ? refuse("refused: " + granted.text()) : granted.is_ok();
    }
    if (record.type != wire::RecordType::kWelcome || !auth_->is_granted()) return false;
    target_name_ = auth_->target_name();
    auth_.reset();
    return welcomed(record.body);
}

// An end that only receives does not notice that its peer has lost power. So during a silence this engine
// sends a record from time to time. Sending it fails if the peer is gone. It does not fail if the SE is
// merely slow, and then the link and the dirty data are kept.
void Engine::SeLink::look_for_storage() noexcept {
    if (!link_->is_up()) return;
    const bool silent = std::exchange(received_, link_->messages_received()) == link_->messages_received();
    silent_for_ = silent ? silent_for_ + 1 : 0;
    if (silent_for_ % kProbeEvery == 1)
        link_->wrote(wire::put_plain(wire::RecordType::kPong, 0, 0, link_->room()));
    engine_.reactor_.set(look_, engine_.reactor_.clock().now() + engine_.options_.silence);
}

// Divides the part of the arena into slots and stages of the SE's line size, and erases all headers (CE1).
void Engine::SeLink::cut(const wire::CacheWelcome& welcome) {
    storage_ = welcome.storage;
    incarnation_ = welcome.incarnation;
    line_bytes_ = welcome.line_bytes;
    const size_t lines = part_.size() / line_bytes_;
    const size_t most = std::max<size_t>(kStageMax / line_bytes_, 1);
    const bool lends = storage_volumes_ == nullptr;
    stages_ = lends ? static_cast<uint32_t>(std::clamp<size_t>(lines / 16, 1, most)) : 0;
    slots_ = lends && lines > stages_ ? static_cast<uint32_t>(lines - stages_) : 0;
    headers_.assign(slots_, HeaderBytes{});
    free_stages_.clear();
    for (uint32_t i = 0; i < stages_; ++i) free_stages_.push_back(i);
}

void Engine::SeLink::introduce(bool inventory, const wire::CacheWelcome& welcome) noexcept {
    for (const std::string& address : engine_.advertised_)
        if (size_t bytes = wire::put_text(wire::RecordType::kAddress, address, link_->room()); bytes > 0)
            link_->wrote(bytes);
    for (uint32_t slot = 0; inventory && slot < slots_; ++slot) {
        if (headers_[slot] == HeaderBytes{}) continue;
        link_->wrote(wire::put_header(wire::RecordType::kItem, 0, {slot, headers_[slot]}, link_->room()));
    }
    link_->wrote(wire::put_slot(wire::RecordType::kInventoryEnd, 0, slots_, link_->room()));
    if (storage_volumes_ != nullptr) storage_volumes_->introduce(*link_, welcome);
    link_->wrote(wire::put_plain(wire::RecordType::kReady, 0, 0, link_->room()));
    if (leaving_) request_leave();
}

void Engine::SeLink::request_leave() noexcept {
    leaving_ = true;
    if (link_ != nullptr && link_->is_up())
        link_->wrote(wire::put_plain(wire::RecordType::kLeave, 0, 0, link_->room()));
}

void Engine::SeLink::join_again() noexcept {
    if (!goodbye_received_ || stopping_ || leaving_) return;
    goodbye_received_ = false;
    pause_ = {};
    retry_later();
}

void Engine::SeLink::stop() noexcept {
    stopping_ = true;
    engine_.reactor_.cancel(retry_);
    if (link_ == nullptr) return;
    if (storage_volumes_ == nullptr || !storage_volumes_->report())
        return link_->close(Status(Code::kClosed, "the cache is shutting down"));
    link_->flush();
    engine_.reactor_.set(retry_, engine_.reactor_.clock().now() + kLastReport);
}

void Engine::SeLink::link_over(RecordLink&, const Status& why) noexcept {
    static log::Limiter limiter(2);
    last_error_ = why.to_string();
    if (auth_ != nullptr && !auth_->is_target_proven() && !refused_)
        last_error_ +=
            " (it did not answer the authentication: a target of an earlier release does not accept "
            "version 2)";
    engine_.reactor_.cancel(look_);
    if (!std::exchange(refused_, false) && !stopping_ && limiter.allow())
        log::warning("{}: {}; joining again", address_.to_string(), last_error_);
    while (Operation* operation = waiting_.pop_front()) moved(*operation, wire::CacheStatus::kFailed);
    if (storage_volumes_ != nullptr) storage_volumes_->link_over();
    revoke_all();
    if (!stopping_ && !goodbye_received_) retry_later();
}

void Engine::SeLink::revoke_all() noexcept {
    std::erase_if(engine_.grants_, [this](const auto& item) {
        Grant& grant = *item.second;
        if (grant.link != this) return false;
        if (grant.client != nullptr) grant.client->close();
        return true;
    });
}

EngineStorageInfo Engine::SeLink::info() const {
    EngineStorageInfo info{.address = address_.to_string(),
                           .up = link_ != nullptr && link_->is_up(),
                           .storage = storage_,
                           .line_bytes = line_bytes_,
                           .slots = slots_,
                           .clients = clients_,
                           .last_error = last_error_};
    for (const HeaderBytes& header : headers_) info.used_slots += header != HeaderBytes{};
    return info;
}

uint64_t Engine::SeLink::dirty_lines() const noexcept {
    uint64_t lines = 0;
    for (const HeaderBytes& header : headers_) lines += !parse_header(header).header.dirty.empty();
    return lines;
}

}  // namespace wss::cache
