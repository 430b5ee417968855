// SPDX-License-Identifier: Apache-2.0
// LocalClient: a client that runs in the calling thread.
#include <utility>

#include "lib/kv/client/client.h"
#include "lib/kv/client/client_engine.h"

namespace wss::kv {

namespace {

// Requests that end at once need no turn of the reactor. Lost connections are then noticed after this time.
constexpr Nanoseconds kTurnEvery = from_us(100);

}  // namespace

struct LocalClient::Parts {
    std::unique_ptr<Engine> engine = std::make_unique<Engine>();
    Nanoseconds turned{0};
    bool over = false;  // run() has ended
    Statistics statistics;
};

LocalClient::LocalClient() : parts_(std::make_unique<Parts>()) {}

Result<std::unique_ptr<LocalClient>> LocalClient::connect(const Options& options) {
    std::unique_ptr<LocalClient> client(new LocalClient);
    Engine& engine = *client->parts_->engine;
    Options mine = options;
    if (!mine.shared) mine.shared = std::make_shared<SharedState>(mine.address_cache);
    WSS_TRY(engine.open(mine));
    // The sessions start one after the other. Each gets an id from a partition. The session bounds the wait
    // by connect_timeout.
    for (auto& session : engine.sessions) {
        bool answered = false;
        Status why;
        session->start([&](const Status& status) {
            if (!std::exchange(answered, true)) why = status;
        });
        while (!answered) engine.reactor.turn();
        if (!why) return why;
    }
    return client;
}

LocalClient::~LocalClient() {
    if (!parts_->engine->shut()) leak(std::move(parts_->engine));
}

void LocalClient::submit(Request& request, uint32_t session) noexcept {
    parts_->engine->sessions[session]->submit(request);
}

size_t LocalClient::poll() noexcept {
    return parts_->engine->reactor.step();
}

void LocalClient::turn() noexcept {
    parts_->engine->reactor.turn();
}

void LocalClient::maybe_poll() noexcept {
    Engine& engine = *parts_->engine;
    engine.reactor.refresh();
    if (engine.reactor.now() - parts_->turned < kTurnEvery) return;
    parts_->turned = engine.reactor.now();
    engine.reactor.step();
}

void LocalClient::run(Request& request) noexcept {
    Engine& engine = *parts_->engine;
    parts_->over = false;
    auto* done = std::exchange(
        request.done, [](Request& finished) noexcept { static_cast<Parts*>(finished.context)->over = true; });
    void* context = std::exchange(request.context, parts_.get());
    maybe_poll();
    submit(request);
    bool turned = !parts_->over;
    while (!parts_->over) engine.reactor.turn();
    // Releases of locks are sent without waiting, and the reactor does not run until the next request. One
    // more step sends the messages that the last turn has posted.
    if (engine.lane->flush_now() || turned) engine.reactor.step();
    request.done = done;
    request.context = context;
}

uint32_t LocalClient::partitions() const noexcept {
    return parts_->engine->sessions[0]->partitions();
}

uint32_t LocalClient::sessions() const noexcept {
    return static_cast<uint32_t>(parts_->engine->sessions.size());
}

uint32_t LocalClient::partition_of(std::string_view key) const noexcept {
    return kv::partition_of(fingerprint(key), partitions());
}

const Statistics& LocalClient::statistics() const noexcept {
    parts_->statistics = {};
    for (auto& session : parts_->engine->sessions) parts_->statistics.add(session->statistics());
    return parts_->statistics;
}

std::shared_ptr<SharedState> LocalClient::shared() const {
    return parts_->engine->sessions[0]->shared();
}

}  // namespace wss::kv
