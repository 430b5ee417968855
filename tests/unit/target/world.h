// SPDX-License-Identifier: Apache-2.0
// A target and raw SRP clients in one process and one thread. step() drives everything, over loopback TCP.
//
// The client uses only the wire codecs and shares no code with the initiator library. Otherwise both sides
// could make the same mistake.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/fabric/open.h"
#include "lib/reactor/reactor.h"
#include "lib/wire/scsi.h"
#include "lib/wire/srp.h"
#include "target/block/service.h"
#include "target/block/volume_regions.h"
#include "target/volume/volume_set.h"

namespace wss::block::testing {

using std::byte;

// The response for one tag.
struct Answer {
    bool fused = false;
    bool batched = false;  // it was in one message with other responses
    wire::Response response;
    std::vector<byte> sense;
    bool invalidated = false;
    wire::Sense parsed_sense() const {
        wire::Sense parsed;
        EXPECT_TRUE(wire::parse_sense(sense, parsed));
        return parsed;
    }
};

// The environment of a client.
class ClientSide {
  public:
    virtual ~ClientSide() = default;
    virtual fabric::Fabric& client_fabric() = 0;
    virtual fabric::Poller& client_poller() = 0;
    virtual const fabric::Address& address() const = 0;
    // Steps until `done`, for at most ten seconds. Returns false if it was not done by then.
    [[nodiscard]] virtual bool until(const std::function<bool()>& done) = 0;
};

// One channel of an initiator.
class RawClient final : public fabric::ConnectionHandler {
  public:
    RawClient(ClientSide& world, size_t memory_bytes = 4 << 20);
    ~RawClient() override;

    // Starts connecting; see World::until().
    void connect(const wire::LoginRequest& login);
    bool established() const { return established_; }
    bool refused() const { return refused_; }
    bool closed() const { return closed_; }
    const wire::LoginResponse& login() const { return login_; }
    const wire::LoginReject& reject() const { return reject_; }
    uint32_t credits() const { return credits_; }

    // Memory that the target may access.
    byte* memory() { return region_->bytes().data(); }
    wire::RemoteBuffer remote(size_t offset, uint32_t length) const {
        return {region_->remote_address() + offset, region_->rkey(0), length};
    }
    void revoke_memory() { region_.reset(); }

    // Sends the message unchanged.
    void send(std::span<const byte> message);
    // Sends a command with the data buffers `data` and returns its tag.
    uint64_t start(uint64_t lun, std::span<const byte> cdb, wire::CommandRequest::Direction direction,
                   std::vector<wire::RemoteBuffer> data);
    uint64_t start_immediate(uint64_t lun, std::span<const byte> cdb, std::span<const byte> data);
    bool answered(uint64_t tag) const { return answers_.contains(tag); }
    Answer take(uint64_t tag);
    void close() { connection_->close(); }
    // The client reuses tags on purpose: two responses for a tag are not an error then.
    bool repeats_tags = false;
    // Other messages of the target, oldest first.
    std::vector<std::vector<byte>> others;

    void on_established(fabric::Connection&, std::span<const byte> data) noexcept override;
    void on_refused(fabric::Connection&, const Status&, std::span<const byte> data) noexcept override;
    void on_completions(fabric::Connection&, std::span<const fabric::Completion>) noexcept override;
    void on_closed(fabric::Connection&, const Status&) noexcept override;

  private:
    static constexpr uint32_t kReceives = 300;
    static constexpr uint32_t kReceiveBytes = 512;
    static constexpr uint32_t kSends = 300;
    void post_receive(uint64_t index);
    void received(std::span<const byte> message, const fabric::Completion& completion);

    ClientSide& world_;
    std::unique_ptr<fabric::Region> region_, receive_region_, send_region_;
    std::unique_ptr<fabric::Connection> connection_;
    wire::LoginResponse login_;
    wire::LoginReject reject_;
    bool established_ = false, refused_ = false, closed_ = false;
    uint32_t credits_ = 0;
    uint64_t next_tag_ = 1;
    uint32_t next_send_ = 0;
    std::map<uint64_t, Answer> answers_;
};

// A clock that a test advances.
class HandClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return now_; }
    void advance(Nanoseconds by) noexcept { now_ = now_ + by; }

  private:
    Nanoseconds now_ = from_s(1000);
};

struct WorldOptions {
    size_t reactors = 1;
    Clock* clock = nullptr;  // clock of the target's reactors; nullptr: the system clock
    Service::Options service;
    volume::VolumeSet::Options volumes;
    uint16_t port = 0;  // 0: any
};

class World final : public ClientSide {
  public:
    explicit World(WorldOptions options = {});
    ~World() override;

    void step();
    void step_target();          // the clients are not stepped
    bool clients_sleep = false;  // step() is step_target()
    [[nodiscard]] bool until(const std::function<bool()>& done) override;
    void add_volume(const std::string& name, const std::string& backend, uint64_t size, uint32_t block = 512);

    // Returns a logged-in channel; the test fails if the login fails.
    std::unique_ptr<RawClient> client(uint8_t initiator = 1, uint32_t caps = 0, bool multi = false);
    static wire::LoginRequest login(uint8_t initiator, uint32_t caps, bool multi = false);
    // Runs one command to its end.
    Answer run(RawClient& client, uint64_t lun, std::span<const byte> cdb,
               wire::CommandRequest::Direction direction, std::vector<wire::RemoteBuffer> data);
    Answer read(RawClient& client, uint64_t lun, uint64_t lba, uint32_t blocks, size_t offset,
                uint32_t bytes);
    Answer write(RawClient& client, uint64_t lun, uint64_t lba, uint32_t blocks, size_t offset,
                 uint32_t bytes);
    CounterTotals totals();

    Service& service() { return *service_; }
    volume::VolumeSet& volumes() { return *volumes_; }
    fabric::Fabric& client_fabric() override { return *client_fabric_; }
    fabric::Poller& client_poller() override { return *client_poller_; }
    const fabric::Address& address() const override { return address_; }
    reactor::Reactor& reactor(size_t index = 0) { return *reactors_[index]; }
    void stop();
    // Called before and after the turns of the target's reactors.
    std::function<void()> before_target_steps, after_target_steps;

  private:
    SystemClock clock_;
    std::unique_ptr<fabric::Fabric> target_fabric_, client_fabric_;
    std::vector<std::unique_ptr<reactor::Reactor>> reactors_;
    std::unique_ptr<reactor::Reactor> client_reactor_;
    std::unique_ptr<fabric::Poller> client_poller_;
    std::unique_ptr<volume::VolumeSet> volumes_;
    std::unique_ptr<Service> service_;
    fabric::Address address_;
    bool stopped_ = false;
};

// Builders of CDBs.
std::vector<byte> cdb_read16(uint64_t lba, uint32_t blocks);
std::vector<byte> cdb_write16(uint64_t lba, uint32_t blocks, bool fua = false);
std::vector<byte> cdb(std::initializer_list<int> bytes);

void fill(byte* at, size_t bytes, uint64_t seed);
bool holds(const byte* at, size_t bytes, uint64_t seed);

}  // namespace wss::block::testing
