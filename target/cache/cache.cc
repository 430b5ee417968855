// SPDX-License-Identifier: Apache-2.0
// Cache: life, volumes, policies, freezing, time.
#include "target/cache/cache.h"

#include <algorithm>
#include <cstring>

#include "lib/base/log.h"
#include "target/cache/destage.h"
#include "target/cache/direct.h"

namespace wss::se {

using cache::Policy;

constexpr Nanoseconds kTick = from_ms(100);
constexpr Nanoseconds kLastSaveMax = from_s(2);  // of the membership, at the end

// A listener for engines, and which net it stands on.
class Cache::Port final : public fabric::ListenHandler {
  public:
    Port(Cache& cache, size_t net) : cache_(cache), net_(net) {}
    Result<fabric::Address> open(const fabric::Address& address) {
        auto listener = cache_.nets_[net_].poller->listen(address, *this);
        if (!listener) return listener.status();
        listener_ = std::move(*listener);
        return listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        cache_.engine_requested(net_, std::move(request));
    }

  private:
    Cache& cache_;
    const size_t net_;
    std::unique_ptr<fabric::Listener> listener_;
};

Cache::Cache(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
             std::unique_ptr<MembershipStore> store, const CacheOptions& options)
    : reactor_(reactor),
      random_(random),
      nets_(std::move(nets)),
      schemes_(nets_.size(), fabric::Scheme::kTcp),
      store_(std::move(store)),
      options_(options),
      timer_(&Cache::tick, this) {}

Cache::~Cache() {
    reactor_.cancel(timer_);
    reactor_.remove(*this);
    // A target may end while commands wait for a recovery or for stable storage.
    after_saving_.clear();
    for (auto& work : works_) work->place.release();
}

Result<std::unique_ptr<Cache>> Cache::create(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
                                             std::unique_ptr<MembershipStore> store,
                                             const CacheOptions& options) {
    std::unique_ptr<Cache> made(new Cache(reactor, random, std::move(nets), std::move(store), options));
    if (Status status = made->prepare(); !status) return status;
    return made;
}

// Dirty lines are found after a restart only by what the membership remembers of them.
Status Cache::check_stable(const cache::PolicySettings& settings) const {
    if (settings.policy != Policy::kBack || store_->is_stable() || settings.unsafe) return Status::ok();
    return failure(Code::kRefused,
                   "write-back needs a state file (--state), so that dirty lines are found after a restart; "
                   "or ask for 'unsafe'");
}

Status Cache::load_membership() {
    auto text = store_->load();
    if (!text || text->empty()) return text.status();
    auto membership = Membership::parse(*text);
    if (membership) membership_ = std::move(*membership);
    return membership.status();
}

Status Cache::prepare() {
    if (Status allowed = check_stable(options_.default_policy); !allowed) return allowed;
    auto geometry = cache::LineGeometry::of(options_.line_bytes);
    if (!geometry) return geometry.status();
    geometry_ = *geometry;
    lines_per_work_ = kCommandBytesMax / options_.line_bytes + 1;
    index_ = std::make_unique<cache::Index>(
        cache::IndexOptions{.geometry = geometry_, .transient_lines = 4096 + lines_per_work_});
    for (uint32_t i = 0; i < options_.works; ++i) {
        auto work = std::make_unique<Work>();
        work->cache = this;
        work->lines = std::make_unique<LineWork[]>(lines_per_work_);
        free_works_.push_back(*work);
        works_.push_back(std::move(work));
    }
    free_works_count_ = options_.works;
    // Behind the buffers there is a piece of zeroes (shrink.cc).
    const size_t bytes = size_t{options_.destages} * options_.line_bytes + cache::kPieceBytes;
    destage_memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
    zeroes_ = destage_memory_.get() + bytes - cache::kPieceBytes;
    std::memset(zeroes_, 0, cache::kPieceBytes);
    auto regions = register_buffers({destage_memory_.get(), bytes});
    if (!regions) return regions.status();
    destage_regions_ = std::move(*regions);
    for (uint32_t i = 0; i < options_.destages; ++i) {
        destages_.push_back(std::make_unique<Destage>());
        destages_.back()->cache = this;
        destages_.back()->buffer = destage_memory_.get() + size_t{i} * options_.line_bytes;
    }
    auto prefetch = Prefetch::create(*this, geometry_);
    if (!prefetch) return prefetch.status();
    prefetch_ = std::move(*prefetch);
    WSS_TRY(load_membership().within("the cache's membership"));
    while (membership_.storage == 0) membership_.storage = random_.next();
    recovering_ = holding_ = !membership_.dirty.empty() && !membership_.engines.empty();
    needs_all_ = membership_.degraded;
    if ((recovering_ || !membership_.lost.empty()) && membership_.line_bytes != options_.line_bytes)
        return failure(Code::kInvalid,
                       "cache engines hold dirty lines of {} bytes: start with this line size until they "
                       "are in real storage",
                       membership_.line_bytes);
    if (recovering_) awaited_ = membership_.engines;
    index_->hold_placement(recovering_);
    saved_engines_ = membership_.engines;
    saved_engines_.insert(membership_.away.begin(), membership_.away.end());
    membership_.engines.clear();
    membership_.line_bytes = options_.line_bytes;
    // What awaited engines hold counts until recovery is over: they stay members on stable storage.
    if (!recovering_) save_membership();
    recovery_began_ = reactor_.clock().now();
    reactor_.add(*this);
    reactor_.set(timer_, reactor_.clock().now() + kTick);
    return Status::ok();
}

Result<std::unique_ptr<BufferRegions>> Cache::register_buffers(std::span<std::byte> memory) {
    std::vector<fabric::Fabric*> fabrics;
    for (const Net& net : nets_) fabrics.push_back(net.fabric);
    return BufferRegions::make(memory, fabrics);
}

Result<fabric::Address> Cache::listen(size_t net, const fabric::Address& address) {
    auto port = std::make_unique<Port>(*this, net);
    auto bound = port->open(address);
    if (bound) ports_.push_back(std::move(port));
    if (bound) schemes_[net] = address.scheme;
    return bound;
}

void Cache::on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    engine_requested(0, std::move(request));
}

void Cache::take_place() noexcept {
    reactor_.remove(*this);
    reactor_.add(*this);
    for (const Net& net : nets_) {
        reactor_.remove(*net.poller);
        reactor_.add(*net.poller);
    }
}

size_t Cache::poll() noexcept {
    size_t done = std::exchange(wants_turn_, false) ? 1 : 0;
    if (std::exchange(salvage_due_, false)) salvage();
    if (looking_) look();
    if (holding_ && !recovering_) resume_after_recovery();
    serve_granted();
    auto turn_links = [this] {
        size_t sent = 0;
        for (size_t i = 0; i < links_end_; ++i)
            if (links_[i] != nullptr) sent += links_[i]->turn();
        for (auto& one : lobby_) sent += one.engine->turn();
        return sent;
    };
    done += turn_links();
    for (auto& engine : old_links_) done += engine->turn();
    if (!old_links_.empty())
        done += std::erase_if(old_links_, [](const auto& engine) { return engine->is_over(); });
    if (std::exchange(volumes_gone_, false)) free_gone_volumes();
    if (!erases_.empty()) std::erase_if(erases_, [](const auto& erase) { return erase->over; });
    if (!dropped_.empty()) free_dropped();
    done += prefetch_->turn();
    if (done > 0 || !granted_.empty()) {
        serve_granted();
        done += turn_links();
    }
    check_stopped();
    return done;
}

void Cache::tick(void* self) noexcept {
    Cache& cache = *static_cast<Cache*>(self);
    const Nanoseconds now = cache.reactor_.clock().now();
    for (size_t i = 0; i < cache.links_end_; ++i)
        if (cache.links_[i] != nullptr) cache.links_[i]->tick(now, cache.options_.silence_max);
    cache.clear_lobby();
    cache.destage_tick();
    if (cache.recovering_) cache.check_recovery();
    cache.check_leaving();
    cache.look_again();
    cache.attach_again();
    cache.invite_anew();
    cache.wants_turn_ = true;
    cache.reactor_.set(cache.timer_, now + kTick);
}

// ---- Volumes ---------------------------------------------------------------------------------------------

CachedVolume* Cache::add_volume(volume::OpenVolume& open) {
    if (!open.volume().memory().empty()) return nullptr;  // RAM needs no cache
    const uint64_t wwid = open.volume().wwid();
    auto lines = absent_.extract(wwid);
    const uint32_t number = lines ? lines.mapped() : free_number();
    volumes_[number] = std::make_unique<CachedVolume>();
    CachedVolume& volume = *volumes_[number];
    volume.cache = this;
    volume.number = number;
    volume.wwid = wwid;
    volume.open = &open;
    volume.opened = reactor_.now();
    volume.remote = dynamic_cast<RemoteQueue*>(&open.queue());
    for (auto& engine : links_)
        if (engine != nullptr && engine->is_ready() && engine->is_storage()) attach_storage(volume, *engine);
    volume.planner = std::make_unique<cache::DestagePlanner>(options_.destage);
    volume.ahead = std::make_unique<cache::ReadAhead>(options_.read_ahead);
    auto remembered = membership_.policies.find(wwid);
    volume.settings = remembered != membership_.policies.end() ? remembered->second : options_.default_policy;
    index_->add_volume(volume.number);
    // Whether a flush has failed for it before the restart is not known.
    volume.loss_told = !membership_.lost.any_of(wwid);
    volume.fail_next_flush = membership_.given_up.contains(wwid);
    // What was found of it has one copy.
    if (membership_.degraded) volume.planner->want(degraded_mark_);
    note_dirty(volume, membership_.dirty.contains(wwid) || may_write_back(volume));
    if (open.volume().shrinking()) shrink_volume(volume, nullptr);
    return &volume;
}

void Cache::volume_grew(CachedVolume& volume) {
    auto known = membership_.dirty.find(volume.open->volume().wwid());
    const bool grew = known == membership_.dirty.end() || known->second.bytes <= volume.open->volume().size();
    // Of a shrink it is said when nothing is left beyond its end.
    if (grew) note_dirty(volume, volume.may_be_dirty);
}

void Cache::remove_volume(CachedVolume& volume) {
    volume.removal = volume.gate.enter();
    volume.gate.close([this, &volume] {
        // What is not home at the end stays in the engines, and its volume here.
        if (stopping_) return;
        volume.gone = volumes_gone_ = wants_turn_ = true;
    });
    prefetch_->forget(volume);
    refuse_waiting(volume);
    if (stopping_) return volume.removal.release();
    note_dirty(volume, false);
    // What was set for it, and what was given up of it, is that of the volume that follows.
    if (!volume.open->reopening()) {
        if (membership_.policies.erase(volume.open->volume().wwid()) > 0) save_membership();
        forget_lost(volume.open->volume().wwid());
        told_of_loss(volume);
    }
    hurry();
    // Whoever removes it forgets it when `open` has no users: not before a restart would.
    volume.open->hold();
    volume.gate.when_quiet([this, &volume] {
        when_recorded([this, &volume, open = volume.open] {
            wipe_lines(volume.number, volume.removal);
            volume.removal.release();
            open->release();
        });
    });
}

// Who has not begun does not begin; who waits for what may never come (recovery, stable storage) waits no
// longer. What is under way ends with its engines and its storage.
void Cache::refuse_waiting(CachedVolume& volume) noexcept {
    while (Work* work = volume.gate.next_held()) {
        volume.open->release();
        refuse(*work);
    }
    for (auto& flush : std::exchange(volume.flushes, {})) flush.done(ENXIO);
    if (LostWaiters* waiters = std::exchange(volume.waiters, nullptr)) {
        size_t all = SIZE_MAX;
        waiters->look_due();
        waiters->look(all);
    }
    run_postponed(after_recovery_, &volume);
    run_postponed(after_saving_, &volume);
    List<Work> others, refused;
    while (Work* work = unacknowledged_.pop_front())
        (work->volume == &volume ? refused : others).push_back(*work);
    unacknowledged_.splice_back(others);
    while (Work* work = refused.pop_front())
        end(*work, {.kind = Ending::Kind::kStorageFailed,
                    .error = ENXIO,
                    .io_op = io::Op::kWrite,
                    .offset = work->offset});
}

// Not from within the last user's call, which may still look at the volume.
void Cache::free_gone_volumes() {
    for (auto& volume : volumes_) {
        if (volume == nullptr || !volume->gone) continue;
        const Status removed = index_->remove_volume(volume->number);
        WSS_ASSERT(removed, "the lines of a removed volume are erased before it is freed");
        volume.reset();
    }
}

CachedVolume* Cache::find_volume(const std::string& name) {
    for (auto& volume : volumes_)
        if (volume != nullptr && !volume->removed() && volume->open->volume().name() == name)
            return volume.get();
    return nullptr;
}

// ---- Policies --------------------------------------------------------------------------------------------

void Cache::set_policy(const std::string& name, const cache::PolicySettings& settings,
                       std::function<void(Status)> done) {
    CachedVolume* volume = find_volume(name);
    if (volume == nullptr)
        return done(failure(Code::kNotFound, "there is no volume {} that can have a cache", name));
    if (Status allowed = cache::check_policy(settings, index_->placeable_engines()); !allowed)
        return done(allowed);
    if (Status allowed = check_stable(settings); !allowed) return done(allowed);
    if (holding_) return done(failure(Code::kBusy, "dirty lines are being recovered; try again"));
    auto change_now = [this, volume, settings, done = std::move(done)](int error) {
        if (error != 0 || volume->removed()) {
            const bool removed = volume->removed();
            thaw(*volume);
            return done(
                removed ? failure(Code::kNotFound, "the volume is gone")
                        : Status::from_errno(error, "dirty lines cannot be brought home; the policy stays"));
        }
        if (cache::forgets_lines(volume->settings.policy, settings.policy))
            drop_lines(*volume, 0, UINT64_MAX);
        volume->settings = settings;
        membership_.policies[volume->open->volume().wwid()] = settings;
        note_dirty(*volume, may_write_back(*volume));
        save_membership();
        thaw(*volume);
        done(Status::ok());
    };
    const bool frozen = freeze(*volume, 0, 0, std::move(change_now), Asker::kOperator);
    WSS_ASSERT(frozen, "who is found is not being removed");
}

void Cache::drain(const std::string& name, std::function<void(Status)> done) {
    auto left = std::make_shared<uint32_t>(1);
    auto failed = std::make_shared<int>(0);
    auto one = [left, failed, done = std::move(done)](int error) {
        if (error != 0) *failed = error;
        if (--*left > 0) return;
        done(*failed == 0 ? Status::ok() : Status::from_errno(*failed, "dirty lines are left in the cache"));
    };
    bool found = name.empty();
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed()) continue;
        if (!name.empty() && volume->open->volume().name() != name) continue;
        found = true;
        ++*left;
        flush(*volume, one, Asker::kOperator);
    }
    one(found ? 0 : ENOENT);
}

// ---- The end ---------------------------------------------------------------------------------------------

// Storage that hangs or a state that cannot be saved may keep dirty lines from home for ever: what is left at
// the end of the time stays in the engines, and the membership says so.
void Cache::stop(Nanoseconds home_max, std::function<void(Status)> done) {
    stopping_ = true;
    stopped_ = std::move(done);
    stop_until_ = reactor_.clock().now() + home_max;
    ports_.clear();
    clear_lobby();
    end_waits();
    drain("", [this](const Status& drained) { leave_engines(drained); });
}

void Cache::leave_engines(Status home) {
    if (home_) return;
    home_ = std::move(home);
    // An orderly end with nothing dirty: nobody has to be waited for at the next start. During a recovery it
    // is not known what engines hold of volumes that are not open.
    const bool clean = *home_ && !holding_ && !has_absent_lines();
    if (clean) {
        membership_.degraded = false;
        std::erase_if(membership_.dirty,
                      [this](const auto& known) { return !membership_.lost.any_of(known.first); });
    }
    for (auto& engine : links_)
        if (engine != nullptr) {
            if (clean) membership_.engines.erase(engine->identity().identity);
            engine->close(Status(Code::kClosed, "the target is shutting down"));
        }
    stop_until_ = reactor_.clock().now() + kLastSaveMax;
    save_membership();
    wants_turn_ = true;
}

void Cache::check_stopped() {
    if (!stopped_) return;
    const Nanoseconds now = reactor_.clock().now();
    if (!home_ && now >= stop_until_)
        leave_engines(failure(Code::kTimedOut,
                              "dirty lines could not be brought home in time; they stay in the engines"));
    if (!home_ || !old_links_.empty() || !lobby_.empty()) return;
    for (auto& engine : links_)
        if (engine != nullptr) return;
    // Without it the next start waits for engines that it need not wait for, and nothing worse.
    if (membership_pending() && now < stop_until_) return;
    std::exchange(stopped_, nullptr)(*home_);
}

// ---- Looking ---------------------------------------------------------------------------------------------

uint64_t Cache::lost_bytes(const volume::Volume& volume) const {
    return membership_.lost.is_whole(volume.wwid())
               ? volume.size()
               : membership_.lost.pieces_of(volume.wwid()) * cache::kPieceBytes;
}

Nanoseconds Cache::lost_for(const CachedVolume& volume) const {
    const Nanoseconds since = membership_.lost.since(volume.wwid);
    return since == kNever ? Nanoseconds{} : reactor_.now() - std::max(since, volume.opened);
}

Nanoseconds Cache::age_of_dirty(const CachedVolume& volume) {
    const Nanoseconds now = reactor_.clock().now(), since = index_->dirty_since(volume.number);
    return since == kNever ? Nanoseconds{} : now - std::max(since, recovery_began_);
}

CacheInfo Cache::info() {
    CacheInfo info{.line_bytes = geometry_.line_bytes(),
                   .recovering = holding_,
                   .awaited = static_cast<uint32_t>(awaited_.size()),
                   .away = static_cast<uint32_t>(membership_.away.size()),
                   .lost_grace = options_.lost_grace,
                   .salvage_checks = salvage_checks_,
                   .waiting_checks = waiting_checks_,
                   .index = index_->counters(),
                   .capacity_lines = index_->capacity_lines()};
    for (auto& engine : links_) {
        if (engine == nullptr) continue;
        EngineInfo& one = info.engines.emplace_back();
        one.index = engine->index().value;
        one.identity = engine->identity().identity;
        one.peer = engine->peer();
        for (const auto& address : engine->addresses()) one.addresses.push_back(address.to_string());
        one.slots = engine->slots();
        const bool joined = index_->has_engine(engine->index());
        one.used_slots = joined ? index_->used_slots(engine->index()) : 0;
        one.dirty_lines = index_->dirty_lines_on(engine->index());
        one.bytes_to_clients = engine->bytes_to_clients();
        one.state = !engine->is_ready()           ? "joining"
                    : engine->is_storage()        ? "storage"
                    : engine->identity().returned ? "returned"
                    : engine->leaving()           ? "leaving"
                                                  : "live";
        for (const auto& client : clients_) {
            const bool attached = client->engines[engine->index().value].attached;
            one.clients += attached && !client->is_storage;
            one.reached = one.reached || (attached && client->is_storage);
        }
    }
    for (auto& volume : volumes_) {
        if (volume == nullptr || volume->removed()) continue;
        const volume::Volume& open = volume->open->volume();
        info.volumes.push_back({.name = open.name(),
                                .settings = volume->settings,
                                .dirty_lines = index_->dirty_lines(volume->number),
                                .lost_bytes = lost_bytes(open),
                                .waiting = volume->waiters == nullptr ? 0 : volume->waiters->count(),
                                .lost_for = lost_for(*volume),
                                .oldest_dirty = age_of_dirty(*volume),
                                .frozen = volume->gate.frozen(),
                                .last_error = volume->last_error,
                                .counters = volume->counters});
    }
    list_absent(info);
    return info;
}

}  // namespace wss::se
