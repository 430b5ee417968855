// SPDX-License-Identifier: Apache-2.0
// Real storage whose volume other programs resize and take over, with a storage engine that uses only the
// wire codecs, in one thread over loopback TCP.
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "lib/cache/engine/engine.h"
#include "lib/fabric/open.h"

namespace wss::cache {
namespace {

using wire::CacheVolumeState;
using wire::RecordType;

class SharedBackend final : public io::Backend {
  public:
    io::Limits limits() const noexcept override { return {.size = size}; }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    Status resize(uint64_t) override { return Status(Code::kUnsupported, "by others only"); }
    void watch_size(SizeChanged user) override { changed = std::move(user); }
    std::string trouble() const override { return why; }
    bool lost() const noexcept override { return taken; }
    bool suspended() const noexcept override { return away; }
    std::string ownership() const override { return owner; }
    io::Succession succession() const noexcept override { return place; }
    std::string describe() const override { return "shared"; }

    uint64_t size = 4 << 20;
    std::string why, owner;
    bool taken = false, away = false;
    io::Succession place;
    SizeChanged changed;

  private:
    const std::unique_ptr<io::Backend> ram_ = std::move(*io::open_backend("error:every=1:ram:4M", {}));
};

class StorageState : public ::testing::Test, public fabric::ListenHandler, public RecordLinkOwner {
  protected:
    void start(
        bool takes_states, const std::function<void()>& before_it_joins = [] {}) {
        takes_states_ = takes_states;
        const auto address = *fabric::Address::parse("tcp://127.0.0.1:0", 1);
        fabric_ = std::move(*fabric::open(address));
        poller_ = std::move(*fabric_->create_poller());
        reactor_.add(*poller_);
        listener_ = std::move(*poller_->listen(address, *this));
        storage_ = std::move(*Engine::create(reactor_, random_, {{fabric_.get(), poller_.get()}},
                                             {.memory = 4u << 20, .identity = 42, .volumes = volumes_}));
        storage_->join(0, listener_->address());
        ASSERT_TRUE(storage_->start());
        before_it_joins();
        ASSERT_TRUE(until([this] { return ready_; }));
    }
    void TearDown() override {
        bool stopped = false;
        storage_->stop([&] { stopped = true; });
        ASSERT_TRUE(until([&] { return stopped && link_->is_over(); }));
        storage_.reset();
        link_.reset();
        listener_.reset();
        reactor_.remove(*poller_);
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
    void on_connect_request(std::unique_ptr<fabric::ConnectRequest> request) noexcept override {
        link_ = std::move(*RecordLink::create(*fabric_, {}, *this));
        std::array<std::byte, 64> data;
        const size_t length = wire::encode_cache_welcome({.storage = 1,
                                                          .incarnation = 5,
                                                          .line_bytes = 65536,
                                                          .operations = 16,
                                                          .states = takes_states_,
                                                          .owners = takes_owners_,
                                                          .terms = takes_terms_},
                                                         data);
        EXPECT_TRUE(link_->accept(*request, *poller_, {data.data(), length}));
    }
    bool link_up(RecordLink&, std::span<const std::byte>) noexcept override { return true; }
    bool record(RecordLink&, const wire::Record& record) noexcept override {
        if (record.type == RecordType::kReady) ready_ = true;
        if (record.type == RecordType::kFailed) answered_ = true;
        if (record.type != RecordType::kVolumeState) return true;
        EXPECT_FALSE(answered_);
        CacheVolumeState state;
        EXPECT_EQ(wire::parse_volume_state(record, state), wire::ParseError::kNone);
        if (states_.empty()) {
            EXPECT_FALSE(ready_);
        }
        states_.push_back(std::move(state));
        return true;
    }
    void operation_over(RecordLink&, uint64_t, bool) noexcept override {}
    void link_over(RecordLink&, const Status&) noexcept override {}

    SystemClock clock_;
    Random random_{3};
    reactor::Reactor reactor_{clock_, {.spin = Nanoseconds{}}};
    SharedBackend backend_;
    const std::unique_ptr<io::Backend> slow_ = *io::open_backend("delay:us=1000000:ram:4M", {});
    std::vector<EngineVolume> volumes_ = {{"disk", &backend_}};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<fabric::Poller> poller_;
    std::unique_ptr<fabric::Listener> listener_;
    std::unique_ptr<RecordLink> link_;
    std::unique_ptr<Engine> storage_;
    std::vector<CacheVolumeState> states_;
    bool takes_states_ = true, takes_owners_ = false, takes_terms_ = false, ready_ = false, answered_ = false;
};

TEST_F(StorageState, is_reported_for_each_volume_before_storage_is_ready_and_at_each_change) {
    start(true);
    ASSERT_EQ(states_.size(), 1u);
    EXPECT_EQ(states_.back(), (CacheVolumeState{.bytes = 4 << 20}));
    backend_.size = 2 << 20;
    ASSERT_TRUE(until([this] { return states_.size() == 2; }));
    EXPECT_EQ(states_.back().bytes, uint64_t{2 << 20});
    backend_.why = "waits for the disk";
    ASSERT_TRUE(until([this] { return states_.size() == 3; }));
    EXPECT_EQ(states_.back().text, "waits for the disk");
    EXPECT_EQ(states_.back().error, 0u);
    EXPECT_FALSE(states_.back().suspended);
    backend_.away = true;
    ASSERT_TRUE(until([this] { return states_.size() == 4; }));
    EXPECT_TRUE(states_.back().suspended);
}

TEST_F(StorageState, includes_owners_for_a_storage_engine_that_supports_them) {
    backend_.owner = "a 1";
    takes_owners_ = true;
    start(true);
    ASSERT_EQ(states_.size(), 1u);
    const uint64_t first = states_.back().owner;
    EXPECT_NE(first, 0u);
    backend_.owner = "a 2";
    ASSERT_TRUE(until([this] { return states_.size() == 2; }));
    EXPECT_NE(states_.back().owner, first);
    backend_.owner = "";
    ASSERT_TRUE(until([this] { return states_.size() == 3; }));
    EXPECT_EQ(states_.back().owner, 0u);
}

TEST_F(StorageState, includes_no_owners_for_a_storage_engine_that_does_not_support_them) {
    backend_.owner = "a 1";
    start(true);
    ASSERT_EQ(states_.size(), 1u);
    EXPECT_EQ(states_.back(), (CacheVolumeState{.bytes = 4 << 20}));
}

TEST_F(StorageState, includes_the_place_among_the_holders_for_a_storage_engine_that_supports_it) {
    backend_.place = {.series = 9, .term = 8, .since = 7};
    takes_terms_ = true;
    start(true);
    ASSERT_EQ(states_.size(), 1u);
    EXPECT_EQ(states_.back(), (CacheVolumeState{.bytes = 4 << 20, .series = 9, .term = 8, .since = 7}));
}

TEST_F(StorageState, includes_no_place_for_a_storage_engine_that_does_not_support_holders) {
    backend_.place = {.series = 9, .term = 8, .since = 7};
    start(true);
    ASSERT_EQ(states_.size(), 1u);
    EXPECT_EQ(states_.back(), (CacheVolumeState{.bytes = 4 << 20}));
}

TEST_F(StorageState, includes_a_shrink_that_a_growth_follows_at_once) {
    start(true);
    backend_.changed(4 << 20, 1 << 20);
    backend_.changed(1 << 20, 2 << 20);
    backend_.changed(2 << 20, 8 << 20);
    backend_.size = 8 << 20;
    ASSERT_TRUE(until([this] { return states_.size() == 3; }));
    EXPECT_EQ(states_[1].bytes, uint64_t{1 << 20});
    EXPECT_EQ(states_[2].bytes, uint64_t{8 << 20});
}

TEST_F(StorageState, includes_no_shrink_that_preceded_the_join) {
    start(true, [this] {
        backend_.changed(4 << 20, 1 << 20);
        backend_.changed(1 << 20, 4 << 20);
    });
    backend_.why = "the next report";
    ASSERT_TRUE(until([this] { return states_.size() >= 2; }));
    EXPECT_EQ(states_[1].bytes, uint64_t{4 << 20});
}

TEST_F(StorageState, of_storage_that_was_taken_shows_the_loss_before_the_affected_requests_fail) {
    start(true);
    backend_.taken = true;
    backend_.why = "taken";
    wire::CacheStorage read{.op = wire::CacheStorage::Op::kRead, .volume = 0, .offset = 0, .length = 4096};
    read.remote.length = read.copy.length = 4096;
    link_->wrote(wire::put_storage(1, read, link_->room()));
    ASSERT_TRUE(until([this] { return answered_; }));
    ASSERT_EQ(states_.size(), 2u);
    EXPECT_EQ(states_.back(), (CacheVolumeState{.error = ESHUTDOWN, .bytes = 4 << 20, .text = "taken"}));
}

TEST_F(StorageState, is_not_reported_to_a_storage_engine_that_does_not_support_it) {
    start(false);
    backend_.taken = true;
    wire::CacheStorage read{.op = wire::CacheStorage::Op::kRead, .volume = 0, .offset = 0, .length = 4096};
    read.remote.length = read.copy.length = 4096;
    link_->wrote(wire::put_storage(1, read, link_->room()));
    ASSERT_TRUE(until([this] { return answered_; }));
    EXPECT_TRUE(states_.empty());
}

TEST_F(StorageState, is_no_longer_reported_by_storage_released_while_a_stop_waits_for_other_storage) {
    volumes_.push_back({"slow", slow_.get()});
    start(false);
    wire::CacheStorage flush{.op = wire::CacheStorage::Op::kFlush, .volume = 1};
    link_->wrote(wire::put_storage(1, flush, link_->room()));
    const auto pass = [this](Nanoseconds time) {
        ASSERT_TRUE(until([this, limit = clock_.now() + time] { return clock_.now() > limit; }));
    };
    pass(from_ms(200));
    bool stopped = false;
    storage_->stop([&] { stopped = true; });
    pass(from_ms(200));
    EXPECT_FALSE(stopped);
    EXPECT_EQ(storage_->release_storage(), std::vector<const io::Backend*>{&backend_});
    EXPECT_FALSE(backend_.changed) << "it may be closed";
    ASSERT_TRUE(until([&] { return stopped; }));
    EXPECT_EQ(storage_->release_storage().size(), 2u);
}

}  // namespace
}  // namespace wss::cache
