// SPDX-License-Identifier: Apache-2.0
// Locks that clients leave behind.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

struct Locker {
    std::string scheme;
    Algorithm algorithm;
    Transport transport;
};

void PrintTo(const Locker& locker, std::ostream* out) {
    *out << locker.scheme << " " << to_string(locker.algorithm) << " " << to_string(locker.transport);
}

class Locking : public testing::TestWithParam<Locker> {
  protected:
    Result<std::unique_ptr<LocalClient>> client(const Cluster& cluster, Algorithm algorithm) {
        kv::Options options = cluster.client_options();
        options.algorithm = algorithm;
        options.transport = GetParam().transport;
        options.lock_retries = 0;  // a single refusal is reported
        return LocalClient::connect(options);
    }
    static std::vector<std::string> keys() {
        std::vector<std::string> names;
        for (int i = 0; i < 16; ++i) names.push_back("key" + std::to_string(i));
        return names;
    }
    // Polls until the request has ended, but not once more: messages that it has queued by then stay unsent.
    static void run(LocalClient& client, Request& request) {
        static bool over;
        over = false;
        request.done = [](Request&) noexcept { over = true; };
        client.submit(request);
        while (!over) client.turn();
        EXPECT_TRUE(request.status) << request.status.to_string();
    }
};

TEST_P(Locking, leaves_no_lock_behind_a_client_that_ends) {
    Cluster cluster({.partitions = 3, .scheme = GetParam().scheme});
    for (int round = 0; round < 10; ++round) {
        {
            auto reader = client(cluster, GetParam().algorithm);
            ASSERT_TRUE(reader) << reader.status().to_string();
            GetAll read;
            for (const std::string& key : keys()) read.items.emplace_back().key = key;
            run(**reader, read);
        }
        auto writer = client(cluster, Algorithm::kLockParallel);
        ASSERT_TRUE(writer) << writer.status().to_string();
        PutAll write;
        for (const std::string& key : keys()) write.items.push_back({.key = key, .value = "value"});
        run(**writer, write);
        EXPECT_EQ((*writer)->statistics().lock_conflicts, 0u) << "round " << round;
    }
}

INSTANTIATE_TEST_SUITE_P(Kv, Locking,
                         testing::Values(Locker{"tcp", Algorithm::kLockParallel, Transport::kMessage},
                                         Locker{"tcp", Algorithm::kLockSequential, Transport::kMessage},
                                         Locker{"shm", Algorithm::kLockParallel, Transport::kMessage},
                                         Locker{"shm", Algorithm::kLockParallel, Transport::kRing}));

// When the service withdraws the exclusive waiter, the waiters behind it are granted the lock.
TEST(LocksOfAService, end_with_the_service_while_others_wait_behind_a_waiter) {
    Cluster cluster({.partitions = 1});
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 4; ++i) clients.push_back(std::make_unique<RawClient>(cluster.addresses()[0]));
    const auto wanted = [&](size_t client, bool exclusive) {
        return wire::KvLock{.owner = clients[client]->transaction(client),
                            .exclusive = exclusive,
                            .wait = true,
                            .keys = {"key"}};
    };
    ASSERT_EQ(clients[0]->ask(wire::KvKind::kLock, 0, wanted(0, false)), wire::KvStatus::kOk);
    std::array<Call, 4> calls;
    for (size_t i = 1; i < 4; ++i) {
        calls[i].done = [](Call&, const wire::KvHeader*, wire::Bytes) noexcept {};
        ASSERT_TRUE(clients[i]->link().call(calls[i], wire::KvKind::kLock, 0, wanted(i, i == 1)));
        size_t waiting = 0;
        clients[i]->turn_until([&] {
            cluster.on(0, [&](Service& service) { waiting = service.store().locks().waiting(); });
            return waiting == i;
        });
    }
    for (size_t i = 1; i < 4; ++i) clients[i]->link().forget(calls[i]);
    cluster.stop(0);
}

}  // namespace wss::kv::test
