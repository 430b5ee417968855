// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: a FakeCeph, an image of it that is opened, and a reactor whose clock
// stands still unless the test moves it. So requests grow old when the test says so, however slow the machine
// is. What the client's own threads do (looks at the header, once a second) happens in real time, and is
// waited for.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/io/rbd/plugin/backend.h"
#include "lib/reactor/reactor.h"
#include "tests/rbd/fake_ceph.h"

namespace wss::test {

// The system's when the test began, and what the test has let pass.
class ManualClock final : public Clock {
  public:
    Nanoseconds now() noexcept override { return now_; }
    void pass(Nanoseconds time) { now_ = now_ + time; }

  private:
    Nanoseconds now_ = SystemClock().now();
};

// A request with bytes of its own.
struct Io : io::Request {
    Io(io::Op what, uint64_t from, uint64_t bytes, char fill);
    bool is_done = false;
    std::vector<std::byte> bytes;
    char first() const { return static_cast<char>(bytes.front()); }
};

// One reactor's way to the image.
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

    // osd_timeout is 2 s, all other limits are short.
    explicit RbdTest(const FakeCeph::Layout& layout = {.size = 64 * kObject, .object = kObject});
    // Everything is released, and all clients end.
    ~RbdTest() override;

    // `options`: "KEY=VALUE&..." of the volume's specification. A failure ends the test.
    void open(const std::string& options = {});
    // Another client of the image.
    Result<std::unique_ptr<io::Backend>> open_other(const std::string& options = {});
    // … that wants a larger one, which fails when it has the image. `keeps`: as OpenOptions::keeps_taken.
    Result<std::unique_ptr<io::Backend>> open_larger(bool keeps);
    // Whether it could be opened.
    Status check(const std::string& options = {});
    Way& way() { return *way_; }
    // Where a test needs a second reactor's.
    std::unique_ptr<Way> make_way() { return std::make_unique<Way>(*backend_, reactor_); }
    void close_way() { way_.reset(); }
    void close() {
        close_way();
        backend_.reset();
    }

    // Time goes on in steps that are short for a reactor, which turns in each.
    void pass(Nanoseconds time);
    // The whole process, or its machine, is stopped for so long.
    void pause(Nanoseconds time) { clock_.pass(time); }
    // The reactor turns, and no time passes for it, until the condition holds. False: it never does.
    bool turn_until(const std::function<bool()>& condition);
    // As wait_for(); what the fake holds is answered when it is so old, if nobody has cancelled it before.
    bool wait_with_late_answers(Nanoseconds age, const std::function<bool()>& condition);
    // The one call that the fake holds, as soon as there is one, and it is not that with this id.
    FakeCeph::HeldCall wait_for_held(uint64_t other_than = 0);
    // Until all that the fake does not hold is answered, and done.
    void settle();
    // Number of this client.
    uint64_t client() const { return client_; }

    FakeCeph ceph_;
    ManualClock clock_;
    reactor::Reactor reactor_{clock_, {.spin = kNever}};
    std::unique_ptr<io::Backend> backend_;
    bool keeps_taken_ = false;  // of open(), as OpenOptions says

  private:
    std::unique_ptr<Way> way_;
    uint64_t client_ = 0;
};

// True as soon as `condition` is, false after a time that only an error takes.
bool wait_for(const std::function<bool()>& condition);

}  // namespace wss::test
