// SPDX-License-Identifier: Apache-2.0
// Clients that connect while a partition is down.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <thread>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

class LivePartitions : public testing::TestWithParam<const char*> {
  protected:
    Cluster cluster{{.partitions = 3, .scheme = GetParam()}};
    std::unique_ptr<LocalClient> connect(std::vector<std::string> addresses) {
        kv::Options options = cluster.client_options();
        options.partitions = std::move(addresses);
        options.timeout = from_s(2);
        auto client = LocalClient::connect(options);
        EXPECT_TRUE(client) << client.status().to_string();
        return client ? std::move(*client) : nullptr;
    }
};
INSTANTIATE_TEST_SUITE_P(Kv, LivePartitions, testing::Values("tcp", "shm"));

TEST_P(LivePartitions, serve_new_clients_whichever_one_is_down) {
    for (uint32_t dead = 0; dead < 3; ++dead) {
        cluster.stop(dead);
        auto client = connect(cluster.addresses());
        ASSERT_TRUE(client);
        const std::string a = key_on((dead + 1) % 3, 3), b = key_on((dead + 2) % 3, 3);
        Status status = put(*client, {{a, "one"}, {b, "two"}});
        EXPECT_TRUE(status) << status.to_string();
        EXPECT_EQ(get(*client, {a, b}), (std::vector<std::string>{"one", "two"}));
        const Status lost = put(*client, {{key_on(dead, 3), "value"}});
        ASSERT_FALSE(lost);
        EXPECT_NE(lost.to_string().find("partition " + std::to_string(dead)), std::string::npos)
            << lost.to_string();
        EXPECT_NE(lost.to_string().find(cluster.addresses()[dead]), std::string::npos) << lost.to_string();
        cluster.start(dead);
        EXPECT_TRUE(put(*client, {{key_on(dead, 3), "value"}}));
    }
}

TEST_P(LivePartitions, send_the_map_to_a_client_that_has_the_address_of_any_one_of_them) {
    for (uint32_t i = 0; i < 3; ++i) {
        auto client = connect({cluster.addresses()[i]});
        ASSERT_TRUE(client);
        EXPECT_EQ(client->partitions(), 3u);
        for (uint32_t p = 0; p < 3; ++p) {
            EXPECT_TRUE(put(*client, {{key_on(p, 3), std::to_string(i)}}));
            EXPECT_EQ(get(*client, {key_on(p, 3)})[0], std::to_string(i));
        }
    }
}

// A client first waits for all partitions of a request. Otherwise it would have to repeat reads from those
// that were up.
TEST_P(LivePartitions, serve_the_first_request_of_a_client_in_one_attempt) {
    auto client = connect(cluster.addresses());
    ASSERT_TRUE(client);
    PutAll write;
    GetAll read;
    for (uint32_t p = 0; p < 3; ++p) {
        write.items.push_back({.key = key_on(p, 3), .value = "value"});
        read.items.emplace_back().key = key_on(p, 3);
    }
    connect(cluster.addresses())->run(write);
    EXPECT_TRUE(write.status) << write.status.to_string();
    EXPECT_EQ(write.retries, 0u);
    client->run(read);
    EXPECT_TRUE(read.status) << read.status.to_string();
    EXPECT_EQ(read.retries, 0u);
    EXPECT_EQ(client->statistics().messages, 3u);
}

// A stopped partition that the request does not need must not be named.
TEST_P(LivePartitions, are_named_in_the_error_of_a_request_that_they_delay_beyond_its_limit) {
    auto client = connect(cluster.addresses());
    ASSERT_TRUE(client);
    for (uint32_t p = 0; p < 2; ++p) ASSERT_TRUE(put(*client, {{key_on(p, 3), "value"}}));
    cluster.stop(0);
    const auto expect_named = [](const Status& status) {
        EXPECT_EQ(status.code(), Code::kTimedOut);
        EXPECT_NE(status.to_string().find("partition 1 "), std::string::npos) << status.to_string();
        EXPECT_NE(status.to_string().find("did not answer in time"), std::string::npos) << status.to_string();
    };
    PutAll write;
    write.items.push_back({.key = key_on(1, 3), .value = "value"});
    GetAll read;
    read.items.emplace_back().key = key_on(1, 3);
    std::promise<void> begun, over;
    std::future<void> released = over.get_future();
    std::thread busy([&] {
        cluster.on(1, [&](Service&) {
            begun.set_value();
            released.wait_for(std::chrono::seconds(20));
        });
    });
    begun.get_future().wait();
    client->submit(write);
    client->run(read);
    over.set_value();
    expect_named(write.status);
    expect_named(read.status);
    busy.join();
}

// The refusal comes at once and names the wrong address.
TEST_P(LivePartitions, refuse_a_map_of_another_store) {
    kv::Options options = cluster.client_options();
    options.connect_timeout = from_s(60);
    options.partitions.push_back(options.partitions[0]);
    Status status = LocalClient::connect(options).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.to_string().find("of 3 partitions, but the client's map has 4"), std::string::npos)
        << status.to_string();
    options = cluster.client_options();
    options.connect_timeout = from_s(60);
    std::rotate(options.partitions.begin(), options.partitions.begin() + 1, options.partitions.end());
    status = LocalClient::connect(options).status();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.to_string().find("check the order of the addresses"), std::string::npos)
        << status.to_string();
}

}  // namespace wss::kv::test
