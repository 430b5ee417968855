// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/scale_world.h"

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "lib/cache/header.h"

namespace wss::bench {

using wire::RecordType;

constexpr uint16_t kPort = 1;
constexpr uint64_t kCommandsAtATime = 4;
constexpr Nanoseconds kUntilMax = from_s(3600);

static double processor_ms() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

uint64_t resident_bytes() {
    unsigned long pages = 0;
    FILE* file = std::fopen("/proc/self/statm", "r");
    if (file == nullptr || std::fscanf(file, "%*u %lu", &pages) != 1) std::abort();
    std::fclose(file);
    return uint64_t{pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// ---- Storage ---------------------------------------------------------------------------------------------

namespace {

class EmptyQueue final : public io::Queue {
  public:
    explicit EmptyQueue(const bool& holds) : holds_(holds) {}
    void submit(io::Request& request) noexcept override {
        ++in_flight_;
        waiting_.push_back(request);
    }
    size_t in_flight() const noexcept override { return in_flight_; }
    size_t poll() noexcept override {
        size_t done = 0;
        List<io::Request> waiting;
        waiting.splice_back(waiting_);
        while (io::Request* request = waiting.pop_front()) {
            if (holds_ && request->op == io::Op::kWrite) {
                waiting_.push_back(*request);
                continue;
            }
            request->error = 0;
            request->done_bytes = request->length;
            --in_flight_;
            ++done;
            request->done(*request);
        }
        return done;
    }

  private:
    const bool& holds_;
    List<io::Request> waiting_;
    size_t in_flight_ = 0;
};

}  // namespace

Result<std::unique_ptr<io::Queue>> EmptyBackend::open_queue(reactor::Reactor&) {
    return std::unique_ptr<io::Queue>(new EmptyQueue(holds_));
}

// ---- Engines ---------------------------------------------------------------------------------------------

BareEngine::BareEngine(sim::World& world, const fabric::SimNetwork& network, uint64_t identity,
                       uint32_t slots, bool keeps)
    : node_(world.add_node("engine" + std::to_string(identity))),
      identity_(identity),
      slots_(slots),
      reactor_(node_.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node_, network)),
      poller_(std::move(*fabric_->create_poller())),
      headers_(keeps ? slots : 0) {
    reactor_.add(*poller_);
    node_.run(reactor_);
}

BareEngine::~BareEngine() {
    node_.forget(reactor_);
    link_.reset();
    reactor_.remove(*poller_);
}

void BareEngine::join(uint64_t storage, uint32_t incarnation) {
    over_ = false;
    link_ = std::move(*cache::RecordLink::create(*fabric_, {.spill_max = 1u << 20}, *this));
    const wire::CacheJoin join{.engine = identity_,
                               .memory = uint64_t{slots_} * kLineBytes,
                               .incarnation = incarnation,
                               .storage = storage};
    std::array<std::byte, 64> data;
    const size_t length = wire::encode_cache_join(join, data);
    const fabric::Address target{.scheme = fabric::Scheme::kSim, .host = kTarget, .port = kPort};
    if (!link_->connect(*poller_, target, {data.data(), length})) std::abort();
}

void BareEngine::leave() {
    put(wire::put_plain(RecordType::kLeave, 0, 0, link_->room()));
    link_->flush();
}

void BareEngine::set_header(uint32_t slot, const cache::LineHeader& header) {
    cache::write_header(header, headers_[slot]);
}

bool BareEngine::link_up(cache::RecordLink&, std::span<const std::byte> data) noexcept {
    if (wire::parse_cache_welcome(data, welcome_) != wire::ParseError::kNone) return false;
    if (!welcome_.keep) std::fill(headers_.begin(), headers_.end(), Header{});
    for (uint32_t slot = 0; slot < headers_.size(); ++slot)
        if (headers_[slot] != Header{})
            put(wire::put_header(RecordType::kItem, 0, {slot, headers_[slot]}, link_->room()));
    put(wire::put_slot(RecordType::kInventoryEnd, 0, slots_, link_->room()));
    put(wire::put_plain(RecordType::kReady, 0, 0, link_->room()));
    link_->flush();
    return true;
}

bool BareEngine::record(cache::RecordLink&, const wire::Record& record) noexcept {
    wire::CacheMove move;
    wire::CacheHeader header;
    const bool keeps = !headers_.empty();
    switch (record.type) {
        case RecordType::kPing:
            put(wire::put_plain(RecordType::kPong, 0, record.id, link_->room()));
            break;
        case RecordType::kGoodbye:
            link_->close(Status(Code::kClosed, "it leaves"));
            return true;
        case RecordType::kMove:
            if (keeps && wire::parse_move(record, move) == wire::ParseError::kNone && move.has_header)
                headers_[move.slot] = move.header;
            put(wire::put_plain(RecordType::kDone, 0, record.id, link_->room()));
            break;
        case RecordType::kHeader:
            if (keeps && wire::parse_header(record, header) == wire::ParseError::kNone)
                headers_[header.slot] = header.header;
            put(wire::put_plain(RecordType::kDone, 0, record.id, link_->room()));
            break;
        case RecordType::kWipe:
            put(wire::put_plain(RecordType::kDone, 0, record.id, link_->room()));
            break;
        default:
            break;
    }
    link_->flush();
    return true;
}

// ---- The target ------------------------------------------------------------------------------------------

// A membership store whose saves are stable at once.
class Target::Saved final : public cache::MembershipStore {
  public:
    Saved(reactor::Reactor& reactor, std::string text) : reactor_(reactor), text_(std::move(text)) {}
    Result<std::string> load() override { return text_; }
    void save(std::string text, std::function<void(Status)> done) override {
        text_ = std::move(text);
        reactor_.post([done = std::move(done)] { done(Status::ok()); });
    }
    bool is_stable() const noexcept override { return true; }

  private:
    reactor::Reactor& reactor_;
    std::string text_;
};

Target::Target(sim::World& world, const fabric::SimNetwork& network, uint64_t bytes, std::string membership,
               cache::Policy policy)
    : world_(world),
      node_(world.find(kTarget) != nullptr ? *world.find(kTarget) : world.add_node(kTarget)),
      reactor_(node_.clock(), {.spin = kNever}),
      fabric_(fabric::open_sim(node_, network)),
      poller_(std::move(*fabric_->create_poller())),
      buffer_(kCommandBytes) {
    reactor_.add(*poller_);
    cache::CacheOptions options;
    options.line_bytes = kLineBytes;
    options.default_policy = {.policy = policy};
    options.lines_max = UINT64_MAX;
    options.commands = 16;
    options.silence_max = kUntilMax;
    // Dirty lines stay until an operation requires their destaging.
    options.destage = {.age_max = kUntilMax, .dirty_high_percent = 100, .dirty_low_percent = 100};
    options.read_ahead = {.window_first = 0};
    options.lost_grace = {};
    auto cache = cache::Cache::create(reactor_, random_, {{fabric_.get(), poller_.get()}},
                                      std::make_unique<Saved>(reactor_, std::move(membership)), options);
    if (!cache) std::abort();
    cache_ = std::move(*cache);
    regions_ = std::move(*cache_->register_buffers(buffer_));
    volume::VolumeSet::Options set;
    set.identity_salt = "scale";
    set.closing_thread = false;
    set.open = [this, bytes](const std::string&,
                             const io::OpenOptions&) -> Result<std::unique_ptr<io::Backend>> {
        return std::unique_ptr<io::Backend>(new EmptyBackend(bytes, holds_writes));
    };
    volumes_ = std::make_unique<volume::VolumeSet>(std::vector{&reactor_}, std::move(set));
    volumes_->table(0).add_observer(*this);
    bool created = false;
    volumes_->create_async({.name = "disk", .backend = "empty"},
                           [&](Status status) { created = status.is_ok(); });
    until("its volume", [&] { return created && cached_ != nullptr; });
    if (!cache_->admission().listen(0, {.scheme = fabric::Scheme::kSim, .host = kTarget, .port = kPort}))
        std::abort();
}

// The process frees the rest when it exits.
Target::~Target() = default;

void Target::volume_changed(volume::Change change, volume::OpenVolume& volume) noexcept {
    if (change == volume::Change::kAdded) {
        wwid_ = volume.volume().wwid();
        cached_ = cache_->add_volume(volume);
    }
    if (change == volume::Change::kRemoved) cache_->remove_volume(*cached_);
}

void Target::turn() {
    const double before = processor_ms();
    const size_t done = reactor_.step();
    const double took = processor_ms() - before;
    longest_ = std::max(longest_, took);
    total_ += took;
    world_.step(done > 0 ? world_.now() : reactor_.next_deadline());
}

void Target::until(const char* what, const std::function<bool()>& done) {
    const Nanoseconds limit = world_.now() + kUntilMax;
    while (!done()) {
        turn();
        if (world_.now() < limit) continue;
        std::fprintf(stderr, "scale_bench: %s: timed out\n", what);
        std::_Exit(1);
    }
}

// ---- Commands --------------------------------------------------------------------------------------------

void Target::run(bool is_write, uint64_t offset, uint64_t length) {
    load_ = {.is_write = is_write, .offset = offset, .commands = length / kCommandBytes};
    until("the load has ended", [this] {
        begin_more();
        return load_.next == load_.commands && load_.under_way == 0;
    });
    if (load_.failed == 0) return;
    std::fprintf(stderr, "scale_bench: %lu commands failed\n", load_.failed);
    std::_Exit(1);
}

void Target::begin_more() {
    while (load_.next < load_.commands && load_.under_way < kCommandsAtATime) {
        cache::CacheCommand* command = cache_->datapath().take_command(*cached_, {});
        if (command == nullptr) return;
        ++load_.under_way;
        command->owner = this;
        command->is_write = load_.is_write;
        command->fua = false;
        command->offset = load_.offset + load_.next++ * kCommandBytes;
        command->length = kCommandBytes;
        cache_->datapath().begin(*command);
    }
}

void Target::need_buffer(cache::CacheCommand& command) noexcept {
    cache_->datapath().buffer_ready(command, buffer_.data(), *regions_);
}

void Target::ended(cache::CacheCommand& command, const cache::CacheOutcome& outcome) noexcept {
    load_.failed += outcome.kind != cache::CacheOutcome::Kind::kGood;
    --load_.under_way;
    cache_->datapath().release(command);
}

void Target::discard(uint64_t offset, uint64_t length) {
    bool frozen = false;
    reactor_.post([&] {
        if (!cache_->freeze(*cached_, {offset, length}, cache::Frozen::kChanged,
                            [&](int error) { frozen = error == 0; }))
            std::abort();
    });
    until("the discard", [&] { return frozen; });
    reactor_.post([this] { cache_->thaw(*cached_); });
}

void Target::scrape() {
    bool done = false;
    reactor_.post([&] {
        (void)cache_->info();
        done = true;
    });
    until("the scrape", [&] { return done; });
}

void Target::remove_volume() {
    bool removed = false;
    volumes_->remove_async("disk", [&](const Status& status) { removed = status.is_ok(); });
    until("the volume has been deleted", [&] { return removed && info().index.lines == 0; });
}

uint32_t Target::live_engines() {
    uint32_t live = 0;
    for (const cache::EngineInfo& engine : info().engines) live += engine.state == "live";
    return live;
}

}  // namespace wss::bench
