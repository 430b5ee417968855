// SPDX-License-Identifier: Apache-2.0
#include "target/block/worker.h"

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "target/block/reserve.h"
#include "target/block/service.h"

namespace wss::block {

AbortJob* AbortJob::join(AbortJob* present, AbortJob& joining) {
    joining.left.fetch_add(1, std::memory_order_relaxed);
    if (present == nullptr) return &joining;
    // The follower's `left` already counts this command. From now on that count stands for the leader, and is
    // decremented when the leader ends.
    AbortJob& leader = joining.rank > present->rank ? joining : *present;
    AbortJob& follower = joining.rank > present->rank ? *present : joining;
    std::lock_guard guard(leader.lock);
    leader.followers.push_back(&follower);
    return &leader;
}

bool AbortJob::concerns(const ChannelRecord& record) const {
    if (victims.empty()) return everybodys || record.session_id == requester->session_id;
    return std::ranges::find(victims, registrant_of(record)) != victims.end();
}

void AbortJob::drop() noexcept {
    if (left.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    for (AbortJob* follower : followers) follower->drop();
    home.reactor().post([this] {
        if (requester->channel != nullptr) requester->channel->tasks_aborted(slot);
        delete this;
    });
}

// --- Lane ---

Result<std::unique_ptr<Lane>> Lane::create(Worker& worker, fabric::Fabric& fabric, size_t index,
                                           size_t arena_bytes) {
    std::unique_ptr<Lane> lane(new Lane(worker, fabric, index));
    auto poller = fabric.create_poller();
    if (!poller) return poller.status().within("a completion queue of the block service");
    lane->poller_ = std::move(*poller);
    auto arena = Arena::create(fabric, arena_bytes);
    if (!arena) return arena.status();
    lane->arena_ = std::move(*arena);
    if (cache::Cache* cache = worker.service().cache()) WSS_TRY(lane->register_with(*cache));
    return lane;
}

Status Lane::register_with(cache::Cache& cache) {
    for (Part part : {Part::kSmall, Part::kLarge}) {
        auto regions = cache.register_buffers(arena_->pool(part).memory());
        if (!regions) return regions.status();
        cache_regions_[static_cast<size_t>(part)] = std::move(*regions);
    }
    return Status::ok();
}

Lane::~Lane() {
    WSS_ASSERT(channels_.empty(), "every channel is gone before its lane");
}

void Lane::open_channel(std::shared_ptr<ChannelRecord> record,
                        std::unique_ptr<fabric::ConnectRequest> request,
                        std::span<const std::byte> accept_data, uint64_t login_tag) {
    auto channel = std::make_unique<Channel>(*this, record);
    const Status status = channel->open(*request, accept_data);
    if (status) {
        ++channel_count_;
        channels_.push_back(*channel.release());
        return;
    }
    channel.reset();
    static log::SourceLimiter limiter(10);
    if (limiter.allow(record->source))
        log::warning("{}: cannot serve a channel: {}", record->peer, status.to_string());
    wire::LoginReject reject;
    reject.tag = login_tag;
    reject.reason = WSS_SRP_REJ_INSUFFICIENT_RESOURCES;
    reject.set_text(status.to_string());
    std::array<std::byte, sizeof(wss_srp_login_rej)> bytes;
    request->reject({bytes.data(), wire::encode_login_reject(reject, bytes)});
    worker_.service().control_reactor().post(
        [&service = worker_.service(), record] { service.sessions().channel_gone(record); });
}

void Lane::mark_dirty(Channel& channel) noexcept {
    if (!static_cast<ListNode<Lane>&>(channel).linked()) dirty_.push_back(channel);
}

std::shared_ptr<InitiatorShare> Lane::initiator_share(const ChannelRecord& record) {
    const bool proven = record.terms.authenticate();
    Channel* sibling = channels_.find_if([&](Channel& each) {
        if (each.share() == nullptr || each.record().terms.authenticate() != proven) return false;
        return proven ? each.record().name == record.name : each.record().source == record.source;
    });
    return sibling != nullptr ? sibling->share() : std::make_shared<InitiatorShare>();
}

void Lane::reap() noexcept {
    channels_.for_each([this](Channel& channel) {
        if (!channel.dead()) return;
        static_cast<ListNode<Channel>&>(channel).unlink();
        static_cast<ListNode<Lane>&>(channel).unlink();
        --channel_count_;
        auto record = channel.shared_record();
        delete &channel;
        worker_.service().control_reactor().post(
            [&service = worker_.service(), record] { service.sessions().channel_gone(record); });
    });
    deaths_ = 0;
}

size_t Lane::turn() noexcept {
    size_t done = arena_->serve(
        [](Request& request) { return request.channel->account_of(request); },
        [](Request& request, std::byte* block) { request.channel->buffer_offered(request, block); });
    // Channels that flush() marks dirty again wait for the next turn.
    List<Channel, Lane> now;
    now.splice_back(dirty_);
    while (Channel* channel = now.pop_front()) done += channel->flush();
    if (deaths_ > 0) reap();
    return done;
}

// --- Worker ---

Worker::Worker(Service& service, size_t index, reactor::Reactor& reactor, volume::VolumeTable& table,
               cache::Gateway* gateway)
    : service_(service),
      index_(index),
      reactor_(reactor),
      table_(table),
      gateway_(gateway),
      units_(reactor, service.reservations()) {}

Result<std::unique_ptr<Worker>> Worker::create(Service& service, size_t index, reactor::Reactor& reactor,
                                               volume::VolumeTable& table,
                                               const std::vector<fabric::Fabric*>& fabrics,
                                               const Options& options) {
    std::unique_ptr<Worker> worker(new Worker(service, index, reactor, table, options.gateway));
    for (size_t i = 0; i < fabrics.size(); ++i) {
        auto lane = Lane::create(*worker, *fabrics[i], i, options.arena_bytes);
        if (!lane) return lane.status();
        worker->lanes_.push_back(std::move(*lane));
        reactor.add(worker->lanes_.back()->poller());
    }
    // Move the table after the pollers, so that arriving commands reach storage in the same turn.
    reactor.remove(table);
    reactor.add(table);
    if (cache::Cache* cache = worker->own_cache()) cache->take_place();
    reactor.add(*worker);
    table.add_observer(*worker);
    table.for_each([&](volume::OpenVolume& volume) { worker->units_.add(volume); });
    return worker;
}

Worker::~Worker() {
    table_.remove_observer(*this);
    reactor_.remove(*this);
    for (auto& lane : lanes_) reactor_.remove(lane->poller());
}

size_t Worker::poll() noexcept {
    size_t done = cache_queue_.serve(
        [this](Request& request) {
            const auto& share = request.channel->nexus_of(request).commands;
            return gateway_->take_command(*request.unit->cached, request.unit->cached_commands, share);
        },
        [](Request& request, cache::CacheCommand* command) {
            request.channel->command_offered(request, *command);
        });
    answer_time_ = kNever;
    for (auto& lane : lanes_) done += lane->turn();
    return done;
}

cache::Cache* Worker::own_cache() noexcept {
    return gateway_ != nullptr && gateway_->is_home() ? service_.cache() : nullptr;
}

Status Worker::may_open(const volume::Volume& volume) {
    const cache::Cache* cache = own_cache();
    return cache == nullptr ? Status::ok() : cache->may_open(volume);
}

// The cache's reactor adds a volume before the others do (TV4), and offers it to them.
void Worker::add_unit(volume::OpenVolume& volume) {
    Unit& unit = units_.add(volume);
    if (gateway_ == nullptr) return;
    std::shared_ptr<cache::VolumeUse> use;
    if (cache::Cache* cache = own_cache()) {
        unit.cached = cache->add_volume(volume);
        if (unit.cached == nullptr) return;
        unit.cached_place = unit.cached->gate.enter();
        unit.cached->waiters.push_back(&unit.awaiting);
        service_.offer(*unit.cached);
    } else {
        use = gateway_->join(volume.volume().wwid(), unit.awaiting);
        if (use == nullptr) return;
        unit.cached = &use->volume;
    }
    unit.awaiting.begin(*gateway_, *unit.cached, std::move(use));
    // Engines keep data in volatile memory.
    unit.device.volatile_cache = true;
}

void Worker::volume_changed(volume::Change change, volume::OpenVolume& volume) noexcept {
    if (change == volume::Change::kAdded) add_unit(volume);
    Unit* const cached = own_cache() != nullptr ? units_.find(volume.volume().lun()) : nullptr;
    if (cached != nullptr && cached->cached != nullptr) {
        if (change == volume::Change::kResized) service_.cache()->volume_grew(*cached->cached);
        if (change == volume::Change::kRemoved) service_.cache()->remove_volume(*cached->cached);
    }
    for (auto& lane : lanes_)
        lane->for_each_channel([&](Channel& channel) { channel.volume_changed(change, volume); });
    Unit* unit = units_.find(volume.volume().lun());
    if (unit != nullptr && change == volume::Change::kLimits) unit->throttle.limits_changed();
    if (change != volume::Change::kRemoved) return;
    if (unit != nullptr) unit->throttle.end_all();
    if (index_ == 0 && !volume.reopening()) service_.reservations().forget(volume.volume().wwid());
    units_.remove(volume);
}

void Worker::volume_shrinks(volume::OpenVolume& volume, std::shared_ptr<volume::Shrink> shrink) noexcept {
    Unit* unit = units_.find(volume.volume().lun());
    if (unit == nullptr) return shrink->done();
    // An outstanding write beyond the new end would extend a file again.
    auto mark = [end = shrink->bytes()](Request& request) {
        if (request.range.end <= end || request.action.kind == scsi::Action::Kind::kUnmap) return false;
        return !std::exchange(request.beyond, true);
    };
    for (auto& lane : lanes_)
        lane->for_each_channel([&](Channel& channel) { unit->beyond += channel.mark_changes(*unit, mark); });
    unit->shrinks.push_back(std::move(shrink));
    if (unit->beyond == 0) end_shrinks(*unit);
}

// The rights of the channels are already up to date.
void Worker::volume_fences(volume::OpenVolume& volume, std::shared_ptr<volume::WriteFence> fence) noexcept {
    Unit* unit = units_.find(volume.volume().lun());
    if (unit != nullptr) fence_writes(*unit, fence);
}

void Worker::fence_writes(Unit& unit, const std::shared_ptr<volume::WriteFence>& fence) {
    auto mark = [&](Request& request) {
        request.fences.emplace_back(fence);
        return true;
    };
    for (auto& lane : lanes_)
        lane->for_each_channel([&](Channel& channel) {
            if (!channel.rights().may_write(unit)) channel.mark_changes(unit, mark);
        });
    // The rights of initiators that are gone are unknown: fence all their writes.
    if (unit.cached != nullptr) gateway_->fence_abandoned(*unit.cached, fence);
}

void Worker::reservations_changed(const ReserveJob& job, const std::shared_ptr<volume::WriteFence>& fence) {
    Unit* unit = units_.find(job.lun);
    if (unit == nullptr || unit->open->volume().wwid() != job.wwid) return;
    // The book may have changed again since the change of `job`.
    unit->reservations = service_.reservations().find(job.wwid);
    for (auto& lane : lanes_)
        lane->for_each_channel([&](Channel& channel) { channel.reservations_changed(*unit, *job.now); });
    if (job.result.fences) fence_writes(*unit, fence);
}

void Worker::volume_reopens(volume::OpenVolume& volume,
                            std::shared_ptr<volume::Reopening> reopening) noexcept {
    cache::Cache* const cache = own_cache();
    Unit* unit = units_.find(volume.volume().lun());
    if (cache == nullptr || unit == nullptr || unit->cached == nullptr) return reopening->end(Status::ok());
    cache->reopen_volume(*unit->cached, std::move(reopening));
}

void Worker::beyond_ended(Unit& unit) noexcept {
    if (--unit.beyond == 0) end_shrinks(unit);
}

void Worker::end_shrinks(Unit& unit) noexcept {
    cache::Cache* const cache = unit.cached != nullptr ? own_cache() : nullptr;
    for (auto& shrink : std::exchange(unit.shrinks, {})) {
        if (cache == nullptr)
            shrink->done();
        else if (!unit.cached->removed())
            cache->shrink_volume(*unit.cached, std::move(shrink));
    }
}

void Worker::abort_tasks(AbortJob& job) noexcept {
    for (auto& lane : lanes_)
        lane->for_each_channel([&](Channel& channel) {
            if (job.concerns(channel.record())) channel.abort_tasks(job);
        });
    if (gateway_ != nullptr) gateway_->end_cancelled();
    job.drop();
}

// --- Range locks ---

void Worker::hold_range(uint64_t lock_id, uint64_t lun, ByteRange range) {
    HeldRange& held = holds_[lock_id];
    held.hold.lock_id = lock_id;
    held.hold.range = range;
    held.unit = units_.find(lun);
    if (held.unit != nullptr) {
        held.unit->holds.push_back(held.hold);
        held.unit->writers.for_each([&](Request& writer) {
            if (writer.range.overlaps(range)) ++held.hold.writers_left;
        });
    }
    if (held.hold.writers_left == 0) hold_is_quiet(lock_id);
}

void Worker::hold_is_quiet(uint64_t lock_id) noexcept {
    service_.control_reactor().post([&service = service_, lock_id] { service.range_locks().quiet(lock_id); });
}

void Worker::writer_ended(Unit& unit, const ByteRange& range) noexcept {
    unit.holds.for_each([&](Hold& hold) {
        // writers_left is 0 if no writer had begun when the hold started. Later writers wait for its end.
        if (hold.writers_left > 0 && hold.range.overlaps(range) && --hold.writers_left == 0)
            hold_is_quiet(hold.lock_id);
    });
}

void Worker::lift_hold(uint64_t lock_id) noexcept {
    auto found = holds_.find(lock_id);
    if (found == holds_.end()) return;
    // A destroyed unit has unlinked the hold.
    Unit* unit = found->second.hold.linked() ? found->second.unit : nullptr;
    found->second.hold.unlink();
    holds_.erase(found);
    if (unit == nullptr) return;
    // All writes try again. Those that overlap another hold return to the list, in the same order.
    List<Request> retry;
    retry.splice_back(unit->held);
    while (Request* request = retry.pop_front()) request->channel->hold_lifted(*request);
}

}  // namespace wss::block
