// SPDX-License-Identifier: Apache-2.0
#include "target/kv/kv_part.h"

#include <algorithm>
#include <future>

#include "lib/base/log.h"
#include "lib/fabric/open.h"
#include "lib/kv/placement.h"

namespace wss::kvpart {

namespace {

constexpr uint64_t kMemoryMin = uint64_t{8} << 20;
constexpr auto kAnswerLimit = std::chrono::seconds(5);

Result<kv::store::Durability> parse_durability(const std::string& word) {
    if (word == "memory") return kv::store::Durability::kMemory;
    if (word == "async") return kv::store::Durability::kAsync;
    if (word == "sync") return kv::store::Durability::kSync;
    return failure(Code::kInvalid, "durability '{}': memory, async and sync are possible", word);
}

}  // namespace

Status check_options(const KvOptions& options) {
    if (options.listen.empty()) return Status::ok();
    auto durability = parse_durability(options.durability);
    if (!durability) return durability.status().within("kv");
    if (*durability != kv::store::Durability::kMemory && options.directory.empty())
        return failure(Code::kInvalid, "kv: durability '{}' needs a directory (--kv-directory)",
                       options.durability);
    if (options.map.size() > kv::kPartitionsMax)
        return failure(Code::kInvalid, "kv: {} partitions are more than the {} possible", options.map.size(),
                       kv::kPartitionsMax);
    if (options.partition >= std::max<size_t>(options.map.size(), 1))
        return failure(Code::kInvalid, "kv: partition {} of a map of {}: give --kv-map with all partitions",
                       options.partition, options.map.size());
    if (options.memory < kMemoryMin)
        return failure(Code::kInvalid, "kv: {} bytes of memory are too few: at least {}", options.memory,
                       kMemoryMin);
    return Status::ok();
}

Result<std::unique_ptr<KvPart>> KvPart::start(const KvOptions& options) {
    WSS_TRY(check_options(options));
    std::unique_ptr<KvPart> part(new KvPart(options));
    if (Status status = part->open(); !status) return status.within("key-value service");
    return part;
}

std::string KvPart::identity() const {
    return fmt::format("partition {} of {}", options_.partition, std::max<size_t>(options_.map.size(), 1));
}

Status KvPart::open_log(kv::store::Options& store) {
    auto durability = parse_durability(options_.durability);
    if (!durability) return durability.status();
    store.durability = *durability;
    store.window = from_ms(options_.window_ms);
    store.window_floor = std::min(store.window_floor, store.window);
    if (options_.directory.empty()) return Status::ok();
    kv::store::RocksOptions rocks;
    rocks.path = options_.directory;
    rocks.identity = identity();
    rocks.sync = *durability == kv::store::Durability::kSync;
    // With durability "memory" the directory takes what does not fit, for this run only.
    rocks.fresh = *durability == kv::store::Durability::kMemory;
    auto log = kv::store::RocksLog::open(rocks);
    if (!log) return log.status();
    log_ = std::move(*log);
    return Status::ok();
}

Status KvPart::open() {
    std::vector<fabric::Fabric*> fabrics;
    for (const std::string& uri : options_.listen) {
        auto address = fabric::Address::parse(uri, kv::kDefaultPort);
        if (!address) return address.status().within("--kv-listen");
        auto fabric = fabric::open(*address);
        if (!fabric) return fabric.status().within("listen on " + address->to_string());
        wanted_.push_back(*address);
        fabrics_.push_back(std::move(*fabric));
        fabrics.push_back(fabrics_.back().get());
    }
    kv::ServiceOptions options;
    options.partition = options_.partition;
    options.partitions = options_.map.empty() ? std::vector<std::string>{options_.listen[0]} : options_.map;
    options.arena_bytes = options_.memory;
    options.terminate_after = from_ms(options_.terminate_ms);
    options.seed = Random::entropy();
    options.identity = identity();
    if (!options_.directory.empty()) options.snapshots = options_.directory + ".snapshots";
    WSS_TRY(open_log(options.store));
    auto service = kv::Service::create(reactor_, fabrics, wall_, log_.get(), options);
    if (!service) return service.status();
    service_ = std::move(*service);
    WSS_TRY(listen());
    thread_ = std::thread([this] { reactor_.run(); });
    pthread_setname_np(thread_.native_handle(), "kv");
    return Status::ok();
}

// Before the thread runs: nobody else looks.
Status KvPart::listen() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
        auto bound = service_->listen(i, wanted_[i]);
        if (!bound) return bound.status().within("listen on " + wanted_[i].to_string());
        bound_.push_back(*bound);
    }
    return Status::ok();
}

Status KvPart::stop(uint32_t seconds) {
    if (!thread_.joinable()) return Status::ok();
    auto promise = std::make_shared<std::promise<void>>();
    auto future = promise->get_future();
    reactor_.post([this, promise] { service_->stop([promise] { promise->set_value(); }); });
    if (future.wait_for(std::chrono::seconds(seconds)) != std::future_status::ready)
        return failure(Code::kTimedOut, "the key-value service's connections did not end in {} s", seconds);
    reactor_.stop();
    thread_.join();
    return log_ ? log_->flush() : Status::ok();
}

KvPart::~KvPart() {
    WSS_ASSERT(!thread_.joinable(), "stop() comes first");
    service_.reset();
    log_.reset();
}

std::string KvPart::describe() const {
    std::string text =
        fmt::format("kv partition {} of {} on", options_.partition, std::max<size_t>(options_.map.size(), 1));
    for (const auto& address : bound_) text += " " + address.to_string();
    return text;
}

std::string KvPart::info_json() {
    auto promise = std::make_shared<std::promise<std::string>>();
    auto future = promise->get_future();
    reactor_.post([this, promise] { promise->set_value(service_->info_json()); });
    return future.wait_for(kAnswerLimit) == std::future_status::ready ? future.get() : std::string();
}

}  // namespace wss::kvpart
