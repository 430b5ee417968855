// SPDX-License-Identifier: Apache-2.0
// A cache engine with a storage engine and clients that use only the wire codecs, in one thread over loopback
// TCP.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "lib/cache/engine/engine.h"
#include "lib/cache/header.h"
#include "lib/fabric/open.h"

namespace wss::cache {
namespace {

using wire::CacheStatus;
using wire::RecordType;

class Nobody : public fabric::ConnectionHandler {
  public:
    void on_established(fabric::Connection& c, std::span<const std::byte>) noexcept override {
        up = true;
        std::array<fabric::Receive, 8> receives;
        ASSERT_EQ(c.post_receives(receives), Code::kOk);
    }
    void on_refused(fabric::Connection&, const Status&, std::span<const std::byte>) noexcept override {
        refused = over = true;
    }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion> list) noexcept override {
        for (const auto& one : list)
            if (one.status == fabric::CompletionStatus::kOk) parts.emplace_back(one.immediate, one.length);
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override { over = true; }

    std::unique_ptr<fabric::Connection> connection;
    bool up = false, refused = false, over = false;
    std::vector<std::pair<uint32_t, uint32_t>> parts;
};

class CacheEngine : public ::testing::Test, public fabric::ListenHandler, public RecordLinkOwner {
  protected:
    void SetUp() override {
        auto address = *fabric::Address::parse("tcp://127.0.0.1:0", 1);
        fabric_ = std::move(*fabric::open(address));
        poller_ = std::move(*fabric_->create_poller());
        reactor_.add(*poller_);
        listener_ = std::move(*poller_->listen(address, *this));
        engine_ = std::move(*Engine::create(reactor_, random_, {{fabric_.get(), poller_.get()}},
                                            {.memory = 4u << 20, .identity = 42, .silence = from_ms(20)}));
        client_address_ = *engine_->listen(0, address);
        engine_->join(0, listener_->address());
        ASSERT_TRUE(engine_->start());
        memory_ = std::move(*fabric_->allocate(1u << 20, fabric::Access::kRemoteReadWrite));
        ASSERT_TRUE(until([this] { return ready_; }));
    }
    void TearDown() override {
        for (auto& client : clients_)
            if (client->connection && !client->over) client->connection->close();
        bool stopped = false;
        engine_->stop([&] { stopped = true; });
        ASSERT_TRUE(until([&] {
            for (auto& client : clients_)
                if (client->connection && !client->over) return false;
            return stopped && link_->is_over();
        }));
        clients_.clear();
        engine_.reset();
        link_.reset();
        listener_.reset();
        reactor_.remove(*poller_);
    }
    bool until(const std::function<bool()>& done) {
        const Nanoseconds limit = clock_.now() + from_s(10);
        while (!done()) {
            reactor_.step();
            if (link_ && link_->is_up()) link_->flush();
            if (clock_.now() > limit) return false;
        }
        return true;
    }

    // --- the storage engine
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        EXPECT_EQ(wire::parse_cache_join(request->data(), join_), wire::ParseError::kNone);
        link_ = std::move(*RecordLink::create(*fabric_, {}, *this));
        std::array<std::byte, 64> data;
        size_t length = wire::encode_cache_welcome(
            {.storage = 1, .incarnation = 5, .line_bytes = 65536, .operations = 16}, data);
        EXPECT_TRUE(link_->accept(*request, *poller_, {data.data(), length}));
    }
    bool link_up(RecordLink&, std::span<const std::byte>) noexcept override { return true; }
    bool record(RecordLink&, const wire::Record& record) noexcept override {
        if (record.type == RecordType::kDone) done_[record.id] = static_cast<CacheStatus>(record.flags);
        if (record.type == RecordType::kReady) ready_ = true;
        if (record.type == RecordType::kPong) ++probes_;
        if (record.type == RecordType::kAttached) ++attached_;
        if (record.type == RecordType::kDetached) ++detached_;
        return true;
    }
    void operation_over(RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(RecordLink&, const Status&) noexcept override { lost_ = true; }

    void grant(uint64_t handle, uint8_t secret) {
        wire::CacheLogin login{.handle = handle};
        login.token.fill(std::byte{secret});
        link_->wrote(wire::put_grant(login, link_->room()));
        link_->flush();
    }
    Nobody& connect(uint64_t handle, uint8_t secret, fabric::Poller* poller = nullptr) {
        wire::CacheLogin login{.handle = handle};
        login.token.fill(std::byte{secret});
        std::array<std::byte, 64> data;
        size_t length = wire::encode_cache_login(login, data);
        clients_.push_back(std::make_unique<Nobody>());
        clients_.back()->connection =
            std::move(*(poller != nullptr ? poller : poller_.get())
                           ->connect(client_address_, {data.data(), length}, {}, *clients_.back()));
        return *clients_.back();
    }
    CacheStatus run(uint32_t id, const wire::CacheMove& move) {
        done_.erase(id);
        link_->wrote(wire::put_move(id, move, link_->room()));
        EXPECT_TRUE(until([&] { return done_.contains(id) || lost_; }));
        return done_.contains(id) ? done_[id] : CacheStatus::kFailed;
    }
    void have_header(uint32_t id, uint32_t slot, SubBlocks dirty) {
        wire::CacheHeader header{.slot = slot};
        write_header(
            {.volume = 7, .line = slot, .generation = 1, .incarnation = 5, .valid = {0xf}, .dirty = dirty},
            header.header);
        link_->wrote(wire::put_header(RecordType::kHeader, id, header, link_->room()));
        ASSERT_TRUE(until([&] { return done_.contains(id); }));
    }
    wire::RemoteBuffer at(size_t offset, uint32_t length) {
        return {memory_->remote_address() + offset, memory_->rkey(0), length};
    }

    SystemClock clock_;
    Random random_{1};
    reactor::Reactor reactor_{clock_, {}};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<fabric::Listener> listener_;
    std::unique_ptr<Engine> engine_;
    fabric::Address client_address_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<RecordLink> link_;
    std::vector<std::unique_ptr<Nobody>> clients_;
    wire::CacheJoin join_;
    std::map<uint32_t, CacheStatus> done_;
    bool ready_ = false, lost_ = false;
    int attached_ = 0, detached_ = 0, probes_ = 0;
};

TEST_F(CacheEngine, refuses_a_client_without_a_valid_token) {
    grant(100, 7);
    ASSERT_TRUE(until([this] { return true; }));
    Nobody& unknown = connect(99, 7);
    Nobody& liar = connect(100, 8);
    ASSERT_TRUE(until([&] { return unknown.over && liar.over; }));
    EXPECT_TRUE(unknown.refused && liar.refused);
    EXPECT_EQ(engine_->counters().clients_accepted, 0u);
    Nobody& right = connect(100, 7);
    ASSERT_TRUE(until([&] { return right.up && attached_ == 1; }));
    // A token is valid for one connection.
    Nobody& second = connect(100, 7);
    ASSERT_TRUE(until([&] { return second.over; }));
    EXPECT_TRUE(second.refused);
    EXPECT_EQ(engine_->counters().clients_refused, 3u);
}

TEST_F(CacheEngine, moves_bytes_from_a_client_to_a_slot_and_back_with_the_tag) {
    grant(100, 7);
    Nobody& client = connect(100, 7);
    ASSERT_TRUE(until([&] { return attached_ == 1; }));
    auto bytes = memory_->bytes();
    for (size_t i = 0; i < 65536; ++i) bytes[i] = std::byte(i * 31 >> 3);
    EXPECT_EQ(run(1, {.to_peer = false,
                      .atomic = true,
                      .handle = 100,
                      .slot = 3,
                      .length = 65536,
                      .remote = at(0, 65536)}),
              CacheStatus::kOk);
    EXPECT_EQ(run(2, {.to_peer = true,
                      .immediate = true,
                      .handle = 100,
                      .slot = 3,
                      .offset = 4096,
                      .length = 8192,
                      .immediate_value = 0x12340000,
                      .remote = at(100000, 8192)}),
              CacheStatus::kOk);
    EXPECT_EQ(std::memcmp(bytes.data() + 4096, bytes.data() + 100000, 8192), 0);
    ASSERT_TRUE(until([&] { return client.parts.size() == 1; }));
    EXPECT_EQ(client.parts[0], (std::pair<uint32_t, uint32_t>(0x12340000, 8192)));
}

TEST_F(CacheEngine, reports_coalesced_moves_on_request_or_with_a_move_that_is_not_coalesced) {
    grant(100, 7);
    Nobody& client = connect(100, 7);
    ASSERT_TRUE(until([&] { return attached_ == 1; }));
    wire::CacheMove move{
        .immediate = true, .coalesced = true, .handle = 100, .length = 4096, .remote = at(0, 4096)};
    auto begin = [&](uint32_t id) { link_->wrote(wire::put_move(id, move, link_->room())); };
    auto ask = [&] { link_->wrote(wire::put_plain(RecordType::kPing, 0, 9, link_->room())); };
    auto quiet = [&, since = probes_] { return probes_ == since; };  // the engine has sent nothing else
    for (uint32_t id : {1, 2, 3}) begin(id);
    ASSERT_TRUE(until([&] { return client.parts.size() == 3; }));
    for (int i = 0; i < 20; ++i) reactor_.step();
    EXPECT_TRUE(done_.empty() || !quiet());
    ask();
    ASSERT_TRUE(until([&] { return !quiet(); }));
    ASSERT_TRUE(until([&] { return done_.size() == 3; }));
    // The move is in flight when the report is requested.
    begin(4);
    ask();
    EXPECT_TRUE(until([&] { return done_.contains(4); }));
    begin(5);
    wire::CacheMove prompt = move;
    prompt.coalesced = false;
    EXPECT_EQ(run(6, prompt), CacheStatus::kOk);
    EXPECT_TRUE(done_.contains(5));
}

TEST_F(CacheEngine, closes_a_revoked_client_and_fails_its_moves_with_that_reason) {
    grant(100, 7);
    Nobody& client = connect(100, 7);
    ASSERT_TRUE(until([&] { return attached_ == 1; }));
    link_->wrote(wire::put_handle(RecordType::kRevoke, 100, link_->room()));
    ASSERT_TRUE(until([&] { return client.over && detached_ == 1; }));
    EXPECT_EQ(run(1, {.to_peer = true, .handle = 100, .slot = 0, .length = 4096, .remote = at(0, 4096)}),
              CacheStatus::kNoClient);
}

// If such an answer counted as pending, the engine's thread would spin, and after a goodbye it would spin for
// ever.
TEST_F(CacheEngine, has_no_pending_answer_that_a_closed_link_could_not_send) {
    link_->wrote(wire::put_plain(RecordType::kPing, 0, 7, link_->room()));
    link_->wrote(wire::put_plain(RecordType::kGoodbye, 0, 0, link_->room()));
    ASSERT_TRUE(until([&] { return lost_; }));
    ASSERT_TRUE(until([&] { return engine_->storages()[0].up == false; }));
    EXPECT_EQ(engine_->poll(), 0u);
    EXPECT_EQ(link_->flush(), 0u);
}

TEST_F(CacheEngine, survives_a_refused_memory_access_that_ends_the_client) {
    grant(100, 7);
    Nobody& client = connect(100, 7);
    ASSERT_TRUE(until([&] { return attached_ == 1; }));
    wire::CacheMove move{.to_peer = true, .handle = 100, .slot = 0, .length = 4096, .remote = at(0, 4096)};
    move.remote.rkey ^= 1;
    EXPECT_EQ(run(1, move), CacheStatus::kNoClient);
    ASSERT_TRUE(until([&] { return client.over && detached_ == 1; }));
    EXPECT_FALSE(lost_);
}

// CE3. The client ends before a stage becomes free for its move.
TEST_F(CacheEngine, answers_moves_that_wait_for_a_stage_before_it_reports_the_end_of_their_client) {
    constexpr uint32_t kStages = 4;  // stages of 4 MiB in lines of 64 KiB
    auto deaf = std::move(*fabric_->create_poller());
    reactor_.add(*deaf);
    grant(100, 7);
    grant(101, 8);
    Nobody& slow = connect(100, 7, deaf.get());
    Nobody& lost = connect(101, 8);
    ASSERT_TRUE(until([&] { return slow.up && lost.up && attached_ == 2; }));
    reactor_.remove(*deaf);
    wire::CacheMove move{.to_peer = false, .atomic = true, .length = 65536, .remote = at(0, 65536)};
    for (uint32_t id = 0; id <= kStages; ++id) {
        move.slot = id;
        move.handle = id < kStages ? 100 : 101;
        link_->wrote(wire::put_move(id, move, link_->room()));
    }
    ASSERT_TRUE(until([&] { return engine_->counters().waited_for_stage == 1; }));
    lost.connection->close();
    ASSERT_TRUE(until([&] { return detached_ == 1; }));
    ASSERT_TRUE(done_.contains(kStages));
    EXPECT_EQ(done_[kStages], CacheStatus::kNoClient);
    reactor_.add(*deaf);
    ASSERT_TRUE(until([&] { return done_.size() == kStages + 1; }));
    EXPECT_EQ(done_[0], CacheStatus::kOk);
    slow.connection->close();
    ASSERT_TRUE(until([&] { return slow.over; }));
    reactor_.remove(*deaf);
    clients_.clear();
}

TEST_F(CacheEngine, fills_wiped_slots_with_zeroes) {
    std::memset(memory_->bytes().data(), 0x77, 65536);
    ASSERT_EQ(run(1, {.to_peer = false, .slot = 2, .length = 65536, .remote = at(0, 65536)}),
              CacheStatus::kOk);
    link_->wrote(wire::put_slot(RecordType::kWipe, 2, 2, link_->room()));
    ASSERT_TRUE(until([&] { return done_.contains(2); }));
    ASSERT_EQ(run(3, {.to_peer = true, .slot = 2, .length = 65536, .remote = at(0, 65536)}),
              CacheStatus::kOk);
    for (size_t i = 0; i < 65536; i += 512) ASSERT_EQ(memory_->bytes()[i], std::byte{0}) << i;
}

// One probe is not enough: a storage engine may answer it and then lose power.
TEST_F(CacheEngine, probes_a_silent_storage_engine_until_it_answers) {
    EXPECT_TRUE(until([this] { return probes_ >= 3; }));
}

TEST_F(CacheEngine, that_is_not_released_in_time_reports_the_dirty_lines_that_it_discards) {
    have_header(1, 3, SubBlocks{0x5});
    have_header(2, 4, SubBlocks{});
    Status left;
    bool over = false;
    engine_->leave(from_ms(1), [&](Status status) {
        left = std::move(status);
        over = true;
    });
    ASSERT_TRUE(until([&] { return over; }));
    EXPECT_EQ(left.code(), Code::kTimedOut);
    EXPECT_NE(left.text().find("up to 1 lines"), std::string::npos) << left.text();
    EXPECT_NE(left.text().find(listener_->address().to_string()), std::string::npos) << left.text();
}

TEST_F(CacheEngine, that_is_not_released_in_time_loses_nothing_if_no_line_is_dirty) {
    have_header(1, 3, SubBlocks{});
    std::optional<Status> left;
    engine_->leave(from_ms(1), [&](Status status) { left = std::move(status); });
    ASSERT_TRUE(until([&] { return left.has_value(); }));
    EXPECT_TRUE(left->is_ok()) << left->text();
}

TEST_F(CacheEngine, with_dirty_lines_leaves_without_an_error_if_the_storage_engine_releases_it) {
    have_header(1, 3, SubBlocks{0x5});
    std::optional<Status> left;
    engine_->leave(from_s(60), [&](Status status) { left = std::move(status); });
    link_->wrote(wire::put_plain(RecordType::kGoodbye, 0, 0, link_->room()));
    ASSERT_TRUE(until([&] { return left.has_value(); }));
    EXPECT_TRUE(left->is_ok()) << left->text();
}

TEST_F(CacheEngine, ends_its_link_to_a_storage_engine_that_names_slots_beyond_its_part) {
    EXPECT_EQ(run(1, {.to_peer = true, .slot = 1u << 20, .length = 4096, .remote = at(0, 4096)}),
              CacheStatus::kFailed);
    EXPECT_TRUE(lost_);
    // The engine joins again.
    ready_ = lost_ = false;
    EXPECT_TRUE(until([this] { return ready_; }));
}

}  // namespace
}  // namespace wss::cache
