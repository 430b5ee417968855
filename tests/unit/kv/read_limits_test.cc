// SPDX-License-Identifier: Apache-2.0
// Reads that would need more memory than a partition or a message may use.
#include <gtest/gtest.h>

#include "lib/kv/store/memory_log.h"
#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

TEST(ReadLimits, are_named_in_the_error_of_a_client_that_reads_more_than_a_message_holds) {
    Cluster cluster({.partitions = 1, .arena_bytes = 64u << 20});
    auto client = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(client) << client.status().to_string();
    GetAll all;
    for (int i = 0; i < 17; ++i) {
        all.items.emplace_back().key = "key" + std::to_string(i);
        ASSERT_TRUE(put(**client, {{all.items.back().key, std::string(kValueMax, 'v')}}));
    }
    (*client)->run(all);
    ASSERT_FALSE(all.status);
    EXPECT_NE(all.status.to_string().find("exceed 16 MiB"), std::string::npos) << all.status.to_string();
    EXPECT_NE(all.status.to_string().find(cluster.addresses()[0]), std::string::npos)
        << all.status.to_string();
}

// All of these requests arrive in one frame.
TEST(ReadLimits, bound_the_replies_that_many_small_requests_for_large_values_accumulate) {
    static constexpr size_t kRequests = 200;
    Cluster cluster({.partitions = 1});
    auto writer = LocalClient::connect(cluster.client_options());
    ASSERT_TRUE(writer) << writer.status().to_string();
    ASSERT_TRUE(put(**writer, {{"key", std::string(kValueMax, 'v')}}));
    RawClient reader(cluster.addresses()[0]);
    static size_t served, put_off;
    served = put_off = 0;
    std::vector<Call> calls(kRequests);
    wire::KvGet get;
    get.items.emplace_back().key = "key";
    for (Call& call : calls) {
        call.done = [](Call&, const wire::KvHeader* header, wire::Bytes) noexcept {
            if (header == nullptr) return;
            served += header->status == wire::KvStatus::kOk;
            put_off += header->status == wire::KvStatus::kNotReady;
        };
        ASSERT_TRUE(reader.link().call(call, wire::KvKind::kGet, wire::kKvGetValues, get));
    }
    reader.turn_until([] { return served + put_off == kRequests; });
    EXPECT_GE(served, kBacklogMax / kValueMax);
    EXPECT_LE(served, kBacklogMax / kValueMax + 2);
    EXPECT_EQ(cluster.counters(0).refused_backlog, put_off);
}

// A log whose disk is slow: fetches complete only when release() allows it. They fail while fail() holds.
class SlowDisk final : public store::Log {
  public:
    Status load(store::LogVisitor& visitor) override { return log_.load(visitor); }
    void append(store::LogBatch batch, uint64_t ticket) override { log_.append(std::move(batch), ticket); }
    void fetch(std::string_view key, Timestamp timestamp, uint64_t ticket) override {
        asked_.push_back({std::string(key), timestamp, ticket});
        release(0);
    }
    // Lets `more` further fetches complete; call on the partition's thread.
    void release(size_t more) {
        released_ += more;
        for (; brought_ < std::min(released_, asked_.size()); ++brought_)
            if (failing_ == 0)
                log_.fetch(asked_[brought_].key, asked_[brought_].timestamp, asked_[brought_].ticket);
            else
                --failing_, failed_.push_back({.ticket = asked_[brought_].ticket, .code = Code::kIo});
    }
    void fail(size_t fetches) { failing_ = fetches; }
    Result<bool> find_transaction(Timestamp timestamp, store::LoggedTransaction& found) override {
        return log_.find_transaction(timestamp, found);
    }
    size_t poll(std::vector<store::LogCompletion>& done) override {
        const size_t count = failed_.size() + log_.poll(done);
        std::move(failed_.begin(), failed_.end(), std::back_inserter(done));
        failed_.clear();
        return count;
    }
    bool arm() noexcept override { return log_.arm(); }
    size_t fetches() const { return asked_.size(); }
    // The keys in the order of their fetches.
    const std::string& key(size_t at) const { return asked_[at].key; }

  private:
    struct Fetch {
        std::string key;
        Timestamp timestamp;
        uint64_t ticket = 0;
    };
    store::MemoryLog log_;
    std::vector<Fetch> asked_;  // used on the partition's thread
    size_t released_ = 0, brought_ = 0, failing_ = 0;
    std::vector<store::LogCompletion> failed_;
};

class ColdReads : public testing::Test {
  protected:
    static constexpr size_t kCold = 12;
    ColdReads() {
        auto writer = LocalClient::connect(cluster.client_options());
        EXPECT_TRUE(writer) << writer.status().to_string();
        for (int i = 0; i < 48; ++i)
            EXPECT_TRUE(put(**writer, {{"key" + std::to_string(i), std::string(kValueMax, 'v')}}));
        cluster.on(0, [this](Service& service) {
            for (int i = 0; i < 48 && get.items.size() < kCold; ++i) {
                keys.push_back("key" + std::to_string(i));
                if (!service.store().get(keys.back(), false).cold) keys.pop_back();
            }
        });
        for (const std::string& key : keys) get.items.emplace_back().key = key;
        get.items.resize(std::min(get.items.size(), kCold));
    }
    size_t fetches() {
        size_t count = 0;
        cluster.on(0, [&](Service&) { count = disk.fetches(); });
        return count;
    }
    SlowDisk disk;
    Cluster cluster{{.partitions = 1, .logs = {&disk}}};
    std::vector<std::string> keys;
    wire::KvGet get;
};

TEST_F(ColdReads, are_admitted_by_the_bytes_that_they_will_use) {
    ASSERT_EQ(get.items.size(), kCold);
    RawClient reader(cluster.addresses()[0]);
    static size_t put_off;
    put_off = 0;
    std::vector<Call> calls(60);  // 720 MiB
    for (Call& call : calls) {
        call.done = [](Call&, const wire::KvHeader* header, wire::Bytes) noexcept {
            put_off += header != nullptr && header->status == wire::KvStatus::kNotReady;
        };
        ASSERT_TRUE(reader.link().call(call, wire::KvKind::kGet, wire::kKvGetValues, get));
    }
    EXPECT_EQ(reader.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    // A single peer may use as much as remains free afterwards.
    const size_t admitted = calls.size() - put_off;
    EXPECT_GT(put_off, 0u);
    EXPECT_LE(admitted * kCold * kValueMax, DiskShare::kBytesMax / 2);
    EXPECT_GT((admitted + 2) * kCold * kValueMax, DiskShare::kBytesMax / 2);
    RawClient other(cluster.addresses()[0]);
    Call beside;
    beside.done = calls[0].done;
    const size_t before = put_off;
    ASSERT_TRUE(other.link().call(beside, wire::KvKind::kGet, wire::kKvGetValues, get));
    EXPECT_EQ(other.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    EXPECT_EQ(put_off, before) << "there is room for another peer";
    for (Call& call : calls) reader.link().forget(call);
    other.link().forget(beside);
}

// The disk returns the values one by one, in the order of their requests.
TEST_F(ColdReads, of_one_peer_alternate_with_those_of_another) {
    ASSERT_EQ(get.items.size(), kCold);
    RawClient greedy(cluster.addresses()[0]), other(cluster.addresses()[0]);
    wire::KvGet one;
    one.items.push_back(get.items.back());
    wire::KvGet many = get;
    many.items.pop_back();
    std::vector<Call> calls(8);  // 88 values
    for (Call& call : calls) {
        call.done = [](Call&, const wire::KvHeader*, wire::Bytes) noexcept {};
        ASSERT_TRUE(greedy.link().call(call, wire::KvKind::kGet, wire::kKvGetValues, many));
    }
    EXPECT_EQ(greedy.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    const size_t first = fetches();
    EXPECT_EQ(first, DiskShare::kFetchesMax) << "the others wait where they can be overtaken";
    static bool here;
    here = false;
    Call beside;
    beside.done = [](Call&, const wire::KvHeader* header, wire::Bytes) noexcept {
        here = header != nullptr && header->status == wire::KvStatus::kOk;
    };
    ASSERT_TRUE(other.link().call(beside, wire::KvKind::kGet, wire::kKvGetValues, one));
    EXPECT_EQ(other.ask(wire::KvKind::kPing, 0, wire::KvDecision{}), wire::KvStatus::kOk);
    ASSERT_FALSE(here);
    // Complete the fetches that were in progress, one more of the greedy peer, and the one of the other peer.
    cluster.on(0, [&](Service&) { disk.release(first + 2); });
    other.turn_until([&] { return here; });
    cluster.on(0, [&](Service&) { disk.release(1000); });
    for (Call& call : calls) greedy.turn_until([&] { return call.id == 0; });
}

TEST_F(ColdReads, of_more_than_a_message_holds_fetch_nothing) {
    ASSERT_EQ(get.items.size(), kCold);
    const size_t before = fetches();
    for (size_t i = 0; i < kCold; ++i) get.items.push_back(get.items[i]);
    RawClient reader(cluster.addresses()[0]);
    EXPECT_EQ(reader.ask(wire::KvKind::kGet, wire::kKvGetValues, get), wire::KvStatus::kUnsupported);
    EXPECT_EQ(fetches(), before);
}

TEST_F(ColdReads, that_fail_on_the_disk_are_repeated_and_then_reported_as_failed) {
    ASSERT_EQ(get.items.size(), kCold);
    cluster.on(0, [&](Service&) { disk.release(1000); });
    for (const Algorithm algorithm : {Algorithm::kRampFast, Algorithm::kRampSmall, Algorithm::kRampHybrid}) {
        Options options = cluster.client_options();
        options.algorithm = algorithm;
        auto reader = LocalClient::connect(options);
        ASSERT_TRUE(reader) << reader.status().to_string();
        GetAll request;
        // A value that was read may stay in memory.
        const std::string& key = keys[static_cast<size_t>(algorithm)];
        request.items.emplace_back().key = key;
        cluster.on(0, [&](Service&) { disk.fail(SIZE_MAX); });
        (*reader)->run(request);
        EXPECT_NE(request.status.to_string().find("cannot be read from disk"), std::string::npos)
            << request.status.to_string();
        cluster.on(0, [&](Service&) { disk.fail(1); });
        EXPECT_EQ(test::get(**reader, {key})[0].size(), kValueMax);
    }
}

// Each of the 100 versions is newer than all requested timestamps.
TEST(ReadLimits, bound_the_versions_that_a_message_with_old_timestamps_makes_a_partition_visit) {
    static constexpr size_t kMany = 1024;
    Cluster cluster({.partitions = 1, .window = from_s(60)});
    RawClient reader(cluster.addresses()[0]);
    cluster.on(0, [&](Service& service) {
        for (uint64_t i = 0; i < 100; ++i) {
            const store::Write write{.key = "key"};
            ASSERT_EQ(service.store().put(
                          {.timestamp = {reader.transaction(kMany + i)}, .writes = {&write, 1}}, {}),
                      store::Answer::kOk);
        }
    });
    for (const wire::KvSelect select : {wire::KvSelect::kAmong, wire::KvSelect::kExact}) {
        wire::KvGet get;
        for (uint64_t i = 0; i < kMany; ++i) get.among.push_back(reader.transaction(i));
        get.items.assign(kMany, {.key = "key", .select = select, .timestamp = reader.transaction(0)});
        EXPECT_EQ(reader.ask(wire::KvKind::kGet, 0, get), wire::KvStatus::kNotReady);
        get.items.resize(100);
        EXPECT_EQ(reader.ask(wire::KvKind::kGet, 0, get), wire::KvStatus::kOk);
    }
}

}  // namespace wss::kv::test
