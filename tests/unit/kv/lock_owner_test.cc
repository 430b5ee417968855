// SPDX-License-Identifier: Apache-2.0
// Locks belong to the client in whose name they were taken: what another one says of them does not count.
// Our clients never say it; whoever speaks the protocol can.
#include <gtest/gtest.h>

#include "lib/fabric/open.h"
#include "lib/kv/link.h"
#include "lib/kv/placement.h"
#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

namespace {

wire::KvLock exclusive(uint64_t owner) {
    wire::KvLock lock;
    lock.owner = owner;
    lock.exclusive = true;
    lock.keys = {"key"};
    return lock;
}

}  // namespace

// A client that says what it is told to.
class RawClient final : public LinkHandler {
  public:
    explicit RawClient(const std::string& address) {
        auto where = fabric::Address::parse(address, kDefaultPort);
        fabric_ = std::move(*fabric::open(*where));
        lane_ = std::move(*Lane::create(reactor_, *fabric_, 1));
        Link::Options options;
        options.address = *where;
        options.partition = 0;
        options.nonce = Random::entropy() | 1;
        link_ = std::make_unique<Link>(*lane_, options, *this);
        link_->start();
        turn_until([this] { return link_->ready(); });
        link_->options().epoch = map_epoch(1);
    }
    ~RawClient() override {
        link_->close();
        turn_until([this] { return link_->channel() == nullptr && lane_->empty(); });
    }
    uint64_t transaction(uint64_t ticks) const {
        return Timestamp::make(link_->facts().ticks + ticks, link_->facts().client_id).value;
    }
    template <typename Body>
    wire::KvStatus ask(wire::KvKind kind, uint8_t flags, const Body& body) {
        struct Answer : Call {
            wire::KvStatus status = wire::KvStatus::kUnknown;
            bool here = false;
        } answer;
        answer.done = [](Call& call, const wire::KvHeader* header, wire::Bytes) noexcept {
            auto& mine = static_cast<Answer&>(call);
            mine.here = true;
            if (header != nullptr) mine.status = header->status;
        };
        EXPECT_TRUE(link_->call(answer, kind, flags, body));
        turn_until([&] { return answer.here; });
        return answer.status;
    }
    template <typename Body>
    void tell(wire::KvKind kind, const Body& body) {
        link_->tell(kind, 0, body);
    }
    wire::KvStatus lock(uint64_t owner) { return ask(wire::KvKind::kLock, 0, exclusive(owner)); }

  private:
    void on_ready(Link&) noexcept override {}
    void on_lost(Link&, const Status&) noexcept override {}
    template <typename Condition>
    void turn_until(Condition holds) {
        const Nanoseconds limit = clock_.now() + from_s(60);
        while (!holds() && clock_.now() < limit) reactor_.turn();
        ASSERT_TRUE(holds());
    }

    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    std::unique_ptr<fabric::Fabric> fabric_;
    std::unique_ptr<Lane> lane_;
    std::unique_ptr<Link> link_;
};

struct LockOwner : testing::Test {
    Cluster cluster{{.partitions = 1}};
    RawClient owner{cluster.addresses()[0]}, other{cluster.addresses()[0]};
    uint64_t mine = owner.transaction(1);

    void SetUp() override { ASSERT_EQ(owner.lock(mine), wire::KvStatus::kOk); }
    // A write that commits at once and ends the locks of `mine`.
    wire::KvStatus write(RawClient& by, uint64_t timestamp, std::string key) {
        wire::KvPrepare prepare;
        prepare.timestamp = timestamp;
        prepare.owner = mine;
        prepare.participants = {0};
        prepare.items.emplace_back().key = std::move(key);
        return by.ask(wire::KvKind::kPrepare, wire::kKvPrepareCommit | wire::kKvPrepareUnlock, prepare);
    }
    bool is_locked() { return other.lock(other.transaction(100)) == wire::KvStatus::kLockConflict; }
};

TEST_F(LockOwner, a_prepare_does_not_release_the_locks_of_another_client) {
    EXPECT_EQ(write(other, other.transaction(2), "another key"), wire::KvStatus::kNotLeased);
    EXPECT_TRUE(is_locked());
}

TEST_F(LockOwner, a_refused_prepare_releases_the_locks_of_its_own_client) {
    EXPECT_EQ(write(owner, owner.transaction(2), "not locked"), wire::KvStatus::kLockConflict);
    EXPECT_FALSE(is_locked());
}

// The first answer was lost: the commit has released the locks meanwhile.
TEST_F(LockOwner, a_write_under_locks_that_is_sent_again_is_told_that_it_was_done) {
    const uint64_t timestamp = owner.transaction(2);
    ASSERT_EQ(write(owner, timestamp, "key"), wire::KvStatus::kCommitted);
    ASSERT_FALSE(is_locked()) << "and now another has it";
    EXPECT_EQ(write(owner, timestamp, "key"), wire::KvStatus::kCommitted);
}

TEST_F(LockOwner, a_read_does_not_lock_in_the_name_of_another_client) {
    wire::KvGet get;
    get.owner = mine;
    get.items.emplace_back().key = "free";
    EXPECT_EQ(other.ask(wire::KvKind::kGet, wire::kKvGetLocked, get), wire::KvStatus::kNotLeased);
    EXPECT_TRUE(is_locked());
}

TEST_F(LockOwner, an_unlock_does_not_release_the_locks_of_another_client) {
    other.tell(wire::KvKind::kUnlock, exclusive(mine));
    EXPECT_TRUE(is_locked());
}

}  // namespace wss::kv::test
