// SPDX-License-Identifier: Apache-2.0
// A channel's memory is bounded by the messages that wait to be sent, not by those sent so far.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

namespace {

constexpr size_t kValueBytes = 256u << 10;
constexpr int kUnderWay = 64, kAll = 600;

struct Load {
    explicit Load(RawClient& who) : client(who), calls(kUnderWay) {
        for (Call& call : calls) {
            call.context = this;
            call.done = [](Call& mine, const wire::KvHeader*, wire::Bytes) noexcept {
                auto& load = *static_cast<Load*>(mine.context);
                ++load.answered;
                load.send(mine);
            };
        }
    }
    void send(Call& call) {
        if (sent == kAll) return;
        wire::KvPrepare prepare;
        prepare.timestamp = client.transaction(static_cast<uint64_t>(++sent));
        prepare.participants = {0};
        prepare.items.push_back({.key = "key", .value = std::as_bytes(std::span(value))});
        ASSERT_TRUE(client.link().call(call, wire::KvKind::kPrepare, wire::kKvPrepareCommit, prepare));
        most = std::max(most, client.link().channel()->held());
    }
    RawClient& client;
    std::vector<Call> calls;
    const std::string value = std::string(kValueBytes, 'v');
    int sent = 0, answered = 0;
    size_t most = 0;
};

}  // namespace

TEST(ChannelMemory, of_a_channel_that_is_never_idle_holds_only_waiting_messages) {
    Cluster cluster({.partitions = 1, .scheme = "tcp", .arena_bytes = 64u << 20});
    RawClient client(cluster.addresses()[0]);
    Load load(client);
    for (Call& call : load.calls) load.send(call);
    client.turn_until([&] { return load.answered == kAll; });
    EXPECT_LT(load.most, 2 * kUnderWay * (kValueBytes + 1024));
}

}  // namespace wss::kv::test
