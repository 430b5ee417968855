// SPDX-License-Identifier: Apache-2.0
// Helpers for tests of backends: a temporary directory, and a reactor that is stepped until a request
// completes. The test fails after a time limit.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/backend.h"

namespace wss::io::test {

constexpr Nanoseconds kPatience = from_s(30);

class TemporaryFolder {
  public:
    explicit TemporaryFolder(const char* parent = "/tmp") {
        std::string pattern = std::string(parent) + "/wss-io-XXXXXX";
        EXPECT_NE(mkdtemp(pattern.data()), nullptr);
        path_ = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// Bytes at a given distance from a page boundary.
class Buffer {
  public:
    explicit Buffer(size_t bytes, size_t misalignment = 0) : bytes_(bytes), offset_(misalignment) {
        memory_ = static_cast<std::byte*>(
            std::aligned_alloc(4096, (bytes + misalignment + 4095) / 4096 * 4096 + 4096));
    }
    ~Buffer() { std::free(memory_); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::byte* data() { return memory_ + offset_; }
    size_t size() const { return bytes_; }
    std::span<std::byte> span() { return {data(), bytes_}; }
    void fill(uint64_t seed) {
        Random random(seed);
        for (size_t i = 0; i < bytes_; ++i) data()[i] = static_cast<std::byte>(random.next());
    }
    void fill(std::byte value) { std::fill_n(data(), bytes_, value); }

  private:
    std::byte* memory_;
    size_t bytes_, offset_;
};

struct TestRequest : Request {
    bool finished = false;
    int calls = 0;
    TestRequest() {
        done = [](Request& request) noexcept {
            auto& self = static_cast<TestRequest&>(request);
            self.finished = true;
            ++self.calls;
        };
    }
    TestRequest(Op what, uint64_t from, uint64_t bytes, std::byte* buffer = nullptr) : TestRequest() {
        op = what;
        offset = from;
        length = bytes;
        data = buffer;
    }
};

// One reactor with one queue of one backend.
class Rig {
  public:
    explicit Rig(std::unique_ptr<Backend> opened) : backend(std::move(opened)) {
        auto made = backend->open_queue(reactor);
        EXPECT_TRUE(made) << made.status().to_string();
        queue = std::move(*made);
        reactor.add(*queue);
    }
    static std::unique_ptr<Rig> open(const std::string& specification, const OpenOptions& options = {}) {
        auto made = open_backend(specification, options);
        EXPECT_TRUE(made) << made.status().to_string();
        return made ? std::make_unique<Rig>(std::move(*made)) : nullptr;
    }
    ~Rig() {
        drain();
        reactor.remove(*queue);
        queue.reset();
    }

    template <typename Predicate>
    void step_until(Predicate&& reached) {
        Nanoseconds deadline = clock.now() + kPatience;
        while (!reached() && clock.now() < deadline) reactor.step();
        EXPECT_TRUE(reached()) << "not done within the time limit";
    }
    void drain() {
        step_until([&] { return queue->in_flight() == 0; });
    }
    // Returns the request's error.
    int run(TestRequest& request) {
        queue->submit(request);
        step_until([&] { return request.finished; });
        return request.error;
    }
    int run(Op op, uint64_t offset, uint64_t length, std::byte* data = nullptr) {
        TestRequest request(op, offset, length, data);
        return run(request);
    }

    SystemClock clock;
    reactor::Reactor reactor{clock};
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Queue> queue;
};

}  // namespace wss::io::test
