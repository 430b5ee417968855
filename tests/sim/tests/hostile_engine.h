// SPDX-License-Identifier: Apache-2.0
// HostileEngine: a peer that sends the records of a cache engine (lib/wire/cache.h) with arbitrary claims,
// and the fixture of a target that it joins.
#pragma once

#include <gtest/gtest.h>

#include "lib/base/log.h"
#include "lib/cache/engine/record_link.h"
#include "tests/sim/scenarios/block_client.h"
#include "tests/sim/scenarios/cluster_parts.h"

namespace wss::sim {

using wire::RecordType;

// Sends the records that a test gives it. Answers pings, and operations if `obedient`.
class HostileEngine final : public cache::RecordLinkOwner {
  public:
    HostileEngine(Node& node, const fabric::SimNetwork& network)
        : node_(node),
          reactor_(node.clock(), {.spin = kNever}),
          fabric_(fabric::open_sim(node, network)),
          poller_(std::move(*fabric_->create_poller())) {
        reactor_.add(*poller_);
        node_.run(reactor_);
    }
    ~HostileEngine() {
        node_.forget(reactor_);
        link_.reset();
        reactor_.remove(*poller_);
    }

    void join(const wire::CacheJoin& join) {
        over = welcomed = asked_for_proof = false;
        link_ = std::move(*cache::RecordLink::create(*fabric_, {}, *this));
        std::array<std::byte, 64> data;
        const size_t length = wire::encode_cache_join(join, data);
        const fabric::Address target{.scheme = fabric::Scheme::kSim, .host = "target", .port = kStoragePort};
        ASSERT_TRUE(link_->connect(*poller_, target, {data.data(), length}));
    }
    template <typename Put>
    void say(Put&& put) {
        if (!link_->is_up()) return;
        link_->wrote(put(link_->room()));
        link_->flush();
    }
    void item(uint32_t slot) {
        say([&](auto room) { return wire::put_header(RecordType::kItem, 0, {slot, {}}, room); });
    }
    void inventory_end(uint32_t slots) {
        say([&](auto room) { return wire::put_slot(RecordType::kInventoryEnd, 0, slots, room); });
    }
    void plain(RecordType type, uint32_t id = 0) {
        say([&](auto room) { return wire::put_plain(type, 0, id, room); });
    }
    void handle(RecordType type, uint64_t which) {
        say([&](auto room) { return wire::put_handle(type, which, room); });
    }
    void close() { link_->close(Status(Code::kClosed, "the test ends")); }

    bool asked_for_proof = false;
    bool welcomed = false, over = true, obedient = true, pongs_of_grants = true;
    std::string why;
    wire::CacheWelcome welcome;
    uint64_t granted = 0;  // the last handle
    uint64_t storage_commands = 0;
    bool refuses = false;  // answers operations with an error
    uint64_t refused = 0;

  private:
    bool link_up(cache::RecordLink&, std::span<const std::byte> data) noexcept override {
        asked_for_proof = wire::is_cache_prove(data);
        welcomed = wire::parse_cache_welcome(data, welcome) == wire::ParseError::kNone;
        return true;
    }
    bool record(cache::RecordLink&, const wire::Record& record) noexcept override {
        wire::CacheLogin login;
        switch (record.type) {
            case RecordType::kPing:
                if (record.id == 0 || pongs_of_grants) plain(RecordType::kPong, record.id);
                break;
            case RecordType::kGrant:
                if (wire::parse_grant(record, login) == wire::ParseError::kNone) granted = login.handle;
                break;
            case RecordType::kStorage:
                ++storage_commands;
                if (obedient) plain(RecordType::kDone, record.id);
                break;
            case RecordType::kMove:
            case RecordType::kHeader:
            case RecordType::kWipe:
                if (refuses) {
                    ++refused;
                    say([&](auto room) {
                        return wire::put_plain(RecordType::kDone,
                                               static_cast<uint8_t>(wire::CacheStatus::kFailed), record.id,
                                               room);
                    });
                } else if (obedient)
                    plain(RecordType::kDone, record.id);
                break;
            default:
                break;
        }
        return true;
    }
    void operation_over(cache::RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(cache::RecordLink&, const Status& status) noexcept override {
        over = true;
        why = status.to_string();
    }

    Node& node_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<cache::RecordLink> link_;
};

constexpr uint32_t kLineBytes = 65536;

class HostileEngines : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(log::set_level(getenv("WSS_LOG") != nullptr ? getenv("WSS_LOG") : "off"));
        start_target();
    }
    void TearDown() override {
        retire(std::move(client_));
        retire(std::move(target_));
        retire(std::move(peer_));
    }
    void start_target(uint64_t lines_max = 1024, uint64_t remote = 0,
                      std::shared_ptr<const auth::SecretBook> secrets = nullptr) {
        cache::CacheOptions options;
        options.engine_secrets = std::move(secrets);
        options.commands = 16;
        options.lines_max = lines_max;
        target_ =
            std::make_unique<ClusterTarget>(node_, network_, network_, disk_, membership_, options, remote);
        target_->start();
        ASSERT_TRUE(until([&] { return target_->started(); }));
        peer_ = std::make_unique<HostileEngine>(peer_node_, network_);
    }
    bool until(const std::function<bool()>& done) { return world_.run_until(done, from_s(30)); }
    void join(uint64_t lines, bool is_storage = false) {
        peer_->join({.engine = ++identity_, .memory = lines * kLineBytes, .is_storage = is_storage});
        ASSERT_TRUE(until([&] { return peer_->welcomed || peer_->over; }));
    }
    bool is_closed() {
        return until([&] { return peer_->over && target_->cache().info().engines.empty(); });
    }
    bool is_live() {
        return until([&] {
            const auto info = target_->cache().info();
            return !info.engines.empty() && info.engines[0].state == "live";
        });
    }
    void set_policy(const cache::PolicySettings& settings) {
        Status set = Status(Code::kBusy);
        target_->cache().set_policy("disk", settings, [&](Status status) { set = status; });
        ASSERT_TRUE(until([&] { return set.is_ok(); }));
    }
    // The target still works: it serves a command of a client.
    void expect_service() {
        client_ = std::make_unique<BlockClient>(client_node_, network_, "target", 8, shared_);
        client_->start();
        ASSERT_TRUE(until([&] { return client_->live(); }));
        ASSERT_TRUE(client_->begin(initiator::Operation::kWrite, 0, 8));
        ASSERT_TRUE(until([&] { return client_->under_way() == 0; }));
        EXPECT_EQ(client_->last_outcome(), initiator::Outcome::kOk);
    }

    const fabric::SimNetwork network_{};
    World world_{1};
    Node& node_ = world_.add_node("target");
    Node& peer_node_ = world_.add_node("peer");
    Node& client_node_ = world_.add_node("client");
    io::SimDiskFaults disk_faults_{};
    io::SimDisk disk_{world_, 8192 * io::SimDisk::kSector, disk_faults_};
    BlockShared shared_{8192};
    StableText membership_;
    std::unique_ptr<ClusterTarget> target_;
    std::unique_ptr<HostileEngine> peer_;
    std::unique_ptr<BlockClient> client_;
    uint64_t identity_ = 100;
};

}  // namespace wss::sim
