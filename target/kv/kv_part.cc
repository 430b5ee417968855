// SPDX-License-Identifier: Apache-2.0
#include "target/kv/kv_part.h"

#include <algorithm>
#include <filesystem>
#include <future>
#include <system_error>

#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/thread.h"
#include "lib/fabric/open.h"
#include "lib/fabric/resolve.h"
#include "lib/kv/placement.h"

namespace wss::kv {

namespace {

constexpr uint64_t kMemoryMin = uint64_t{8} << 20;
constexpr auto kAnswerLimit = std::chrono::seconds(5);

Result<store::Durability> parse_durability(const std::string& word) {
    if (word == "memory") return store::Durability::kMemory;
    if (word == "async") return store::Durability::kAsync;
    if (word == "sync") return store::Durability::kSync;
    return failure(Code::kInvalid, "durability '{}' is not memory, async or sync", word);
}

}  // namespace

Status check_options(const KvOptions& options) {
    if (options.listen.empty()) return Status::ok();
    auto durability = parse_durability(options.durability);
    if (!durability) return durability.status().within("kv");
    if (*durability != store::Durability::kMemory && options.directory.empty())
        return failure(Code::kInvalid, "kv: durability '{}' needs a directory (--kv-directory)",
                       options.durability);
    if (options.map.size() > kPartitionsMax)
        return failure(Code::kInvalid, "kv: {} partitions exceed the limit of {}", options.map.size(),
                       kPartitionsMax);
    if (options.partition + options.partitions > std::max<size_t>(options.map.size(), 1))
        return failure(
            Code::kInvalid,
            "kv: partition {} is not in --kv-map, which has {} partitions: name all partitions there",
            options.partition + options.partitions - 1, options.map.size());
    if (options.partitions > 1 && options.listen.size() != options.partitions)
        return failure(Code::kInvalid, "kv: {} partitions here need as many addresses (--listen), not {}",
                       options.partitions, options.listen.size());
    if (options.memory < kMemoryMin)
        return failure(Code::kInvalid, "kv: {} bytes of memory are too few: the minimum is {}",
                       options.memory, kMemoryMin);
    return Status::ok();
}

Result<std::unique_ptr<KvPart>> KvPart::start(const KvOptions& options,
                                              const fabric::tls::Credentials& credentials,
                                              std::shared_ptr<const AccessRules> access) {
    WSS_TRY(check_options(options));
    std::unique_ptr<KvPart> part(new KvPart(options, credentials, std::move(access)));
    if (Status status = part->open(); !status) return status.within("key-value service");
    return part;
}

std::string KvPart::identity(uint32_t partition) const {
    return fmt::format("partition {} of {}", partition, std::max<size_t>(options_.map.size(), 1));
}

std::string KvPart::directory(uint32_t partition) const {
    if (options_.partitions == 1 || options_.directory.empty()) return options_.directory;
    return fmt::format("{}/partition-{}", options_.directory, partition);
}

// One partition has its log in the directory itself, several have one in each of its folders. With another
// number of partitions a log would not be found, and its keys would seem to be missing.
Status KvPart::check_layout() const {
    const std::string& folder = options_.directory;
    if (folder.empty()) return Status::ok();
    if (options_.partitions > 1) {
        if (!store::RocksLog::is_at(folder)) return Status::ok();
        return failure(
            Code::kInvalid,
            "{} holds the data of one partition, but --kv-partitions is {}: start it with one, or move "
            "its files to {}/partition-N, where N is the number of the partition",
            folder, options_.partitions, folder);
    }
    std::error_code error;  // of a directory that cannot be read; opening it reports the reason
    for (auto at = std::filesystem::directory_iterator(folder, error);
         !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
        const std::string name = at->path().filename();
        if (!name.starts_with("partition-") || !store::RocksLog::is_at(at->path())) continue;
        return failure(
            Code::kInvalid,
            "{} holds the data of several partitions, for example {}, but --kv-partitions is 1: start "
            "it with their number, or use {} as the directory of that partition",
            folder, name, at->path().string());
    }
    return Status::ok();
}

Status KvPart::open_log(Part& part, store::Options& store) {
    auto durability = parse_durability(options_.durability);
    if (!durability) return durability.status();
    store.durability = *durability;
    store.heap_limit = options_.index_memory;
    store.window = from_ms(options_.window_ms);
    store.window_floor = std::min(store.window_floor, store.window);
    if (options_.directory.empty()) return Status::ok();
    if (options_.partitions > 1) WSS_TRY(make_folder(options_.directory).within("key-value data"));
    store::RocksOptions rocks;
    rocks.path = directory(part.number);
    rocks.identity = identity(part.number);
    rocks.sync = *durability == store::Durability::kSync;
    // With durability "memory", the directory holds values that do not fit in memory, and only for this run.
    rocks.fresh = *durability == store::Durability::kMemory;
    auto log = store::RocksLog::open(rocks);
    if (!log) return log.status();
    part.log = std::move(*log);
    return Status::ok();
}

// There is one lane per address. Several partitions share one lane, so their addresses must belong to one
// fabric.
Status KvPart::open_lanes() {
    WSS_TRY(reactor_.ready());
    for (const std::string& uri : options_.listen) {
        auto address = fabric::parse_local(uri, kDefaultPort);
        if (!address) return address.status().within("--kv-listen");
        wanted_.push_back(*address);
        if (options_.partitions > 1 && address->scheme != wanted_[0].scheme)
            return Status(Code::kInvalid, "all partitions of one process must listen on the same fabric");
        if (options_.partitions > 1 && !lanes_.empty()) continue;
        auto fabric = fabric::open(*address, credentials_);
        if (!fabric) return fabric.status().within("listen on " + address->to_string());
        fabrics_.push_back(std::move(*fabric));
        auto lane = Lane::create(reactor_, *fabrics_.back());
        if (!lane) return lane.status();
        lanes_.push_back(std::move(*lane));
    }
    return Status::ok();
}

Status KvPart::open_part(uint32_t number) {
    Part& part = parts_.emplace_back();
    part.number = number;
    ServiceOptions options;
    options.partition = number;
    options.partitions = options_.map.empty() ? std::vector<std::string>{options_.listen[0]} : options_.map;
    options.arena_bytes = options_.memory;
    options.terminate_after = from_ms(options_.terminate_ms);
    options.seed = Random::entropy();
    options.store.secret = Random::entropy();
    options.identity = identity(number);
    options.access = access_;
    if (!options_.directory.empty()) options.snapshots = directory(number) + ".snapshots";
    WSS_TRY(open_log(part, options.store));
    auto service = Service::create(reactor_, lanes_, wall_, part.log.get(), options);
    if (!service) return service.status();
    part.service = std::move(*service);
    return Status::ok();
}

Status KvPart::open() {
    WSS_TRY(check_layout());
    WSS_TRY(open_lanes());
    for (uint32_t i = 0; i < options_.partitions; ++i) WSS_TRY(open_part(options_.partition + i));
    WSS_TRY(listen());
    auto thread = start_thread("the key-value partitions", [this] { reactor_.run(); });
    if (!thread) return thread.status();
    thread_ = std::move(*thread);
    pthread_setname_np(thread_.native_handle(), "kv");
    return Status::ok();
}

// Runs before the thread starts, so there is no concurrent access.
Status KvPart::listen() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
        const bool several = options_.partitions > 1;
        auto bound = parts_[several ? i : 0].service->listen(several ? 0 : i, wanted_[i]);
        if (!bound) return bound.status().within("listen on " + wanted_[i].to_string());
        bound_.push_back(*bound);
    }
    return Status::ok();
}

Status KvPart::stop(uint32_t seconds) {
    if (!thread_.joinable()) return Status::ok();
    struct Waiting {
        std::promise<void> over;
        size_t left = 0;  // used on the reactor's thread
    };
    auto waiting = std::make_shared<Waiting>();
    waiting->left = parts_.size();
    auto future = waiting->over.get_future();
    reactor_.post([this, waiting] {
        for (Part& part : parts_)
            part.service->stop([waiting] {
                if (--waiting->left == 0) waiting->over.set_value();
            });
    });
    if (future.wait_for(std::chrono::seconds(seconds)) != std::future_status::ready)
        return failure(Code::kTimedOut, "connections of the key-value service did not close within {} s",
                       seconds);
    reactor_.stop();
    thread_.join();
    Status flushed;
    for (Part& part : parts_)
        if (Status one = part.log ? part.log->flush() : Status::ok(); !one && flushed) flushed = one;
    return flushed;
}

KvPart::~KvPart() {
    if (thread_.joinable()) {
        reactor_.stop();
        thread_.join();
    }
    for (Part& part : parts_) {
        part.service.reset();
        part.log.reset();
    }
    lanes_.clear();
}

std::string KvPart::describe() const {
    size_t all = std::max<size_t>(options_.map.size(), 1);
    std::string text = options_.partitions == 1
                           ? fmt::format("kv partition {} of {} on", options_.partition, all)
                           : fmt::format("kv partitions {} to {} of {} on", options_.partition,
                                         options_.partition + options_.partitions - 1, all);
    for (const auto& address : bound_) text += " " + address.to_string();
    return text;
}

void KvPart::ask_ready(std::function<void(std::string)> answer) {
    reactor_.post([this, answer = std::move(answer)] {
        for (const Part& part : parts_)
            if (!part.service->ready())
                return answer(fmt::format(
                    "partition {} is deciding transactions that it recovered as prepared", part.number));
        answer("");
    });
}

Status KvPart::set_access(std::shared_ptr<const AccessRules> access) {
    access_ = std::move(access);
    auto promise = std::make_shared<std::promise<void>>();
    auto future = promise->get_future();
    reactor_.post([this, promise, rules = access_] {
        for (Part& part : parts_) part.service->set_access(rules);
        promise->set_value();
    });
    if (future.wait_for(kAnswerLimit) == std::future_status::ready) return Status::ok();
    return Status(Code::kTimedOut, "the rights were read, but are not confirmed to be in use");
}

std::vector<std::string> KvPart::infos_json() {
    auto promise = std::make_shared<std::promise<std::vector<std::string>>>();
    auto future = promise->get_future();
    reactor_.post([this, promise] {
        std::vector<std::string> all;
        for (Part& part : parts_) all.push_back(part.service->info_json());
        promise->set_value(std::move(all));
    });
    return future.wait_for(kAnswerLimit) == std::future_status::ready ? future.get()
                                                                      : std::vector<std::string>();
}

}  // namespace wss::kv
