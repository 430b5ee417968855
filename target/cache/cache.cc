// SPDX-License-Identifier: Apache-2.0
#include "target/cache/cache.h"

#include "lib/base/log.h"

namespace wss::cache {

constexpr Nanoseconds kTick = from_ms(100);
// Maximum number of lines without arena slots on which the commands of one reactor have operations.
constexpr uint32_t kTransientLines = 4096;

static uint32_t lines_per_command(const CacheOptions& options) {
    return kCommandBytesMax / options.line_bytes + 1;
}

Cache::Cache(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
             std::unique_ptr<MembershipStore> store, const CacheOptions& options,
             const LineGeometry& geometry)
    : reactor_(reactor),
      options_(options),
      lines_(geometry, kTransientLines * options.reactors + lines_per_command(options), turn_),
      members_(std::move(store), turn_, control_),
      volumes_(lines_.index(), turn_),
      nets_(std::move(nets)),
      engines_(turn_),
      clients_(engines_, lines_.index(), random, options_.secrets, turn_),
      nodes_(nets_, engines_, clients_, lines_.index(), volumes_, members_, turn_),
      eraser_(lines_, engines_, memory_, turn_),
      losses_(members_, volumes_, geometry, options_.lost_grace, life_, reactor, turn_),
      absent_(members_, volumes_, losses_, lines_.index(), eraser_),
      mirror_({.lines = lines_,
               .engines = engines_,
               .members = members_,
               .volumes = volumes_,
               .memory = memory_,
               .life = life_},
              reactor, turn_),
      recovery_({.members = members_,
                 .engines = engines_,
                 .index = lines_.index(),
                 .volumes = volumes_,
                 .losses = losses_,
                 .absent = absent_,
                 .single = mirror_.single()},
                options_.recovery_grace, life_, reactor, turn_, control_),
      destager_({.lines = lines_,
                 .engines = engines_,
                 .nodes = nodes_,
                 .members = members_,
                 .volumes = volumes_,
                 .losses = losses_,
                 .single = mirror_.single(),
                 .recovery = recovery_,
                 .memory = memory_,
                 .life = life_},
                reactor, turn_),
      datapath_({.lines = lines_,
                 .engines = engines_,
                 .nodes = nodes_,
                 .members = members_,
                 .losses = losses_,
                 .single = mirror_.single(),
                 .recovery = recovery_,
                 .life = life_},
                reactor),
      control_({.lines = lines_,
                .engines = engines_,
                .nodes = nodes_,
                .eraser = eraser_,
                .members = members_,
                .volumes = volumes_,
                .losses = losses_,
                .absent = absent_,
                .single = mirror_.single(),
                .recovery = recovery_,
                .destager = destager_,
                .datapath = datapath_,
                .life = life_},
               options_, reactor),
      deletions_({.index = lines_.index(),
                  .engines = engines_,
                  .members = members_,
                  .volumes = volumes_,
                  .losses = losses_,
                  .absent = absent_,
                  .recovery = recovery_,
                  .destager = destager_,
                  .control = control_,
                  .life = life_},
                 options_.line_bytes, reactor),
      admission_(nets_, engines_, members_, recovery_, nodes_, life_, reactor,
                 {.line_bytes = options_.line_bytes, .lines_max = options_.lines_max}, events_),
      events_({.index = lines_.index(),
               .engines = engines_,
               .admission = admission_,
               .clients = clients_,
               .nodes = nodes_,
               .control = control_,
               .members = members_,
               .volumes = volumes_,
               .losses = losses_,
               .single = mirror_.single(),
               .recovery = recovery_,
               .destager = destager_,
               .life = life_,
               .turn = turn_}),
      shutdown_({.engines = engines_,
                 .admission = admission_,
                 .members = members_,
                 .absent = absent_,
                 .recovery = recovery_,
                 .volumes = control_,
                 .life = life_,
                 .turn = turn_},
                reactor),
      timer_(&Cache::tick, this) {}

Cache::~Cache() {
    reactor_.cancel(timer_);
    reactor_.remove(*this);
    // The target may end while commands wait for recovery or for stable storage.
    members_.forget_tasks();
    lines_.forget_walks();
    datapath_.drop_all();
    // Links must be destroyed before the owners of their outstanding transfers.
    engines_.clear();
}

Result<std::unique_ptr<Cache>> Cache::create(reactor::Reactor& reactor, Random& random, std::vector<Net> nets,
                                             std::unique_ptr<MembershipStore> store,
                                             const CacheOptions& options) {
    auto geometry = LineGeometry::of(options.line_bytes);
    if (!geometry) return geometry.status();
    std::unique_ptr<Cache> made(
        new Cache(reactor, random, std::move(nets), std::move(store), options, *geometry));
    if (Status status = made->prepare(random); !status) return status;
    return made;
}

Status Cache::prepare(Random& random) {
    WSS_TRY(control_.check_stable(options_.default_policy));
    admission_.set_secrets(options_.engine_secrets);
    const uint32_t jobs = options_.destages * Destager::kJobsFor;
    WSS_TRY(memory_.prepare(nets_, jobs + Mirror::kJobs, options_.line_bytes));
    destager_.prepare(options_.destages);
    mirror_.prepare(jobs);
    WSS_TRY(datapath_.prepare(nets_, options_.commands, lines_per_command(options_)));
    WSS_TRY(members_.load().within("the cache's membership"));
    while (members_.now().storage == 0) members_.edit().storage = random.next();
    WSS_TRY(recovery_.begin(options_.line_bytes));
    reactor_.add(*this);
    reactor_.set(timer_, reactor_.clock().now() + kTick);
    return Status::ok();
}

void Cache::take_place() noexcept {
    reactor_.remove(*this);
    reactor_.add(*this);
    for (const Net& net : nets_.all()) {
        reactor_.remove(*net.poller);
        reactor_.add(*net.poller);
    }
}

size_t Cache::poll() noexcept {
    size_t done = turn_.take() ? 1 : 0;
    destager_.turn();
    losses_.turn();
    recovery_.turn();
    lines_.turn();
    lines_.serve();
    done += engines_.turn() + admission_.turn();
    done += engines_.turn_retired();
    volumes_.free_gone();
    eraser_.turn();
    volumes_.free_dropped();
    done += datapath_.turn();
    if (done > 0 || lines_.any_granted()) {
        lines_.serve();
        done += engines_.turn() + admission_.turn();
    }
    members_.turn();
    shutdown_.turn();
    return done;
}

void Cache::tick(void* self) noexcept {
    Cache& cache = *static_cast<Cache*>(self);
    const Nanoseconds now = cache.reactor_.clock().now();
    cache.engines_.tick(now, cache.options_.silence_max);
    cache.admission_.tick();
    cache.destager_.tick();
    cache.mirror_.tick();
    cache.recovery_.check();
    cache.nodes_.tick(now);
    cache.control_.tick();
    cache.deletions_.tick();
    cache.events_.tick();
    cache.losses_.tick();
    cache.clients_.invite_anew();
    cache.turn_.want();
    cache.reactor_.set(cache.timer_, now + kTick);
}

// Commands of a lost channel that wait (for a line, for a frozen volume, for recovery) continue without the
// client.
void Cache::remove_client(Client* client) {
    datapath_.forget(*client);
    clients_.remove(client);
}

}  // namespace wss::cache
