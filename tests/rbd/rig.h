// SPDX-License-Identifier: Apache-2.0
// Test fixture of this folder: a FakeCeph, its open image, and a reactor whose clock only the test advances,
// so that the age of requests does not depend on the speed of the machine. The client's own threads (looks at
// the header, once a second) run in real time, and tests wait for them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/io/rbd/plugin/backend.h"
#include "lib/reactor/reactor.h"
#include "tests/rbd/fake_ceph.h"

namespace wss::test {

// Starts with the system's time and then only advances by pass().
class ManualClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return now_; }
    void pass(Nanoseconds time) { now_ = now_ + time; }

  private:
    Nanoseconds now_ = SystemClock().now();
};

// A request with its own buffer.
struct Io : io::Request {
    Io(io::Op what, uint64_t from, uint64_t bytes, char fill);
    bool is_done = false;
    std::vector<std::byte> bytes;
    char first() const { return static_cast<char>(bytes.front()); }
};

// A queue of the image, with its requests.
class Way {
  public:
    Way(io::Backend& backend, reactor::Reactor& reactor);
    ~Way();
    Io& read(uint64_t offset, uint64_t length = 4096) { return submit(io::Op::kRead, offset, length, 0); }
    Io& write(uint64_t offset, char fill, uint64_t length = 4096) {
        return submit(io::Op::kWrite, offset, length, fill);
    }
    Io& submit(io::Op op, uint64_t offset, uint64_t length, char fill);
    io::Queue& queue() { return *queue_; }
    uint64_t done() const;

  private:
    reactor::Reactor& reactor_;
    std::unique_ptr<io::Queue> queue_;
    std::vector<std::unique_ptr<Io>> requests_;
};

class RbdTest : public testing::Test {
  protected:
    static constexpr uint64_t kObject = 1 << 20;

    // The specification sets osd_timeout to 2 s, and short values for most other limits.
    explicit RbdTest(const FakeCeph::Layout& layout = {.size = 64 * kObject, .object = kObject});
    // Releases everything and waits until all clients have ended.
    ~RbdTest() override;

    // `options`: "KEY=VALUE&..." of the volume's specification. A failure ends the test.
    void open(const std::string& options = {});
    // Opens another client of the image.
    Result<std::unique_ptr<io::Backend>> open_other(const std::string& options = {});
    // Opens another client, which enlarges the image.
    Result<std::unique_ptr<io::Backend>> open_and_grow(const std::string& options);
    // Opens another client that requires a larger image. The opening fails after it has taken the lock.
    // `keeps`: as OpenOptions::keeps_taken.
    Result<std::unique_ptr<io::Backend>> open_larger(bool keeps);
    // Checks whether the image could be opened.
    Status check(const std::string& options = {});
    Way& way() { return *way_; }
    // For tests that need a second queue.
    std::unique_ptr<Way> make_way() { return std::make_unique<Way>(*backend_, reactor_); }
    void close_way() { way_.reset(); }
    void close() {
        close_way();
        backend_.reset();
    }

    // Advances the clock in short steps, with a turn of the reactor in each.
    void pass(Nanoseconds time);
    // Advances the clock at once, as if the process or its machine had been stopped.
    void pause(Nanoseconds time) { clock_.pass(time); }
    // Runs turns of the reactor without advancing the clock until the condition holds. Returns false after a
    // timeout.
    bool turn_until(const std::function<bool()>& condition);
    // Like wait_for(), but releases each held call after `age` of real time.
    bool wait_with_late_answers(Nanoseconds age, const std::function<bool()>& condition);
    // Waits until the fake holds exactly one call, whose id is not `other_than`.
    FakeCeph::HeldCall wait_for_held(uint64_t other_than = 0);
    // Waits until all operations that the fake does not hold are answered and their requests are completed.
    void settle();
    // The number of this test's client.
    uint64_t client() const { return client_; }

    FakeCeph ceph_;
    ManualClock clock_;
    reactor::Reactor reactor_{clock_, {.spin = kNever}};
    std::unique_ptr<io::Backend> backend_;
    bool keeps_taken_ = false;  // OpenOptions::keeps_taken of open() and check()
    bool read_only_ = false;    // OpenOptions::read_only of open()
    uint32_t block_ = 512;      // see OpenOptions
    // OpenOptions::given_up of open_other()
    const std::shared_ptr<std::atomic<bool>> given_up_ = std::make_shared<std::atomic<bool>>(false);

  private:
    std::unique_ptr<Way> way_;
    uint64_t client_ = 0;
};

// Returns true as soon as `condition` does, or false after a timeout that only a defect exceeds.
bool wait_for(const std::function<bool()>& condition);

}  // namespace wss::test
