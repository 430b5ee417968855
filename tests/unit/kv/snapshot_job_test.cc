// SPDX-License-Identifier: Apache-2.0
// A client's snapshot of all partitions, one of which stands still.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "tests/unit/kv/cluster.h"

namespace wss::kv::test {

class SnapshotJob : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = "/tmp/wss-snapshots-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        for (const char* partition : {"0", "1"}) std::filesystem::create_directory(directory_ / partition);
        cluster_ = std::make_unique<Cluster>(Cluster::Options{.partitions = 2, .snapshots = directory_});
    }
    void TearDown() override {
        client_.reset();
        cluster_.reset();
        std::filesystem::remove_all(directory_);
    }
    // A client that is connected to both partitions.
    void connect(Nanoseconds timeout) {
        Options options = cluster_->client_options();
        options.timeout = timeout;
        auto client = Client::connect(options);
        ASSERT_TRUE(client) << client.status().to_string();
        client_ = std::move(*client);
        PutAll both;
        for (uint32_t i = 0; i < 2; ++i) both.items.push_back({.key = key_on(i, 2), .value = "value"});
        client_->run(both);
        ASSERT_TRUE(both.status) << both.status.to_string();
    }
    void begin(const std::string& name) {
        request_.directory = name;
        request_.context = &ended_;
        request_.done = [](Request& request) noexcept {
            static_cast<std::promise<void>*>(request.context)->set_value();
        };
        client_->submit(request_);
    }
    Status end() {
        ended_.get_future().wait();
        return request_.status;
    }
    bool appears(const std::filesystem::path& path) const {
        for (int i = 0; i < 1000 && !std::filesystem::exists(directory_ / path); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return std::filesystem::exists(directory_ / path);
    }

    std::filesystem::path directory_;
    std::unique_ptr<Cluster> cluster_;
    std::unique_ptr<Client> client_;
    Snapshot request_;
    std::promise<void> ended_;
};

TEST_F(SnapshotJob, requests_a_snapshot_of_every_partition_before_the_first_one_has_answered) {
    connect(from_s(30));
    std::promise<void> stands, released;
    std::thread still([&] {
        cluster_->on(0, [&](Service&) {
            stands.set_value();
            released.get_future().wait();
        });
    });
    stands.get_future().wait();
    begin("monday");
    EXPECT_TRUE(appears("1/monday"));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "0/monday"));
    released.set_value();
    still.join();
    Status status = end();
    EXPECT_TRUE(status) << status.to_string();
    EXPECT_TRUE(std::filesystem::exists(directory_ / "0/monday"));
}

TEST_F(SnapshotJob, fails_if_a_connection_is_lost_before_its_answer) {
    connect(from_s(30));
    cluster_->stop(0, [&] {
        begin("monday");
        EXPECT_TRUE(appears("1/monday"));
    });
    Status status = end();
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.text().find("create another one"), std::string::npos) << status.to_string();
}

TEST_F(SnapshotJob, reports_the_refusal_of_one_partition_if_another_does_not_answer) {
    connect(from_s(1));
    Status status;
    cluster_->stop(0, [&] {
        begin("monday.partial");
        status = end();
    });
    EXPECT_NE(status.text().find("a snapshot's name consists"), std::string::npos) << status.to_string();
}

}  // namespace wss::kv::test
