// SPDX-License-Identifier: Apache-2.0
// The daemon with its threads: it starts, serves several initiators on several reactors while volumes are
// created and deleted, and stops. Most useful under ThreadSanitizer.
#include "target/daemon/daemon.h"

#include <atomic>
#include <fstream>
#include <thread>

#include "target/cache/membership.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

// A client's thread with a reactor of its own.
class ClientThread final : public ClientSide {
  public:
    explicit ClientThread(const fabric::Address& address) : address_(address), reactor_(clock_) {
        fabric_ = *std::move(fabric::open(address));
        poller_ = *std::move(fabric_->create_poller());
        reactor_.add(*poller_);
    }
    ~ClientThread() override { reactor_.remove(*poller_); }
    fabric::Fabric& client_fabric() override { return *fabric_; }
    fabric::Poller& client_poller() override { return *poller_; }
    const fabric::Address& address() const override { return address_; }
    bool until(const std::function<bool()>& done) override {
        const Nanoseconds limit = clock_.now() + from_s(20);
        while (!done()) {
            if (clock_.now() > limit) return false;
            if (reactor_.step() == 0) std::this_thread::yield();
        }
        return true;
    }

  private:
    const fabric::Address address_;
    SystemClock clock_;
    reactor::Reactor reactor_;
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
};

control::TargetConfig small_target() {
    control::TargetConfig config;
    config.listen = {"tcp://127.0.0.1:0"};
    config.reactors = 2;
    config.control = "";
    config.volumes = {{.name = "memory", .backend = "ram:8M", .declared = true},
                      {.name = "queue", .backend = "delay:us=1:ram:8M", .declared = true}};
    return config;
}

// Writes and reads its own part of both volumes. Returns the number of errors.
size_t work(const fabric::Address& address, uint8_t initiator, int rounds) {
    ClientThread side(address);
    RawClient client(side);
    client.connect(World::login(initiator, WSS_CAP_ALL));
    if (!side.until([&] { return client.established() || client.refused(); }) || !client.established())
        return 1;
    auto finish = [&](uint64_t tag) {
        return side.until([&] { return client.answered(tag) || client.closed(); }) && client.answered(tag);
    };
    size_t wrong = 0;
    for (int round = 0; round < rounds; ++round)
        for (uint64_t lun : {0u, 1u}) {
            uint64_t lba = initiator * 1024u + static_cast<uint64_t>(round) % 8 * 32;
            fill(client.memory(), 16384, static_cast<uint64_t>(round));
            auto there = client.remote(0, 16384), back = client.remote(65536, 16384);
            uint64_t tag = client.start(lun, cdb_write16(lba, 32), Direction::kOut, {there});
            if (!finish(tag)) return wrong + 1;
            client.take(tag);
            tag = client.start(lun, cdb_read16(lba, 32), Direction::kIn, {back});
            if (!finish(tag)) return wrong + 1;
            client.take(tag);
            wrong += !holds(client.memory() + 65536, 16384, static_cast<uint64_t>(round));
        }
    return wrong;
}

TEST(Daemon, serves_several_initiators_while_volumes_are_created_and_deleted) {
    auto daemon = daemon::Daemon::start(small_target());
    ASSERT_TRUE(daemon.is_ok()) << daemon.status().to_string();
    EXPECT_EQ((*daemon)->describe(), (*daemon)->addresses()[0].to_string() + ", 2 volumes");
    std::atomic<size_t> wrong{0};
    std::vector<std::thread> clients;
    for (uint8_t i = 1; i <= 3; ++i)
        clients.emplace_back([&, i] { wrong += work((*daemon)->addresses()[0], i, 40); });
    for (int i = 0; i < 10; ++i) {
        volume::VolumeSet& volumes = (*daemon)->volumes();
        EXPECT_TRUE(volumes.create({.name = "guest", .backend = "ram:2M", .size = 1 << 20}));
        EXPECT_TRUE(volumes.resize("guest", 2 << 20));
        EXPECT_TRUE(volumes.remove("guest"));
    }
    for (auto& client : clients) client.join();
    EXPECT_EQ(wrong, 0u);
    EXPECT_TRUE((*daemon)->stop());
}

TEST(Daemon, stops_while_initiators_are_busy) {
    auto daemon = daemon::Daemon::start(small_target());
    ASSERT_TRUE(daemon.is_ok()) << daemon.status().to_string();
    std::atomic<int> started{0};
    std::vector<std::thread> clients;
    for (uint8_t i = 1; i <= 2; ++i)
        clients.emplace_back([&, i] {
            ++started;
            work((*daemon)->addresses()[0], i, 100000);
        });
    while (started < 2) std::this_thread::yield();
    EXPECT_TRUE((*daemon)->stop());
    for (auto& client : clients) client.join();
}

TEST(Daemon, reports_what_is_wrong_and_leaves_nothing_behind) {
    auto config = small_target();
    auto first = daemon::Daemon::start(config);
    ASSERT_TRUE(first.is_ok());
    config.listen = {(*first)->addresses()[0].to_string()};
    auto second = daemon::Daemon::start(config);
    ASSERT_FALSE(second.is_ok());
    EXPECT_NE(second.status().to_string().find("in use"), std::string::npos) << second.status().to_string();
    config.listen = {"tcp://127.0.0.1:0"};
    config.volumes[0].backend = "aio:/nonexistent/file";
    auto third = daemon::Daemon::start(config);
    ASSERT_FALSE(third.is_ok());
    EXPECT_NE(third.status().to_string().find("/nonexistent/file"), std::string::npos);
    EXPECT_TRUE((*first)->stop());
}

// Starts the daemon once, so that the state file has the WWIDs of both volumes.
std::vector<volume::VolumeInfo> volumes_after_a_start(const control::TargetConfig& config) {
    auto daemon = daemon::Daemon::start(config);
    EXPECT_TRUE(daemon.is_ok()) << daemon.status().to_string();
    if (!daemon.is_ok()) return {};
    std::vector<volume::VolumeInfo> volumes = (*daemon)->volumes().list();
    EXPECT_TRUE((*daemon)->stop());
    return volumes;
}

TEST(Daemon, without_a_cache_refuses_volumes_whose_dirty_lines_are_in_engines) {
    io::test::TemporaryFolder folder;
    auto config = small_target();
    config.state = folder.file("state.json");
    for (auto& volume : config.volumes) {
        volume.backend = "aio:" + folder.file(volume.name);
        volume.size = 1 << 20;
        volume.create = true;
    }
    const auto before = volumes_after_a_start(config);
    ASSERT_EQ(before.size(), 2u);
    cache::Membership membership;
    membership.storage = 7;
    membership.dirty[before[0].identity.wwid] = {.name = before[0].name, .bytes = before[0].size};
    std::ofstream(config.state + ".cache") << membership.to_text();

    auto daemon = daemon::Daemon::start(config);
    ASSERT_TRUE(daemon.is_ok()) << daemon.status().to_string();
    volume::VolumeSet& volumes = (*daemon)->volumes();
    const auto refused = volumes.find(before[0].name), served = volumes.find(before[1].name);
    ASSERT_TRUE(refused.is_ok() && served.is_ok());
    EXPECT_TRUE(refused->closed);
    EXPECT_NE(refused->trouble.find("--cache-listen"), std::string::npos) << refused->trouble;
    EXPECT_FALSE(served->closed);
    EXPECT_EQ(volumes.reopen(before[0].name, {}).code(), Code::kRefused);
    for (bool give_up_dirty : {false, true})
        EXPECT_EQ(volumes.remove(before[0].name, {give_up_dirty}).code(), Code::kRefused);
    EXPECT_TRUE(volumes.remove(before[1].name));
    EXPECT_TRUE((*daemon)->stop());
}

TEST(Daemon, without_a_cache_refuses_a_damaged_cache_state) {
    io::test::TemporaryFolder folder;
    auto config = small_target();
    config.state = folder.file("state.json");
    std::ofstream(config.state + ".cache") << "{";
    auto daemon = daemon::Daemon::start(config);
    EXPECT_EQ(daemon.status().code(), Code::kInvalid) << daemon.status().to_string();
    if (daemon.is_ok()) (void)(*daemon)->stop();
}

}  // namespace
}  // namespace wss::block::testing
