// SPDX-License-Identifier: Apache-2.0
// Engine: memory, listeners, clients' logins, and shutdown.
#include "lib/cache/engine/engine.h"

#include <sys/mman.h>

#include <algorithm>

#include "lib/base/log.h"
#include "lib/base/source_limiter.h"
#include "lib/cache/engine/engine_parts.h"
#include "lib/cache/engine/storage.h"
#include "lib/fabric/sources.h"

namespace wss::cache {

// Limits the log lines that unauthenticated peers can cause.
static bool may_log(const fabric::ConnectRequest& request) {
    static log::SourceLimiter limiter(10);
    return limiter.allow(fabric::source_of(request.peer()));
}

// A listener on one of the nets.
class Engine::Port final : public fabric::ListenHandler {
  public:
    Port(Engine& engine, size_t net) : engine_(engine), net_(net) {}
    Result<fabric::Address> open(const fabric::Address& address) {
        auto listener = engine_.nets_[net_].poller->listen(address, *this);
        if (!listener) return listener.status();
        listener_ = std::move(*listener);
        return listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        engine_.client_requested(net_, std::move(request));
    }

  private:
    Engine& engine_;
    const size_t net_;
    std::unique_ptr<fabric::Listener> listener_;
};

static Engine::Options with_identity(Engine::Options options, Random& random) {
    while (options.identity == 0) options.identity = random.next();
    return options;
}

Engine::Engine(reactor::Reactor& reactor, Random& random, std::vector<Net> nets, Options options)
    : reactor_(reactor),
      random_(random),
      nets_(std::move(nets)),
      options_(with_identity(options, random)),
      leave_timer_([](void* self) noexcept { static_cast<Engine*>(self)->leave_anyway(); }, this) {
    reactor_.add(*this);
}

Engine::~Engine() {
    WSS_ASSERT(clients_.empty(), "stop() ends before the engine is destroyed");
    reactor_.cancel(leave_timer_);
    reactor_.remove(*this);
    links_.clear();
    ports_.clear();
    regions_.clear();
    if (!arena_.empty()) munmap(arena_.data(), arena_.size());
}

Result<std::unique_ptr<Engine>> Engine::create(reactor::Reactor& reactor, Random& random,
                                               std::vector<Net> nets, const Options& options) {
    constexpr uint64_t kMemoryMin = 1u << 20;
    if (options.memory < kMemoryMin)
        return failure(Code::kInvalid, "a cache engine needs at least {} bytes of memory, not {}", kMemoryMin,
                       options.memory);
    return std::unique_ptr<Engine>(new Engine(reactor, random, std::move(nets), options));
}

Result<fabric::Address> Engine::listen(size_t net, const fabric::Address& address, std::string advertised) {
    auto port = std::make_unique<Port>(*this, net);
    auto bound = port->open(address);
    if (!bound) return bound;
    ports_.push_back(std::move(port));
    advertised_.push_back(advertised.empty() ? bound->to_string() : std::move(advertised));
    return bound;
}

void Engine::join(size_t net, const fabric::Address& storage) {
    links_.push_back(std::make_unique<SeLink>(*this, net, storage));
}

Status Engine::map_arena() {
    const size_t bytes = static_cast<size_t>(options_.memory);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Status::from_errno(errno, fmt::format("{} bytes of memory", bytes));
    arena_ = {static_cast<std::byte*>(memory), bytes};
    madvise(memory, bytes, MADV_HUGEPAGE);
    for (const Net& net : nets_) {
        // Only this process accesses it. iWARP requires remote write access to the destination of a READ.
        auto access =
            net.fabric->caps().read_sink_remote_write ? fabric::Access::kRemoteWrite : fabric::Access::kLocal;
        auto region = net.fabric->register_memory(arena_, access);
        if (!region)
            return region.status().within(fmt::format(
                "registering {} MiB with {}; raise the limit of locked memory (ulimit -l, LimitMEMLOCK=)",
                bytes >> 20, net.fabric->caps().name));
        regions_.push_back(std::move(*region));
    }
    return Status::ok();
}

Status Engine::start() {
    if (links_.empty()) return failure(Code::kInvalid, "no storage engine to join");
    if (links_.size() > 1 && !options_.volumes.empty())
        return failure(Code::kInvalid,
                       "a storage process (--role rs) joins one storage engine, not {}: give --join once",
                       links_.size());
    WSS_TRY(map_arena());
    const size_t part = arena_.size() / links_.size() / 4096 * 4096;
    for (size_t i = 0; i < links_.size(); ++i) WSS_TRY(links_[i]->start(arena_.subspan(i * part, part)));
    return Status::ok();
}

void Engine::join_again() {
    for (auto& link : links_) link->join_again();
}

// ---- Clients ---------------------------------------------------------------------------------------------

void Engine::client_requested(size_t net, std::unique_ptr<fabric::ConnectRequest> request) noexcept {
    wire::CacheLogin login;
    const bool formed = wire::parse_cache_login(request->data(), login) == wire::ParseError::kNone;
    auto found = formed ? grants_.find(login.handle) : grants_.end();
    static const wire::CacheToken kNobody{};
    // Always compare a token, so that the time taken does not reveal whether a handle exists.
    const bool known = found != grants_.end();
    const bool right = wire::same_token(login.token, known ? found->second->token : kNobody) && known;
    if (!right || found->second->used || stopping_ || clients_.size() >= kClientsMax) {
        ++counters_.clients_refused;
        if (may_log(*request))
            log::warning("{}: refused: {}", request->peer(),
                         !formed  ? "the peer sent no cache login"
                         : !right ? "the token is not valid"
                                  : "token already used, or client limit reached");
        return request->reject({});
    }
    Grant& grant = *found->second;
    auto client = std::make_unique<Client>(*this, *grant.link, login.handle, net);
    grant.used = true;
    if (Status status = client->accept(*request, *nets_[net].poller); !status) {
        if (may_log(*request)) log::warning("{}: {}", request->peer(), status.to_string());
        return;
    }
    ++counters_.clients_accepted;
    grant.client = client.get();
    clients_.push_back(std::move(client));
}

void Engine::client_over(Client& client) noexcept {
    auto grant = grants_.find(client.handle());
    if (grant != grants_.end() && grant->second->client == &client) grants_.erase(grant);
    clients_died_ = true;
}

// ---- Turns and shutdown ----------------------------------------------------------------------------------

size_t Engine::poll() noexcept {
    size_t done = 0;
    for (auto& link : links_) done += link->turn();
    if (std::exchange(clients_died_, false)) {
        std::erase_if(clients_, [](const auto& client) { return client->is_over(); });
        ++done;
    }
    check_left();
    check_stopped();
    return done;
}

static int64_t seconds(Nanoseconds time) {
    return time.count / 1'000'000'000;
}

void Engine::leave(Nanoseconds limit, std::function<void(Status)> done) {
    leaving_ = true;
    left_ = std::move(done);
    leave_max_ = limit;
    reactor_.set(leave_timer_, reactor_.clock().now() + limit);
    for (auto& link : links_) link->request_leave();
    if (const Unsaved left = unsaved(); left.lines > 0)
        log::info(
            "waiting up to {} s until {} lines with acknowledged writes are in real storage: {}; wssctl "
            "cache status of the target shows what delays them",
            seconds(limit), left.lines, left.of);
}

Engine::Unsaved Engine::unsaved() const {
    Unsaved all;
    for (const auto& link : links_) {
        if (link->has_left()) continue;
        all.lines += link->dirty_lines();
        const EngineStorageInfo info = link->info();
        all.of += (all.of.empty() ? "" : ", ") + info.address;
        if (!info.up) all.of += " (not connected: " + info.last_error + ")";
    }
    return all;
}

// The time limit has passed. Only the SE can determine which lines have another copy, and the SE may be
// disconnected.
void Engine::leave_anyway() noexcept {
    if (!left_) return;
    const Unsaved left = unsaved();
    Status status;
    if (left.lines > 0)
        status = failure(
            Code::kTimedOut,
            "up to {} lines with acknowledged writes are removed with this cache engine, because {} did not "
            "write them to real storage within {} s (leave_seconds): lines without a copy in another engine "
            "are lost; wssctl cache status of the target shows how many, and the error of its storage",
            left.lines, left.of, seconds(leave_max_));
    else
        log::warning("{} did not release this process in time; leaving anyway: it has no dirty lines",
                     left.of);
    std::exchange(left_, nullptr)(std::move(status));
}

void Engine::check_left() noexcept {
    if (!leaving_ || !left_) return;
    for (auto& link : links_)
        if (!link->has_left()) return;
    reactor_.cancel(leave_timer_);
    std::exchange(left_, nullptr)(Status::ok());
}

void Engine::stop(std::function<void()> done) {
    stopping_ = true;
    stopped_ = std::move(done);
    ports_.clear();
    for (auto& link : links_) link->stop();
    for (auto& client : clients_) client->close();
}

void Engine::check_stopped() noexcept {
    if (!stopping_ || !stopped_ || !clients_.empty()) return;
    for (auto& link : links_)
        if (!link->is_over() || !link->is_quiet()) return;
    std::exchange(stopped_, nullptr)();
}

std::vector<const io::Backend*> Engine::release_storage() {
    std::vector<const io::Backend*> released;
    for (const EngineVolume& volume : options_.volumes) {
        bool all = true;
        for (Storage* storage : real_storages_) all &= storage->release(*volume.backend);
        if (all) released.push_back(volume.backend);
    }
    return released;
}

std::vector<EngineStorageInfo> Engine::storages() const {
    std::vector<EngineStorageInfo> all;
    for (const auto& link : links_) all.push_back(link->info());
    return all;
}

}  // namespace wss::cache
