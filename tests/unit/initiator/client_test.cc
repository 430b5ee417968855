// SPDX-License-Identifier: Apache-2.0
// A client's own thread serves many threads: no request is lost between them (run under TSan too).
#include "lib/initiator/client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "lib/initiator/wss.h"
#include "tests/unit/target/world.h"

namespace wss::initiator {
namespace {

// A target that runs on a thread of its own.
class ThreadedTarget {
  public:
    ThreadedTarget() {
        world_.add_volume("disk", "ram:16M", 16 << 20);
        uri_ = world_.address().to_string();
        thread_ = std::thread([this] {
            while (!stop_.load(std::memory_order_acquire)) world_.step();
        });
    }
    ~ThreadedTarget() {
        stop_.store(true, std::memory_order_release);
        thread_.join();
    }
    const std::string& uri() const { return uri_; }

  private:
    block::testing::World world_;
    std::string uri_;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

struct Opened {
    explicit Opened(const std::string& uri) {
        EXPECT_EQ(wss_connect(uri.c_str(), nullptr, &client), 0) << wss_error();
        EXPECT_EQ(wss_open(client, "disk", &volume), 0) << wss_error();
    }
    ~Opened() {
        wss_close(volume);
        wss_disconnect(client);
    }
    wss_client* client = nullptr;
    wss_volume* volume = nullptr;
};

TEST(Client, lets_many_threads_share_one_volume) {
    ThreadedTarget target;
    Opened opened(target.uri());
    constexpr int kThreads = 4, kRounds = 100;
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int each = 0; each < kThreads; ++each)
        threads.emplace_back([&, each] {
            std::vector<char> data(24 * 1024), back(data.size());
            for (int round = 0; round < kRounds; ++round) {
                uint64_t offset = static_cast<uint64_t>(each) * data.size();
                std::fill(data.begin(), data.end(), static_cast<char>(each * 31 + round));
                if (wss_write(opened.volume, data.data(), data.size(), offset, 0) != 0) ++wrong;
                if (wss_read(opened.volume, back.data(), back.size(), offset) != 0 || back != data) ++wrong;
                wss_info info;
                if (round % 10 == 0) wss_get_info(opened.volume, &info);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
}

TEST(Client, completes_everything_in_queues_of_several_threads) {
    ThreadedTarget target;
    Opened opened(target.uri());
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int each = 0; each < 3; ++each)
        threads.emplace_back([&, each] {
            constexpr uint32_t kDepth = 8;
            wss_queue* queue = nullptr;
            ASSERT_EQ(wss_queue_create(opened.client, kDepth, &queue), 0);
            std::vector<char> data(kDepth * 4096, static_cast<char>(each));
            int completed = 0;
            for (int submitted = 0; completed < 300;) {
                wss_io io{};
                io.volume = opened.volume;
                io.operation = submitted % 2 == 0 ? WSS_OP_WRITE : WSS_OP_FLUSH;
                io.length = 4096;
                io.offset = static_cast<uint64_t>(each) * 4096;
                io.buffer = data.data();
                if (submitted < 300 && wss_submit(queue, &io) == 0) {
                    ++submitted;
                    continue;
                }
                wss_completion over[kDepth];
                int count = wss_wait(queue, over, kDepth, 10000);
                if (count <= 0) ++wrong;
                if (count <= 0) break;
                for (int i = 0; i < count; ++i) wrong += over[i].result != 0;
                completed += count;
            }
            wss_queue_destroy(queue);
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0);
}

TEST(Client, leaks_nothing_when_it_connects_and_disconnects_repeatedly) {
    ThreadedTarget target;
    for (int i = 0; i < 30; ++i) Opened opened(target.uri());
}

TEST(Client, that_cannot_connect_ends_its_thread) {
    wss_client* client = nullptr;
    EXPECT_LT(wss_connect("tcp://127.0.0.1:1", nullptr, &client), 0);
    EXPECT_NE(std::string(wss_error()).find("127.0.0.1:1"), std::string::npos) << wss_error();
}

}  // namespace
}  // namespace wss::initiator
