// SPDX-License-Identifier: Apache-2.0
#include "target/cache/gateway.h"

#include <algorithm>
#include <utility>

namespace wss::cache {

namespace {

// The sink of a client on another reactor.
class PostedSink final : public ClientSink {
  public:
    PostedSink(reactor::Reactor& reactor, Gateway::Notify notify)
        : reactor_(reactor), notify_(std::move(notify)) {}
    void notify(const wire::CacheEngineNotice& notice) noexcept override {
        reactor_.post([notify = notify_, notice] { notify(notice); });
    }

  private:
    reactor::Reactor& reactor_;
    const Gateway::Notify notify_;
};

// The sink of a client on the home reactor.
class DirectSink final : public ClientSink {
  public:
    explicit DirectSink(Gateway::Notify notify) : notify_(std::move(notify)) {}
    void notify(const wire::CacheEngineNotice& notice) noexcept override { notify_(notice); }

  private:
    const Gateway::Notify notify_;
};

}  // namespace

void VolumeUse::look_due() noexcept {
    reactor.post([self = shared_from_this()] {
        if (self->user != nullptr) self->user->look_due();
    });
}

Gateway::Gateway(Cache& cache, reactor::Reactor& reactor)
    : cache_(cache), datapath_(cache.datapath()), home_(cache.reactor()), reactor_(reactor) {}

Result<std::unique_ptr<Gateway>> Gateway::create(Cache& cache, reactor::Reactor& reactor) {
    std::unique_ptr<Gateway> made(new Gateway(cache, reactor));
    if (&made->home_ == &reactor) return made;
    made->pool_ = &made->datapath_.make_pool(*made);
    const size_t commands = made->pool_->size();
    made->to_cache_ = std::make_unique<reactor::MessageRing<ToCache>>(commands, take_step, made.get());
    // A notice of the delegation may be in transit together with the answer.
    made->from_cache_ =
        std::make_unique<reactor::MessageRing<FromCache>>(2 * commands, take_event, made.get());
    WSS_TRY(made->to_cache_->ready());
    WSS_TRY(made->from_cache_->ready());
    made->home_.add(*made->to_cache_);
    reactor.add(*made->from_cache_);
    return made;
}

Gateway::~Gateway() {
    if (is_home()) return;
    home_.remove(*to_cache_);
    reactor_.remove(*from_cache_);
    for (const auto& use : uses_) use->place.release();
}

void Gateway::post(std::function<void()> task) {
    home_.post([this, task = std::move(task)] {
        to_cache_->poll();  // GW3
        task();
    });
}

// ---- Commands, on the owner's reactor --------------------------------------------------------------------

CacheCommand* Gateway::take_forwarded(CachedVolume& of, const CommandShareRef& held,
                                      const CommandShareRef& by) noexcept {
    CacheCommand* command = pool_->take(of, held, by);
    if (command != nullptr) command->forwarded = {.owner = nullptr, .last = Event::kOver, .is_over = true};
    return command;
}

void Gateway::begin_forwarded(CacheCommand& command) noexcept {
    command.forwarded = {.owner = command.owner, .last = Event::kOver, .is_over = false};
    command.owner = this;
    send(command, Step::kBegin);
}

void Gateway::buffer_ready(CacheCommand& command, std::byte* buffer, const BufferRegions& regions) noexcept {
    if (is_home()) return datapath_.buffer_ready(command, buffer, regions);
    command.buffer = buffer;
    command.regions = &regions;
    send(command, Step::kBufferReady);
}

void Gateway::release_forwarded(CacheCommand& command) noexcept {
    command.forwarded.is_over ? pool_->give(command) : send(command, Step::kRelease);
}

void Gateway::take_event(void* self, const FromCache& message) noexcept {
    Gateway& gateway = *static_cast<Gateway*>(self);
    CacheCommand& command = *message.command;
    switch (message.event) {
        case Event::kNeedBuffer:
            return command.forwarded.owner->need_buffer(command);
        case Event::kDelegated:
            return command.forwarded.owner->delegated(command);
        case Event::kAnswered:
            command.forwarded.is_over = message.is_over;
            return command.forwarded.owner->answered(command);
        case Event::kEnded:
            command.forwarded.is_over = message.is_over;
            return command.forwarded.owner->ended(command, CacheOutcome(command.outcome));
        case Event::kOver:
            return gateway.pool_->give(command);
    }
}

// ---- Commands, on the home reactor -----------------------------------------------------------------------

void Gateway::take_step(void* self, const ToCache& message) noexcept {
    Datapath& datapath = static_cast<Gateway*>(self)->datapath_;
    CacheCommand& command = *message.command;
    switch (message.step) {
        case Step::kBegin:
            return datapath.begin_forwarded(command);
        case Step::kBufferReady:
            return datapath.buffer_ready(command, command.buffer, *command.regions);
        case Step::kBufferFailed:
            return datapath.buffer_failed(command);
        case Step::kRelease:
            return datapath.release(command);
        case Step::kAbandon:
            return datapath.abandon(command);
    }
}

void Gateway::need_buffer(CacheCommand& command) noexcept {
    from_cache_->send({&command, Event::kNeedBuffer, false});
}

void Gateway::delegated(CacheCommand& command) noexcept {
    from_cache_->send({&command, Event::kDelegated, false});
}

void Gateway::answered(CacheCommand& command) noexcept {
    reply(command, Event::kAnswered);
}

void Gateway::ended(CacheCommand& command, const CacheOutcome& outcome) noexcept {
    command.outcome = outcome;
    reply(command, Event::kEnded);
}

// The cache is about to release the command, or continues with it (a fill, or Commands::end_early()). In the
// first case over() sends the reply. So most commands take one message back instead of three.
void Gateway::reply(CacheCommand& command, Event event) noexcept {
    if (command.phase != CacheCommand::Phase::kEnding) return from_cache_->send({&command, event, false});
    command.forwarded.last = event;
    datapath_.release(command);
}

void Gateway::over(CacheCommand& command) noexcept {
    from_cache_->send({&command, command.forwarded.last, true});
}

// ---- Flushes and freezes ---------------------------------------------------------------------------------

static uint64_t last_loss(const CachedVolume& volume, int error) {
    return volume.remote == nullptr || error != 0 ? 0 : volume.remote->last_loss();
}

void Gateway::flush(CachedVolume& volume, Flushed done, const Cancelled* cancelled) {
    if (is_home())
        return cache_.flush(
            volume, [&volume, done = std::move(done)](int error) { done(error, last_loss(volume, error)); },
            cancelled);
    post([this, &volume, done = std::move(done), cancelled] {
        const auto answer = [this, &volume, done](int error) {
            reactor_.post([done, error, loss = last_loss(volume, error)] { done(error, loss); });
        };
        cache_.flush(volume, answer, cancelled);
    });
}

void Gateway::freeze(CachedVolume& volume, Stretch range, Frozen use, FrozenDone done,
                     const Cancelled* cancelled) {
    if (is_home()) {
        const auto answer = [done](int error) { done(error, true); };
        if (!cache_.freeze(volume, range, use, answer, cancelled)) done(ENXIO, false);
        return;
    }
    post([this, &volume, range, use, done = std::move(done), cancelled] {
        const auto answer = [this, done](int error, bool is_frozen) {
            reactor_.post([done, error, is_frozen] { done(error, is_frozen); });
        };
        const auto frozen = [answer](int error) { answer(error, true); };
        if (!cache_.freeze(volume, range, use, frozen, cancelled)) answer(ENXIO, false);
    });
}

void Gateway::thaw(CachedVolume& volume) noexcept {
    if (is_home()) return cache_.thaw(volume);
    post([this, &volume] { cache_.thaw(volume); });
}

void Gateway::flush_completions() noexcept {
    if (is_home()) return cache_.flush_completions();
    if (flushes_completions_.exchange(true)) return;
    post([this] {
        flushes_completions_ = false;
        cache_.flush_completions();
    });
}

void Gateway::end_cancelled() noexcept {
    if (is_home()) return cache_.end_cancelled();
    if (ends_cancelled_.exchange(true)) return;
    post([this] {
        // Makes visible what was cancelled before each call.
        ends_cancelled_.exchange(false);
        cache_.end_cancelled();
    });
}

void Gateway::fence_abandoned(CachedVolume& volume, const Fence& fence) {
    if (is_home()) return datapath_.fence_abandoned(volume, fence);
    post([this, &volume, fence] { datapath_.fence_abandoned(volume, fence); });
}

// ---- Clients ---------------------------------------------------------------------------------------------

Client* Gateway::add_client(fabric::Scheme scheme, Notify notify) {
    auto client = std::make_unique<Client>();
    client->scheme = scheme;
    if (is_home()) {
        client->own_sink = std::make_unique<DirectSink>(std::move(notify));
        client->sink = client->own_sink.get();
        return cache_.add_client(std::move(client));
    }
    client->own_sink = std::make_unique<PostedSink>(reactor_, std::move(notify));
    client->sink = client->own_sink.get();
    Client* const made = client.get();
    // A task must be copyable.
    auto added = std::make_shared<std::unique_ptr<Client>>(std::move(client));
    post([this, added] { cache_.add_client(std::move(*added)); });
    return made;
}

void Gateway::remove_client(Client* client) {
    if (is_home()) return cache_.remove_client(client);
    post([this, client] { cache_.remove_client(client); });
}

// ---- Volumes and lost data -------------------------------------------------------------------------------

void Gateway::offer(CachedVolume& volume) {
    auto use = std::make_shared<VolumeUse>(reactor_, volume);
    use->place = volume.gate.enter();
    volume.open->hold();
    volume.waiters.push_back(use.get());
    uses_.push_back(use);
    std::lock_guard lock(m_);
    offered_[volume.wwid] = std::move(use);
}

std::shared_ptr<VolumeUse> Gateway::join(uint64_t wwid, LostWaiters& user) {
    std::lock_guard lock(m_);
    auto offered = offered_.extract(wwid);
    if (!offered) return nullptr;
    offered.mapped()->user = &user;
    return std::move(offered.mapped());
}

void Gateway::leave(const std::shared_ptr<VolumeUse>& use) {
    use->user = nullptr;
    post([this, use] {
        std::erase(use->volume.waiters, use.get());
        uses_.remove(use);
        use->volume.open->release();
        use->place.release();
    });
}

void Gateway::look(const std::shared_ptr<VolumeUse>& use, std::vector<Asked> asked,
                   std::function<void(const std::vector<bool>& waits)> take) {
    post([this, use, asked = std::move(asked), take = std::move(take)] {
        std::vector<bool> waits;
        for (const Asked& one : asked) waits.push_back(awaits(use->volume, one));
        reactor_.post([use, take, waits = std::move(waits)] {
            if (use->user != nullptr) take(waits);
        });
    });
}

}  // namespace wss::cache
