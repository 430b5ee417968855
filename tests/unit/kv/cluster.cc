// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kv/cluster.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <future>

#include "lib/fabric/open.h"
#include "lib/kv/placement.h"

namespace wss::kv::test {

namespace {

// Returns a free port below the ephemeral range, so that no connection can take it before the server starts.
// Concurrent processes usually draw from different ranges.
uint16_t free_port() {
    static std::atomic<uint32_t> drawn{0};
    constexpr uint32_t kRange = 100;
    const uint32_t base = 10'000 + static_cast<uint32_t>(getpid()) % 100 * kRange;
    for (uint32_t attempt = 0; attempt < kRange; ++attempt) {
        const auto port = static_cast<uint16_t>(base + drawn++ % kRange);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int on = 1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_zero = {}};
        const bool free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
        ::close(fd);
        if (free) return port;
    }
    ADD_FAILURE() << "no port from " << base << " to " << base + kRange - 1 << " is free";
    return 0;
}

}  // namespace

NamedSecret secret_of(const std::string& name) {
    return {.name = name, .secret = Secret("the-secret-of-" + name)};
}

fabric::tls::Credentials credentials_of(const std::string& name) {
    return {.files = {}, .identity = secret_of(name), .known = {}};
}

namespace {

fabric::tls::Credentials credentials_of_partition() {
    std::vector<NamedSecret> known;
    for (const char* name : {"p", "alice", "bob", "carol"}) known.push_back(secret_of(name));
    fabric::tls::Credentials credentials = credentials_of("p");
    credentials.known = std::make_shared<fabric::tls::KnownPeers>(known);
    return credentials;
}

std::shared_ptr<const AccessRules> parsed(const std::vector<std::string>& rules) {
    auto parsed = AccessRules::parse(rules);
    EXPECT_TRUE(parsed) << parsed.status().to_string();
    return parsed->empty() ? nullptr : std::make_shared<const AccessRules>(std::move(*parsed));
}

}  // namespace

struct Cluster::Node {
    class MovedClock final : public Clock {
      public:
        Nanoseconds now() noexcept override { return right_.now() + Nanoseconds{moved_by_.load()}; }
        void pass(Nanoseconds time) { moved_by_ += time.count; }

      private:
        SystemClock right_;
        std::atomic<int64_t> moved_by_{0};
    };
    MovedClock clock;
    explicit Node(int64_t ahead_us) : wall(ahead_us) {}
    WrongWallClock wall;
    reactor::Reactor reactor{clock};
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<Service> service;
    std::thread thread;
};

Cluster::Cluster(Options options) : options_(std::move(options)) {
    static std::atomic<int> clusters{0};
    int number = clusters++;
    for (uint32_t i = 0; i < options_.partitions; ++i)
        addresses_.push_back(options_.scheme != "shm"
                                 ? fmt::format("{}://127.0.0.1:{}", options_.scheme, free_port())
                                 : fmt::format("shm:///tmp/wss-kv-test.{}.{}.{}", getpid(), number, i));
    nodes_.resize(options_.partitions);
    for (uint32_t i = 0; i < options_.partitions; ++i) start(i);
}

void Cluster::start(uint32_t partition) {
    const auto& ahead = options_.clocks_ahead_us;
    nodes_[partition] = std::make_unique<Node>(partition < ahead.size() ? ahead[partition] : 0);
    Node& node = *nodes_[partition];
    auto address = fabric::Address::parse(addresses_[partition], kDefaultPort);
    ASSERT_TRUE(address) << address.status().to_string();
    auto fabric = fabric::open(
        *address, options_.scheme == "tls" ? credentials_of_partition() : fabric::tls::Credentials{});
    ASSERT_TRUE(fabric) << fabric.status().to_string();
    node.fabric = std::move(*fabric);
    ServiceOptions options;
    options.partition = partition;
    options.partitions = addresses_;
    options.arena_bytes = options_.arena_bytes;
    options.store.window = options_.window;
    options.store.window_floor = std::min(options_.window, options.store.window_floor);
    options.store.decision_window = options_.decision_window;
    options.terminate_after = options_.terminate_after;
    options.store.prepared_max = options_.prepared_max;
    options.store.heap_limit = options_.heap_limit;
    options.seed = Random::entropy();
    options.access = parsed(options_.access);
    if (!options_.snapshots.empty()) options.snapshots = fmt::format("{}/{}", options_.snapshots, partition);
    store::Log* log = partition < options_.logs.size() ? options_.logs[partition] : nullptr;
    if (log != nullptr) options.store.durability = store::Durability::kSync;
    auto service = Service::create(node.reactor, {node.fabric.get()}, node.wall, log, options);
    ASSERT_TRUE(service) << service.status().to_string();
    node.service = std::move(*service);
    auto bound = node.service->listen(0, *address);
    ASSERT_TRUE(bound) << bound.status().to_string();
    node.thread = std::thread([&node] { node.reactor.run(); });
}

void Cluster::on(uint32_t partition, const std::function<void(Service&)>& task) {
    Node& node = *nodes_[partition];
    std::promise<void> done;
    node.reactor.post([&] {
        task(*node.service);
        done.set_value();
    });
    done.get_future().get();
}

void Cluster::set_access(const std::vector<std::string>& rules) {
    options_.access = rules;
    for (uint32_t i = 0; i < nodes_.size(); ++i)
        on(i, [&](Service& service) { service.set_access(parsed(rules)); });
}

void Cluster::step_clock(uint32_t partition, int64_t ahead_us) {
    nodes_[partition]->wall.step(ahead_us);
}

void Cluster::pass(uint32_t partition, Nanoseconds time) {
    nodes_[partition]->clock.pass(time);
}

ServiceCounters Cluster::counters(uint32_t partition) {
    ServiceCounters counters;
    on(partition, [&](Service& service) { counters = service.counters(); });
    return counters;
}

void Cluster::stop(uint32_t partition, const std::function<void()>& before) {
    Node& node = *nodes_[partition];
    if (!node.service) return;
    std::promise<void> still, released, done;
    node.reactor.post([&] {
        still.set_value();
        released.get_future().wait();
        node.service->stop([&] { done.set_value(); });
    });
    still.get_future().wait();
    if (before) before();
    released.set_value();
    EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    node.reactor.stop();
    node.thread.join();
    node.service.reset();
}

void Cluster::abandon(uint32_t partition) {
    Node& node = *nodes_[partition];
    node.reactor.stop();
    node.thread.join();
    node.service.reset();
}

Cluster::~Cluster() {
    for (uint32_t i = 0; i < nodes_.size(); ++i) stop(i);
}

std::string key_on(uint32_t partition, uint32_t partitions) {
    std::string key = "key";
    while (partition_of(fingerprint(key), partitions) != partition) key += 'x';
    return key;
}

Status put(LocalClient& client, const std::vector<std::pair<std::string, std::string>>& items) {
    PutAll request;
    for (const auto& [key, value] : items) request.items.push_back({.key = key, .value = value});
    client.run(request);
    return request.status;
}

std::vector<std::string> get(LocalClient& client, const std::vector<std::string>& keys) {
    GetAll request;
    for (const auto& key : keys) request.items.emplace_back().key = key;
    client.run(request);
    EXPECT_TRUE(request.status) << request.status.to_string();
    std::vector<std::string> values;
    for (const auto& item : request.items) values.push_back(item.found ? item.value : "(none)");
    return values;
}

}  // namespace wss::kv::test
