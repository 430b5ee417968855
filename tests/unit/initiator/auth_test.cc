// SPDX-License-Identifier: Apache-2.0
// A session with a secret: the target proves itself and its name before the session proves anything.
#include "tests/unit/initiator/bench.h"
#include "tests/unit/target/prover.h"

namespace wss::initiator::testing {
namespace {

using block::testing::guarded;
using block::testing::kAlice;
using block::testing::kBob;

Options as_alice(const Secret& secret = kAlice, std::string target_name = {}) {
    Options options;
    options.identity = {.name = "alice", .secret = secret};
    options.target_name = std::move(target_name);
    options.reconnect_delay = options.reconnect_delay_max = from_ms(1);
    return options;
}

// A session and a target that authenticates as "vault".
struct GuardedBench {
    explicit GuardedBench(const Options& options = as_alice(), std::vector<std::string> version_1 = {})
        : world(guarded(std::move(version_1))), bench(world.address(), options) {
        world.add_volume("disk", "ram:4M", 4 << 20);
        bench.others = [this] { world.step(); };
    }
    // The target has another name from now on, and the session reconnects.
    void rename(const std::string& name) {
        bool renamed = false;
        world.service().set_secrets(std::make_shared<const auth::SecretBook>(
                                        name, std::vector<NamedSecret>{{"alice", kAlice}, {"bob", kBob}}),
                                    [&](size_t) { renamed = true; });
        ASSERT_TRUE(bench.until([&] { return renamed; }));
        attempts = bench.network().connects;
        bench.network().cut();
    }
    bool is_reconnected() {
        return bench.until([&] { return bench.ready == 2 || bench.network().connects > attempts + 4; }) &&
               bench.ready == 2;
    }
    block::testing::World world;
    Bench bench;
    uint32_t attempts = 0;
};

bool contains(const Status& status, std::string_view text) {
    return status.to_string().find(text) != std::string::npos;
}

TEST(SessionAuth, logs_in_on_all_channels_at_a_target_that_knows_the_secret) {
    Options options = as_alice(kAlice, "vault");
    options.channels = 3;
    GuardedBench both(options);
    ASSERT_TRUE(both.bench.start()) << both.bench.why.to_string();
    ASSERT_EQ(both.world.service().sessions().count(), 1u);
    EXPECT_EQ(both.world.service().sessions().list()[0].peers.size(), 3u);
}

TEST(SessionAuth, refuses_a_target_that_does_not_know_the_secret_and_sends_it_no_proof) {
    GuardedBench both(as_alice(kBob));
    EXPECT_FALSE(both.bench.start());
    EXPECT_EQ(both.bench.why.code(), Code::kPermission);
    EXPECT_TRUE(contains(both.bench.why,
                         "the target 'vault' could not prove that it knows the secret of "
                         "'alice': the secrets differ"))
        << both.bench.why.to_string();
    EXPECT_TRUE(both.bench.until([&] { return both.world.totals().refused_logins == 1; }));
    EXPECT_EQ(both.world.service().sessions().count(), 0u);
}

TEST(SessionAuth, refuses_a_target_of_another_name_than_the_given_one) {
    GuardedBench both(as_alice(kAlice, "safe"));
    EXPECT_FALSE(both.bench.start());
    EXPECT_TRUE(contains(both.bench.why, "the target there is 'vault', but 'safe' is expected"))
        << both.bench.why.to_string();
}

TEST(SessionAuth, reconnects_only_to_a_target_with_the_name_of_the_first_login) {
    GuardedBench both;
    ASSERT_TRUE(both.bench.start()) << both.bench.why.to_string();
    both.rename("vault");
    EXPECT_TRUE(both.is_reconnected());
    both.bench.ready = 1;
    both.rename("safe");
    EXPECT_FALSE(both.is_reconnected());
    EXPECT_TRUE(contains(both.bench.retry_why, "safe")) << both.bench.retry_why.to_string();
    both.rename("vault");
    EXPECT_TRUE(both.is_reconnected()) << "the session stays usable";
}

TEST(SessionAuth, refuses_a_target_name_without_a_secret) {
    block::testing::World world;
    SystemClock clock;
    reactor::Reactor reactor(clock);
    auto fabric = *std::move(fabric::open(world.address()));
    auto poller = *std::move(fabric->create_poller());
    Random random(1);
    SessionHandler handler;
    Options options;
    options.address = world.address();
    options.target_name = "vault";
    auto session = Session::create(reactor, *fabric, *poller, random, options, handler);
    ASSERT_FALSE(session);
    EXPECT_TRUE(contains(session.status(), "target name 'vault' without a secret"));
}

// Grants the authentication, and answers START with `answer`.
class ScriptedTarget final : public fabric::ListenHandler, public fabric::ConnectionHandler {
  public:
    ScriptedTarget() {
        const fabric::Address any{.scheme = fabric::Scheme::kTcp, .host = "127.0.0.1", .port = 0};
        fabric_ = *std::move(fabric::open(any));
        poller_ = *std::move(fabric_->create_poller());
        memory_ = *std::move(fabric_->allocate(2 * kBytes, fabric::Access::kLocal));
        listener_ = *std::move(poller_->listen(any, *this));
    }
    ~ScriptedTarget() override {
        if (connection_ == nullptr) return;
        connection_->close();
        for (int i = 0; i < 1000 && !closed_; ++i) poller_->poll();
    }
    fabric::Address address() const { return listener_->address(); }
    void step() { poller_->poll(); }

    std::vector<byte> answer;
    size_t received = 0;  // messages

    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        const wire::LoginResponse login{.credits = 8,
                                        .max_it_iu = WSS_SRP_MAX_IT_IU_LEN,
                                        .max_ti_iu = WSS_SRP_MAX_TI_IU_LEN,
                                        .extended = true,
                                        .caps = WSS_CAP_AUTHENTICATE};
        std::array<byte, sizeof(wss_srp_login_rsp)> data;
        wire::encode_login_response(login, data);
        connection_ = *request->create(*poller_, {}, *this);
        fabric::Segment segment{memory_->bytes().data(), kBytes, memory_->lkey()};
        const fabric::Receive receives[] = {{1, {&segment, 1}}, {2, {&segment, 1}}};
        connection_->post_receives(receives);
        EXPECT_TRUE(connection_->accept(data));
    }
    void on_established(fabric::Connection&, std::span<const byte>) noexcept override {}
    void on_refused(fabric::Connection&, const Status&, std::span<const byte>) noexcept override {
        closed_ = true;
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override { closed_ = true; }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion> all) noexcept override {
        for (const fabric::Completion& one : all)
            if (one.status == fabric::CompletionStatus::kOk && one.cookie != 0 && ++received == 1) respond();
    }

  private:
    static constexpr uint32_t kBytes = 512;
    void respond() {
        std::memcpy(memory_->bytes().data() + kBytes, answer.data(), answer.size());
        fabric::Segment segment{memory_->bytes().data() + kBytes, static_cast<uint32_t>(answer.size()),
                                memory_->lkey()};
        const fabric::WorkRequest work{.op = fabric::Op::kSend, .segments = {&segment, 1}};
        EXPECT_EQ(connection_->post({&work, 1}), Code::kOk);
    }

    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<fabric::Listener> listener_;
    std::unique_ptr<fabric::Connection> connection_;
    bool closed_ = false;
};

// The failure of a session whose target answers START with this message.
Status failure_after(std::vector<byte> answer) {
    ScriptedTarget target;
    target.answer = std::move(answer);
    Bench bench(target.address(), as_alice());
    bench.others = [&] { target.step(); };
    EXPECT_FALSE(bench.start());
    EXPECT_EQ(target.received, 1u) << "no proof was sent";
    return bench.why;
}

template <typename Message>
std::vector<byte> encoded(const Message& message, size_t (*encode)(const Message&, wire::MutableBytes)) {
    std::vector<byte> bytes(256);
    bytes.resize(encode(message, bytes));
    return bytes;
}

TEST(SessionAuth, reports_a_target_of_version_1_as_older) {
    const Status why = failure_after(encoded<wire::TargetLogout>({.reason = WSS_SRP_LOGOUT_NOT_AUTHENTICATED},
                                                                 wire::encode_target_logout));
    EXPECT_TRUE(contains(why, "does not accept version 2 of the authentication: it is older"))
        << why.to_string();
}

TEST(SessionAuth, sends_no_proof_for_a_challenge_of_version_1) {
    const Status why = failure_after(encoded<wire::AuthChallenge>(
        {.nonce = {}, .name = "vault", .version = 0}, wire::encode_auth_challenge));
    EXPECT_TRUE(contains(why, "a malformed challenge")) << why.to_string();
}

TEST(SessionAuth, sends_no_proof_for_a_challenge_without_a_valid_one_of_the_target) {
    wire::AuthChallenge challenge{.name = "vault"};
    challenge.proofs[1].fill(byte{1});
    const Status why = failure_after(encoded(challenge, wire::encode_auth_challenge));
    EXPECT_TRUE(contains(why, "could not prove")) << why.to_string();
}

TEST(SessionAuth, refuses_a_grant_before_the_target_has_proven_itself) {
    const Status why =
        failure_after(encoded<wire::AuthResult>({.granted = true, .text = {}}, wire::encode_auth_result));
    EXPECT_TRUE(contains(why, "granted without a proof")) << why.to_string();
}

}  // namespace
}  // namespace wss::initiator::testing
