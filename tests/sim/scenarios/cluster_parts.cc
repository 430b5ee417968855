// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/scenarios/cluster_parts.h"

#include "target/block/worker.h"

namespace wss::sim {

namespace {

// A save takes some time. A crash during it may leave the old or the new contents.
class SimMembership final : public cache::MembershipStore {
  public:
    SimMembership(Node& node, reactor::Reactor& reactor, StableText& file)
        : node_(node), reactor_(reactor), file_(file) {}

    Result<std::string> load() override { return file_.text; }
    void save(std::string text, std::function<void(Status)> done) override {
        World& world = node_.world();
        ++file_.saves;
        if (file_.stuck) return;
        if (file_.full) {
            reactor_.post([done = std::move(done)] { done(Status::from_errno(ENOSPC, "save")); });
            return;
        }
        const bool at_once = world.random().chance(2);
        if (at_once) file_.text = text;
        // The file outlives this object. `done` and the reactor live as long as the process.
        world.schedule_in(
            from_us(100 + static_cast<int64_t>(world.random().below(5000))),
            [&node = node_, &reactor = reactor_, &file = file_, incarnation = node_.incarnation(), at_once,
             text = std::move(text), done = std::move(done)] {
                if (!node.alive() || node.incarnation() != incarnation) return;
                if (!at_once) file.text = text;
                reactor.post([done] { done(Status::ok()); });
            });
    }
    bool is_stable() const noexcept override { return true; }

  private:
    Node& node_;
    reactor::Reactor& reactor_;
    StableText& file_;
};

}  // namespace

ClusterTarget::ClusterTarget(Node& node, const fabric::SimNetwork& network, const fabric::SimNetwork& engines,
                             io::SimDevice& disk, StableText& membership, const cache::CacheOptions& options,
                             uint64_t remote)
    : node_(node),
      disk_(disk),
      membership_(membership),
      options_(options),
      remote_(remote),
      random_(node.world().random().next()),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, network)),
      cache_fabric_(fabric::open_sim(node, engines)),
      cache_poller_(std::move(*cache_fabric_->create_poller())) {
    reactor_.add(*cache_poller_);
    reactors_.push_back(&reactor_);
    while (reactors_.size() < options_.reactors) {
        others_.push_back(
            std::make_unique<reactor::Reactor>(node.clock(), reactor::Reactor::Options{kNever}));
        reactors_.push_back(others_.back().get());
    }
    volume::VolumeSet::Options volumes;
    volumes.identity_salt = "sim";  // gives the volumes the same identity after every restart
    volumes.open = [this](const std::string& backend,
                          const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        if (auto other = disks_.find(backend); other != disks_.end()) return other->second->open(node_);
        if (remote_ > 0)
            return cache::RemoteBackend::open(cache_->storage_nodes(), reactor_, "disk", {.size = remote_});
        return disk_.open(node_);
    };
    volumes.attach = false;
    volumes.closing_thread = false;
    volumes_ = std::make_unique<volume::VolumeSet>(reactors_, std::move(volumes));
    for (reactor::Reactor* reactor : reactors_) node_.run(*reactor);
}

ClusterTarget::~ClusterTarget() {
    for (reactor::Reactor* reactor : reactors_) node_.forget(*reactor);
    service_.reset();
    volumes_.reset();
    cache_.reset();
    reactor_.remove(*cache_poller_);
}

Status ClusterTarget::create() {
    auto cache =
        cache::Cache::create(reactor_, random_, {{cache_fabric_.get(), cache_poller_.get()}},
                             std::make_unique<SimMembership>(node_, reactor_, membership_), options_);
    if (!cache) return cache.status();
    cache_ = std::move(*cache);
    block::Service::Options options;
    options.limits.caps = WSS_CAP_ALL | WSS_CAP_CACHE;
    options.arena_bytes = 4 * 1024 * 1024;
    options.epoch_base = (uint64_t{node_.incarnation()} + 1) << 32;
    options.cache = cache_.get();
    // With storage on another node a crash of this one loses no writes: initiators always see the same boot
    // id.
    if (remote_ > 0) options.boot_id = 1;
    auto service = block::Service::create(reactors_, *volumes_, {fabric_.get()}, options);
    if (!service) return service.status();
    service_ = std::move(*service);
    return Status::ok();
}

void ClusterTarget::start() {
    status_ = create();
    if (!status_) return;
    volumes_->create_async({.name = "disk", .backend = "sim", .block_size = 512, .declared = true},
                           [this](Status status) { volume_created(status); });
}

void ClusterTarget::volume_created(const Status& status) {
    status_ = status;
    if (!status) return;
    if (opening_ == Nanoseconds{}) return listen();
    node_.world().schedule_in(opening_, [this, &node = node_, incarnation = node_.incarnation()] {
        if (node.alive() && node.incarnation() == incarnation) listen();
    });
}

void ClusterTarget::listen() {
    fabric::Address address{.scheme = fabric::Scheme::kSim, .host = node_.name(), .port = kTargetPort};
    status_ = service_->listen(0, address).status();
    if (!status_) return;
    address.port = kStoragePort;
    status_ = cache_->admission().listen(0, address).status();
    started_ = status_.is_ok();
}

void ClusterTarget::create_volume(const std::string& name, io::SimDisk& disk,
                                  std::function<void(Status)> done, uint64_t bytes,
                                  const std::string& backend) {
    const std::string specification = backend.empty() ? name : backend;
    disks_[specification] = &disk;
    volumes_->create_async(
        {.name = name, .backend = specification, .size = bytes, .block_size = 512, .declared = true},
        std::move(done));
}

void ClusterTarget::resize_volume(const std::string& name, uint64_t bytes, std::function<void(Status)> done) {
    volumes_->resize_async(name, bytes, std::move(done));
}

void ClusterTarget::remove_volume(const std::string& name, std::function<void(Status)> done) {
    volumes_->remove_async(name, std::move(done));
}

void ClusterTarget::drop_contents(const std::string& name, bool give_up_dirty,
                                  std::function<void(Status)> done, bool look_only) {
    volume::OpenVolume* open = volumes_->table(0).find(volumes_->find(name)->identity.lun);
    volume::Observer& worker = service_->worker(0);
    worker.volume_reopens(*open,
                          std::make_shared<volume::Reopening>(give_up_dirty, look_only, std::move(done)));
}

// The order is that of the daemon: sessions, then the cache, then the volumes.
void ClusterTarget::stop(Nanoseconds home_max, Nanoseconds drain_max) {
    service_->stop([this, home_max] { stop_cache(home_max); });
    if (drain_max == kNever) return;
    node_.world().schedule_in(drain_max, [this, home_max, &node = node_, incarnation = node_.incarnation()] {
        if (node.alive() && node.incarnation() == incarnation) stop_cache(home_max);
    });
}

void ClusterTarget::stop_cache(Nanoseconds home_max) {
    if (std::exchange(stopping_cache_, true)) return;
    cache_->stop(home_max, cache::LastSave::kYes, [this](const Status& home, const Status& saved) {
        cache_stopped_ = saved ? home : saved;
        before_close();
        volumes_->close_all_async([this](Status) { stopped_ = true; });
    });
}

ClusterEngine::ClusterEngine(Node& node, const fabric::SimNetwork& network, uint64_t memory,
                             const std::string& target, io::SimDevice* disk, const fabric::SimNetwork* reach,
                             bool read_only)
    : node_(node),
      memory_(memory),
      target_(target),
      disk_(disk),
      read_only_(read_only),
      random_(node.world().random().next()),
      reactor_(node.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node, network)),
      poller_(std::move(*fabric_->create_poller())) {
    reactor_.add(*poller_);
    if (reach != nullptr) {
        reach_fabric_ = fabric::open_sim(node, *reach);
        reach_poller_ = std::move(*reach_fabric_->create_poller());
        reactor_.add(*reach_poller_);
    }
    node_.run(reactor_);
}

ClusterEngine::~ClusterEngine() {
    node_.forget(reactor_);
    engine_.reset();
    reactor_.remove(*poller_);
    if (reach_poller_ != nullptr) reactor_.remove(*reach_poller_);
}

Status ClusterEngine::start() {
    cache::Engine::Options options{.memory = memory_};
    if (disk_ != nullptr) {
        backend_ = disk_->open(node_);
        options.volumes.push_back({.name = "disk", .backend = backend_.get(), .read_only = read_only_});
        options.boot = node_.incarnation() + 1;
        options.reach = {reach_fabric_.get(), reach_poller_.get()};
    }
    auto engine = cache::Engine::create(reactor_, random_, {{fabric_.get(), poller_.get()}}, options);
    if (!engine) return engine.status();
    engine_ = std::move(*engine);
    auto bound = engine_->listen(0, {.scheme = fabric::Scheme::kSim, .host = node_.name(), .port = 0});
    if (!bound) return bound.status();
    engine_->join(0, {.scheme = fabric::Scheme::kSim, .host = target_, .port = kStoragePort});
    return engine_->start();
}

// An engine that leaves before the target releases it counts as lost, and only the injector may lose engines.
// So it waits longer than any run lasts.
void ClusterEngine::leave() {
    leaving_ = true;
    engine_->leave(from_s(3600), [this](const Status&) { stop(); });
}

void ClusterEngine::stop() {
    leaving_ = true;
    engine_->stop([this] { gone_ = true; });
}

}  // namespace wss::sim
