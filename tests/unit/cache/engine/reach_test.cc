// SPDX-License-Identifier: Apache-2.0
// A storage process that connects to cache engines, with a storage engine and a cache engine that use only
// the wire codecs, in one thread over loopback TCP.
#include <gtest/gtest.h>

#include <cstring>

#include "lib/cache/engine/engine.h"
#include "lib/fabric/open.h"

namespace wss::cache {
namespace {

using wire::CacheStatus;
using wire::CacheStorage;
using wire::RecordType;

constexpr uint32_t kBytes = 65536;

// The engine's end of one connection with the storage process.
struct Arrived : fabric::ConnectionHandler {
    void on_established(fabric::Connection&, std::span<const std::byte>) noexcept override {}
    void on_refused(fabric::Connection&, const Status&, std::span<const std::byte>) noexcept override {
        over = true;
    }
    void on_completions(fabric::Connection&, std::span<const fabric::Completion> list) noexcept override {
        for (const auto& one : list) status.push_back(one.status);
    }
    void on_closed(fabric::Connection&, const Status&) noexcept override { over = true; }

    std::unique_ptr<fabric::Connection> connection;
    wire::CacheLogin login;
    std::vector<fabric::CompletionStatus> status;
    bool over = false;
};

class FakeEngine : public fabric::ListenHandler {
  public:
    explicit FakeEngine(fabric::Poller& poller) : poller_(poller) {
        listener_ = std::move(*poller.listen(*fabric::Address::parse("tcp://127.0.0.1:0", 1), *this));
    }
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        arrived.push_back(std::make_unique<Arrived>());
        Arrived& one = *arrived.back();
        EXPECT_EQ(wire::parse_cache_login(request->data(), one.login), wire::ParseError::kNone);
        if (refuses) {
            one.over = true;
            return request->reject({});
        }
        one.connection = std::move(*request->create(poller_, {}, one));
        EXPECT_TRUE(one.connection->accept({}));
    }
    std::string uri() const { return listener_->address().to_string(); }

    std::vector<std::unique_ptr<Arrived>> arrived;
    bool refuses = false;

  private:
    fabric::Poller& poller_;
    std::unique_ptr<fabric::Listener> listener_;
};

class StorageReach : public ::testing::Test, public fabric::ListenHandler, public RecordLinkOwner {
  protected:
    void SetUp() override {
        auto address = *fabric::Address::parse("tcp://127.0.0.1:0", 1);
        for (size_t i = 0; i < 2; ++i) {
            fabrics_[i] = std::move(*fabric::open(address));
            pollers_[i] = std::move(*fabrics_[i]->create_poller());
            reactor_.add(*pollers_[i]);
        }
        disk_ = std::move(*io::open_backend("ram:4M", {}));
        listener_ = std::move(*pollers_[0]->listen(address, *this));
        cache_engine_ = std::make_unique<FakeEngine>(*pollers_[0]);
        storage_ = std::move(*Engine::create(reactor_, random_, {{fabrics_[0].get(), pollers_[0].get()}},
                                             {.memory = 8u << 20,
                                              .identity = 42,
                                              .volumes = {{"disk", disk_.get()}},
                                              .reach = {fabrics_[1].get(), pollers_[1].get()}}));
        storage_->join(0, listener_->address());
        ASSERT_TRUE(storage_->start());
        memory_ = std::move(*fabrics_[0]->allocate(2 * kBytes, fabric::Access::kLocal));
        ASSERT_TRUE(until([this] { return ready_; }));
    }
    void TearDown() override {
        bool stopped = false;
        storage_->stop([&] { stopped = true; });
        ASSERT_TRUE(until([&] { return stopped && link_->is_over() && all_over(); }));
        storage_.reset();
        cache_engine_.reset();
        link_.reset();
        old_links_.clear();
        listener_.reset();
        for (auto& poller : pollers_) reactor_.remove(*poller);
    }
    bool until(const std::function<bool()>& done) {
        const Nanoseconds limit = clock_.now() + from_s(30);
        while (!done()) {
            reactor_.step();
            if (link_ && link_->is_up()) link_->flush();
            if (clock_.now() > limit) return false;
        }
        return true;
    }
    bool all_over() const {
        for (const auto& one : cache_engine_->arrived)
            if (!one->over) return false;
        return true;
    }

    // --- the storage engine
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        over_at_join_ = all_over();
        if (link_) old_links_.push_back(std::move(link_));
        link_ = std::move(*RecordLink::create(*fabrics_[0], {}, *this));
        std::array<std::byte, 64> data;
        const size_t length = wire::encode_cache_welcome(
            {.storage = 1, .incarnation = 5, .line_bytes = kBytes, .operations = 16}, data);
        EXPECT_TRUE(link_->accept(*request, *pollers_[0], {data.data(), length}));
    }
    bool link_up(RecordLink&, std::span<const std::byte>) noexcept override { return true; }
    bool record(RecordLink&, const wire::Record& record) noexcept override {
        uint64_t handle = 0;
        if (record.type == RecordType::kDone) done_[record.id] = static_cast<CacheStatus>(record.flags);
        if (record.type == RecordType::kReady) ready_ = true;
        if (record.type == RecordType::kStaging) {
            EXPECT_EQ(wire::parse_staging(record, staging_), wire::ParseError::kNone);
        }
        if (record.type == RecordType::kEngineGone &&
            wire::parse_handle(record, handle) == wire::ParseError::kNone)
            gone_.push_back(handle);
        return true;
    }
    void operation_over(RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(RecordLink&, const Status&) noexcept override { lost_ = true; }

    void name(uint64_t handle, bool added = true) {
        wire::CacheEngineNotice notice{.added = added, .index = 4, .handle = handle};
        notice.token.fill(std::byte{static_cast<uint8_t>(handle)});
        EXPECT_TRUE(notice.set_uri(cache_engine_->uri()));
        link_->wrote(wire::put_engine(notice, link_->room()));
    }
    Arrived& connected(uint64_t handle) {
        name(handle);
        EXPECT_TRUE(until([&] {
            return !cache_engine_->arrived.empty() && cache_engine_->arrived.back()->login.handle == handle;
        }));
        return *cache_engine_->arrived.back();
    }
    CacheStatus run(uint32_t id, const CacheStorage& what) {
        done_.erase(id);
        link_->wrote(wire::put_storage(id, what, link_->room()));
        EXPECT_TRUE(until([&] { return done_.contains(id) || lost_; }));
        return done_.contains(id) ? done_[id] : CacheStatus::kFailed;
    }
    // Performs the RDMA operation that a storage engine would request from the engine.
    fabric::CompletionStatus move(Arrived& by, fabric::Op op, size_t local, uint64_t staging, uint32_t length,
                                  uint32_t rkey) {
        const size_t before = by.status.size();
        fabric::Segment segment{memory_->bytes().data() + local, length, memory_->lkey()};
        fabric::WorkRequest work{
            .op = op, .segments = {&segment, 1}, .remote = {staging_.address + staging, rkey}};
        if (by.connection->post({&work, 1}) != Code::kOk) return fabric::CompletionStatus::kFlushed;
        EXPECT_TRUE(until([&] { return by.status.size() > before; }));
        return by.status.back();
    }

    SystemClock clock_;
    Random random_{1};
    reactor::Reactor reactor_{clock_, {}};
    std::array<std::unique_ptr<fabric::Fabric>, 2> fabrics_;
    std::array<std::unique_ptr<fabric::Poller>, 2> pollers_;
    std::unique_ptr<io::Backend> disk_;
    std::unique_ptr<fabric::Listener> listener_;
    std::unique_ptr<FakeEngine> cache_engine_;
    std::unique_ptr<Engine> storage_;
    std::unique_ptr<fabric::Region> memory_;
    std::unique_ptr<RecordLink> link_;
    std::vector<std::unique_ptr<RecordLink>> old_links_;
    wire::CacheStaging staging_;
    std::map<uint32_t, CacheStatus> done_;
    std::vector<uint64_t> gone_;
    bool ready_ = false, lost_ = false, over_at_join_ = false;
};

TEST_F(StorageReach, moves_bytes_from_an_engine_to_the_disk_and_back_through_a_staging_buffer) {
    ASSERT_GE(staging_.bytes, 2 * kBytes);
    Arrived& engine = connected(100);
    EXPECT_EQ(engine.login.token[0], std::byte{100});
    auto bytes = memory_->bytes();
    for (size_t i = 0; i < kBytes; ++i) bytes[i] = std::byte(i * 31 >> 3);
    ASSERT_EQ(move(engine, fabric::Op::kWrite, 0, kBytes, kBytes, staging_.rkey),
              fabric::CompletionStatus::kOk);
    const CacheStorage write{.op = CacheStorage::Op::kWrite,
                             .staged = true,
                             .offset = 4 * kBytes,
                             .length = kBytes,
                             .staging_offset = kBytes};
    ASSERT_EQ(run(1, write), CacheStatus::kOk);
    const CacheStorage read{
        .op = CacheStorage::Op::kRead, .staged = true, .offset = 4 * kBytes, .length = kBytes};
    ASSERT_EQ(run(2, read), CacheStatus::kOk);
    ASSERT_EQ(move(engine, fabric::Op::kRead, kBytes, 0, kBytes, staging_.rkey),
              fabric::CompletionStatus::kOk);
    EXPECT_EQ(std::memcmp(bytes.data(), bytes.data() + kBytes, kBytes), 0);
    EXPECT_EQ(storage_->counters().to_storage_bytes + storage_->counters().from_storage_bytes, 0u);
}

TEST_F(StorageReach, reports_each_named_engine_gone_once_when_its_connection_ends) {
    Arrived& engine = connected(100);
    connected(101);
    ASSERT_TRUE(until([&] { return engine.over && gone_.size() == 1; })) << "the newer one ends the older";
    EXPECT_EQ(gone_[0], 100u);
    name(0, false);
    ASSERT_TRUE(until([&] { return all_over() && gone_.size() == 2; }));
    EXPECT_EQ(gone_[1], 101u);
    cache_engine_->refuses = true;
    name(102);
    ASSERT_TRUE(until([&] { return gone_.size() == 3; }));
    EXPECT_EQ(gone_[2], 102u);
    EXPECT_FALSE(lost_);
}

TEST_F(StorageReach, ends_connections_with_the_link_and_before_the_next_join) {
    Arrived& engine = connected(100);
    ready_ = false;
    link_->close(Status(Code::kClosed, "the test"));
    ASSERT_TRUE(until([&] { return ready_; }));
    EXPECT_TRUE(engine.over);
    EXPECT_TRUE(over_at_join_);
}

TEST_F(StorageReach, ends_the_link_after_a_disk_operation_outside_the_staging_memory) {
    const CacheStorage read{.op = CacheStorage::Op::kRead,
                            .staged = true,
                            .length = kBytes,
                            .staging_offset = staging_.bytes - kBytes / 2};
    EXPECT_EQ(run(1, read), CacheStatus::kFailed);
    EXPECT_TRUE(lost_);
}

TEST_F(StorageReach, gives_no_access_to_memory_with_a_wrong_key) {
    Arrived& engine = connected(100);
    EXPECT_NE(move(engine, fabric::Op::kWrite, 0, 0, 4096, staging_.rkey ^ 1), fabric::CompletionStatus::kOk);
    EXPECT_TRUE(until([&] { return gone_.size() == 1; }));
    EXPECT_FALSE(lost_);
}

}  // namespace
}  // namespace wss::cache
