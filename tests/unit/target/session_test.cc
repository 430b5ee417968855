// SPDX-License-Identifier: Apache-2.0
// Sessions: granted and refused logins, fencing, several channels, keep-alive, notifications, and their end.
#include "tests/unit/target/world.h"

namespace wss::block::testing {
namespace {

using Direction = wire::CommandRequest::Direction;

class Sessions : public ::testing::Test {
  protected:
    // Starts a login and waits for the response.
    std::unique_ptr<RawClient> attempt(World& world, const wire::LoginRequest& login) {
        auto client = std::make_unique<RawClient>(world);
        client->connect(login);
        EXPECT_TRUE(world.until([&] { return client->established() || client->refused(); }));
        return client;
    }
};

TEST_F(Sessions, refuse_a_login_with_too_large_an_iu_with_a_reason) {
    World world;
    auto login = world.login(1, 0);
    login.max_it_iu = 1 << 20;
    auto client = attempt(world, login);
    ASSERT_TRUE(client->refused());
    EXPECT_EQ(client->reject().reason, uint32_t{WSS_SRP_REJ_REQ_IT_IU_LENGTH_TOO_LARGE});
    EXPECT_EQ(client->reject().text(), "IU length 1048576 is too large: the maximum is 16452");
    EXPECT_EQ(client->reject().tag, 77u);
}

// Login of the same initiator port to another target port.
static wire::LoginRequest login_of(uint8_t initiator, uint8_t target) {
    auto login = World::login(initiator, 0);
    login.target_port[0] = target;
    return login;
}

TEST_F(Sessions, of_one_name_are_limited_in_number) {
    World world({.service = {.limits = {.sessions_per_name = 2}}});
    auto first = attempt(world, login_of(1, 1)), second = attempt(world, login_of(1, 2));
    ASSERT_TRUE(first->established() && second->established());
    auto third = attempt(world, login_of(1, 3));
    ASSERT_TRUE(third->refused());
    EXPECT_EQ(third->reject().reason, uint32_t{WSS_SRP_REJ_INSUFFICIENT_RESOURCES});
    EXPECT_NE(third->reject().text().find("has 2 sessions, which is the limit"), std::string::npos)
        << third->reject().text();
    EXPECT_TRUE(attempt(world, login_of(2, 1))->established()) << "another name";
    EXPECT_TRUE(attempt(world, login_of(1, 2))->established()) << "it replaces its own session";
    EXPECT_EQ(world.service().sessions().use().refused_name_sessions, 1u);
    ASSERT_TRUE(world.until([&] { return world.service().sessions().count() == 1; }));
    EXPECT_EQ(world.service().sessions().use().sessions, 1u);
    EXPECT_TRUE(attempt(world, login_of(1, 3))->established()) << "there is room again";
}

TEST_F(Sessions, of_one_source_are_limited_in_number) {
    World world({.service = {.limits = {.sessions_per_source = 2}}});
    auto first = attempt(world, login_of(1, 1)), second = attempt(world, login_of(2, 1));
    ASSERT_TRUE(first->established() && second->established());
    auto third = attempt(world, login_of(3, 1));
    ASSERT_TRUE(third->refused());
    EXPECT_NE(third->reject().text().find("source 127.0.0.1 has 2 sessions, which is the limit"),
              std::string::npos)
        << third->reject().text();
    EXPECT_EQ(world.service().sessions().use().refused_source_sessions, 1u);
    EXPECT_EQ(world.service().sessions().use().channels, 2u);
}

// A port of the target whose connections seem to come from another host.
class Elsewhere final : public fabric::ListenHandler, public ClientSide {
  public:
    Elsewhere(World& world, const std::string& host) : world_(world), host_(host) {
        listener_ = *std::move(world.service().worker(0).lane(0).poller().listen(
            {.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0}, *this));
        address_ = listener_->address();
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        world_.service().sessions().connect_requested(
            0, std::make_unique<Moved>(std::move(request), host_ + ":4711"));
    }
    fabric::Fabric& client_fabric() override { return world_.client_fabric(); }
    fabric::Poller& client_poller() override { return world_.client_poller(); }
    const fabric::Address& address() const override { return address_; }
    bool until(const std::function<bool()>& done) override { return world_.until(done); }

  private:
    class Moved final : public fabric::ConnectRequest {
      public:
        Moved(std::unique_ptr<fabric::ConnectRequest> request, std::string peer)
            : request_(std::move(request)), peer_(std::move(peer)) {}
        std::span<const std::byte> data() const override { return request_->data(); }
        std::string peer() const override { return peer_; }
        Result<std::unique_ptr<fabric::Connection>> create(fabric::Poller& poller,
                                                           const fabric::ConnectionOptions& options,
                                                           fabric::ConnectionHandler& handler) override {
            return request_->create(poller, options, handler);
        }
        void reject(std::span<const std::byte> data) noexcept override { request_->reject(data); }

      private:
        std::unique_ptr<fabric::ConnectRequest> request_;
        const std::string peer_;
    };
    World& world_;
    const std::string host_;
    std::unique_ptr<fabric::Listener> listener_;
    fabric::Address address_;
};

TEST_F(Sessions, of_one_source_cannot_exceed_their_limit_by_replacing_those_of_others) {
    World world({.service = {.limits = {.sessions_per_source = 2}}});
    Elsewhere elsewhere(world, "10.9.9.9");
    auto attempt_from = [](ClientSide& side, const wire::LoginRequest& login) {
        auto client = std::make_unique<RawClient>(side);
        client->connect(login);
        EXPECT_TRUE(side.until([&] { return client->established() || client->refused(); }));
        return client;
    };
    auto theirs = attempt_from(elsewhere, login_of(1, 1)), others = attempt_from(elsewhere, login_of(2, 1));
    ASSERT_TRUE(theirs->established() && others->established());
    auto first = attempt(world, login_of(3, 1));
    ASSERT_TRUE(first->established());
    auto moved = attempt(world, login_of(1, 1));
    ASSERT_TRUE(moved->established()) << "the source may have two sessions";
    EXPECT_TRUE(theirs->closed());
    auto beyond = attempt(world, login_of(2, 1));
    ASSERT_TRUE(beyond->refused());
    EXPECT_NE(beyond->reject().text().find("source 127.0.0.1 has 2 sessions, which is the limit"),
              std::string::npos)
        << beyond->reject().text();
    EXPECT_FALSE(others->closed()) << "no session replaces it";
    EXPECT_TRUE(attempt(world, login_of(1, 1))->established()) << "its own session";
    EXPECT_EQ(world.service().sessions().use().refused_source_sessions, 1u);
}

TEST_F(Sessions, give_one_place_to_one_of_several_logins_that_wait_for_it) {
    World world({.service = {.limits = {.sessions_per_source = 1}}});
    Elsewhere first_host(world, "10.9.9.1"), second_host(world, "10.9.9.2");
    RawClient first(first_host), second(second_host);
    first.connect(login_of(1, 1));
    second.connect(login_of(2, 1));
    ASSERT_TRUE(world.until([&] { return first.established() && second.established(); }));
    // Both logins arrive in one turn of the target, which sees no session to replace.
    RawClient one(world), two(world);
    one.connect(login_of(1, 1));
    two.connect(login_of(2, 1));
    ASSERT_TRUE(world.until(
        [&] { return (one.established() || one.refused()) && (two.established() || two.refused()); }));
    EXPECT_NE(one.established(), two.established());
    EXPECT_LE(world.service().sessions().use().sessions, 2u);
}

TEST_F(Sessions, must_exist_before_a_second_channel_can_join_them) {
    World world;
    auto client = attempt(world, world.login(1, 0, true));
    ASSERT_TRUE(client->refused());
    EXPECT_EQ(client->reject().reason, uint32_t{WSS_SRP_REJ_UNABLE_ASSOCIATE_CHANNEL});
}

TEST_F(Sessions, have_channels_that_spread_over_the_reactors_and_share_an_epoch) {
    World world({.reactors = 2});
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto first = world.client(1, WSS_CAP_ALL);
    auto second = world.client(1, WSS_CAP_ALL, true);
    EXPECT_EQ(first->login().session_epoch, second->login().session_epoch);
    EXPECT_EQ(second->login().multi_channel, wire::MultiChannelResult::kMaintained);
    EXPECT_EQ(world.service().sessions().count(), 1u);
    fill(first->memory(), 4096, 1);
    world.write(*first, 0, 0, 8, 0, 4096);
    world.read(*second, 0, 0, 8, 0, 4096);
    EXPECT_TRUE(holds(second->memory(), 4096, 1));
    EXPECT_EQ(world.service().worker(0).lane(0).channels(), 1u);
    EXPECT_EQ(world.service().worker(1).lane(0).channels(), 1u);
}

TEST_F(Sessions, are_granted_only_requested_capabilities) {
    World world;
    auto client = world.client(1, WSS_CAP_KEEPALIVE | 1u << 30);
    EXPECT_EQ(client->login().caps, uint32_t{WSS_CAP_KEEPALIVE});
    EXPECT_EQ(client->login().keepalive_ms, kKeepaliveDefault_ms);
    EXPECT_GT(client->login().session_epoch, 0u);
}

TEST_F(Sessions, make_a_new_single_login_wait_until_writes_of_the_old_session_have_ended) {
    World world({.service = {.fence_timeout = from_s(9)}});
    world.add_volume("v0", "delay:us=100000,op=write:ram:4M", 4 << 20);
    auto old = world.client(1, WSS_CAP_ALL);
    fill(old->memory(), 4096, 1);
    std::vector<byte> data(4096);
    fill(data.data(), 4096, 1);
    uint64_t tag = old->start_immediate(0, cdb_write16(0, 8), data);
    // The write has reached the storage.
    ASSERT_TRUE(world.until([&] { return world.totals().immediate == 1; }));
    auto fresh = std::make_unique<RawClient>(world);
    fresh->connect(world.login(1, WSS_CAP_ALL));
    ASSERT_TRUE(world.until([&] { return old->closed(); }));
    EXPECT_FALSE(fresh->established()) << "granted while an old write is still in flight to the storage";
    ASSERT_TRUE(world.until([&] { return fresh->established(); }));
    EXPECT_EQ(fresh->login().multi_channel, wire::MultiChannelResult::kTerminated);
    EXPECT_GT(fresh->login().session_epoch, old->login().session_epoch);
    EXPECT_FALSE(old->answered(tag));
    // The contents that the new session reads must not change later: the old write is complete, or has no
    // effect.
    world.read(*fresh, 0, 0, 8, 0, 4096);
    EXPECT_TRUE(holds(fresh->memory(), 4096, 1));
}

TEST_F(Sessions, refuse_a_login_in_bounded_time_if_the_old_writes_do_not_end) {
    World world({.service = {.fence_timeout = from_ms(300)}});
    world.add_volume("v0", "delay:us=1500000,op=write:ram:4M", 4 << 20);
    auto old = world.client(1);
    std::vector<byte> data(512);
    old->start_immediate(0, cdb_write16(0, 1), data);
    ASSERT_TRUE(world.until([&] { return world.totals().immediate == 1; }));
    auto fresh = attempt(world, world.login(1, 0));
    ASSERT_TRUE(fresh->refused());
    EXPECT_EQ(fresh->reject().text(), "writes of the previous session are still in flight; try again");
}

TEST_F(Sessions, of_other_initiators_are_not_affected_by_a_fence) {
    World world;
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto a = world.client(1), b = world.client(2);
    auto a_again = world.client(1);
    EXPECT_TRUE(a->closed());
    EXPECT_FALSE(b->closed());
    EXPECT_EQ(world.read(*b, 0, 0, 8, 0, 4096).response.status, wire::kGood);
}

TEST_F(Sessions, answer_a_keep_alive_with_its_tag) {
    World world;
    auto client = world.client(1, WSS_CAP_KEEPALIVE);
    std::array<byte, 16> message{};
    wire::encode_short({.opcode = WSS_SRP_KEEPALIVE_REQ, .tag = 99}, message);
    for (int i = 0; i < 500; ++i) {
        client->send(message);
        ASSERT_TRUE(world.until([&] { return client->others.size() == size_t(i + 1); })) << i;
    }
    wire::ShortMessage answer;
    ASSERT_EQ(wire::parse_short(client->others[0], answer), wire::ParseError::kNone);
    EXPECT_EQ(answer.opcode, WSS_SRP_KEEPALIVE_RSP);
    EXPECT_EQ(answer.tag, 99u);
}

TEST_F(Sessions, that_are_silent_are_closed_only_if_they_use_keep_alive) {
    World world({.service = {.limits = {.keepalive_ms = 300}}});
    auto stock = world.client(1), silent = world.client(2, WSS_CAP_KEEPALIVE);
    ASSERT_TRUE(world.until([&] { return silent->closed(); }));
    EXPECT_FALSE(stock->closed());
}

TEST_F(Sessions, report_a_resize_to_our_peer_with_a_notification_and_to_a_stock_one_with_a_unit_attention) {
    World world;
    world.add_volume("v0", "ram:8M", 4 << 20);
    auto ours = world.client(1, WSS_CAP_NOTIFY), stock = world.client(2);
    bool done = false;
    world.volumes().resize_async("v0", 8 << 20, [&](Status status) {
        EXPECT_TRUE(status.is_ok()) << status.to_string();
        done = true;
    });
    ASSERT_TRUE(world.until([&] { return done && !ours->others.empty(); }));
    wire::Notify notify;
    ASSERT_EQ(wire::parse_notify(ours->others[0], notify), wire::ParseError::kNone);
    EXPECT_EQ(notify.event, WSS_SRP_NOTIFY_RESIZED);
    auto attention = world.read(*stock, 0, 0, 1, 0, 512);
    EXPECT_EQ(attention.response.status, wire::kCheckCondition);
    EXPECT_EQ(attention.parsed_sense().code, wire::AdditionalSense::kCapacityChanged);
    EXPECT_EQ(world.read(*stock, 0, 0, 1, 0, 512).response.status, wire::kGood) << "reported once";
    EXPECT_EQ(world.read(*ours, 0, (8 << 20) / 512 - 1, 1, 0, 512).response.status, wire::kGood);
}

TEST_F(Sessions, answer_commands_in_flight_before_a_stopping_target_closes) {
    World world;
    world.add_volume("v0", "delay:us=50000:ram:4M", 4 << 20);
    auto client = world.client(1);
    uint64_t tag = client->start(0, cdb_read16(0, 8), Direction::kIn, {client->remote(0, 4096)});
    ASSERT_TRUE(world.until([&] { return world.totals().commands == 1; }));
    world.stop();
    EXPECT_TRUE(client->answered(tag));
    ASSERT_TRUE(world.until([&] { return client->closed(); }));
    ASSERT_EQ(client->others.size(), 1u);
    EXPECT_EQ(wire::opcode_of(client->others[0]), WSS_SRP_T_LOGOUT);
}

TEST_F(Sessions, show_a_volume_that_is_removed_as_an_absent_unit) {
    World world;
    world.add_volume("v0", "ram:4M", 4 << 20);
    auto client = world.client(1, WSS_CAP_NOTIFY);
    bool done = false;
    world.volumes().remove_async("v0", [&](Status) { done = true; });
    ASSERT_TRUE(world.until([&] { return done && !client->others.empty(); }));
    auto answer = world.read(*client, 0, 0, 1, 0, 512);
    EXPECT_EQ(answer.parsed_sense().code, wire::AdditionalSense::kLunNotSupported);
}

WorldOptions impatient(Nanoseconds silence_max) {
    WorldOptions options;
    options.service.silence_probe = from_ms(300);
    options.service.silence_max = silence_max;
    return options;
}

TEST_F(Sessions, without_keep_alive_end_if_the_initiator_answers_no_probe) {
    World world(impatient(from_ms(1200)));
    auto dead = world.client(1, 0);
    ASSERT_TRUE(world.until([&] { return dead->closed(); }));
    ASSERT_EQ(dead->others.size(), 1u) << "one probe, unanswered";
    wire::CreditRequest probe;
    EXPECT_EQ(wire::parse_credit_request(dead->others[0], probe), wire::ParseError::kNone);
    EXPECT_EQ(probe.credits, 0u);
    EXPECT_TRUE(world.until([&] { return world.service().sessions().count() == 0; }));
}

// Only a response leads to another probe, so the limit may be longer than a busy machine stalls.
TEST_F(Sessions, that_are_idle_persist_while_the_initiator_answers_probes) {
    World world(impatient(from_s(20)));
    auto idle = world.client(1, 0);
    size_t answered = 0;
    ASSERT_TRUE(world.until([&] {
        while (answered < idle->others.size()) {
            wire::CreditRequest probe;
            EXPECT_EQ(wire::parse_credit_request(idle->others[answered++], probe), wire::ParseError::kNone);
            std::array<byte, 16> answer{};
            wire::encode_short({.opcode = WSS_SRP_CRED_RSP, .tag = probe.tag}, answer);
            idle->send(answer);
        }
        return answered == 6 || idle->closed();
    }));
    EXPECT_FALSE(idle->closed());
}

}  // namespace
}  // namespace wss::block::testing
