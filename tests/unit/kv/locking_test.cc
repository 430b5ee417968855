// SPDX-License-Identifier: Apache-2.0
// What clients that lock leave behind.
#include <gtest/gtest.h>

#include "tests/unit/kv/cluster.h"

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
        options.lock_retries = 0;  // who is refused once says so
        return LocalClient::connect(options);
    }
    static std::vector<std::string> keys() {
        std::vector<std::string> names;
        for (int i = 0; i < 16; ++i) names.push_back("key" + std::to_string(i));
        return names;
    }
    // Turned until the request is over and not once more: whatever it has told nobody is still to be told.
    static void run(LocalClient& client, Request& request) {
        static bool over;
        over = false;
        request.done = [](Request&) noexcept { over = true; };
        client.submit(request);
        while (!over) client.turn();
        EXPECT_TRUE(request.status) << request.status.to_string();
    }
};

TEST_P(Locking, a_client_that_ends_has_released_what_it_locked) {
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

}  // namespace wss::kv::test
