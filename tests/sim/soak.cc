// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/soak.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "lib/base/assert.h"

namespace wss::sim {

namespace {

using Clock = std::chrono::steady_clock;

// A child runs one seed, because crashed processes of a run keep memory and descriptors until the child ends.
constexpr uint64_t kSeedsOfChild = 1;
constexpr uint64_t kProgressEvery = 250;

// A child process that runs seeds [next, end). It writes one byte for each seed that ends: 1 if all checks
// held, otherwise 0.
struct Child {
    pid_t pid = -1;
    int pipe = -1;
    uint64_t next = 0, end = 0;
    Clock::time_point since;  // start of the current seed
};

class Soak {
  public:
    Soak(const SoakOptions& options, const std::function<bool(uint64_t)>& run)
        : options_(options), run_(run), next_(options.first) {}

    uint64_t run_all() {
        while (!children_.empty() || next_ < end()) {
            while (children_.size() < options_.jobs && next_ < end()) {
                const uint64_t seeds = std::min(kSeedsOfChild, end() - next_);
                start(next_, next_ + seeds);
                next_ += seeds;
            }
            wait_for_news();
        }
        return failed_;
    }

  private:
    uint64_t end() const { return options_.first + options_.count; }

    void start(uint64_t first, uint64_t end) {
        int ends[2];
        WSS_ASSERT(pipe(ends) == 0, "out of file descriptors");
        std::fflush(stdout);
        const pid_t pid = fork();
        WSS_ASSERT(pid >= 0, "out of processes");
        if (pid == 0) {
            close(ends[0]);
            work(first, end, ends[1]);
        }
        close(ends[1]);
        children_.push_back({.pid = pid, .pipe = ends[0], .next = first, .end = end, .since = Clock::now()});
    }

    [[noreturn]] void work(uint64_t first, uint64_t end, int report) {
        for (uint64_t seed = first; seed < end; ++seed) {
            const char held = run_(seed) ? 1 : 0;
            std::fflush(stdout);
            if (write(report, &held, 1) != 1) break;
        }
        _exit(0);
    }

    void wait_for_news() {
        std::vector<pollfd> fds;
        fds.reserve(children_.size());
        for (const Child& child : children_)
            fds.push_back({.fd = child.pipe, .events = POLLIN, .revents = 0});
        poll(fds.data(), fds.size(), 200);
        // The loop goes down, because removing or adding a child leaves the lower indices valid.
        for (size_t i = fds.size(); i-- > 0;) {
            if (fds[i].revents != 0)
                hear(i);
            else if (Clock::now() - children_[i].since > std::chrono::seconds(options_.limit_seconds))
                give_up(i);
        }
    }

    void hear(size_t at) {
        char held[kSeedsOfChild];
        const ssize_t got = read(children_[at].pipe, held, sizeof held);
        if (got <= 0) return retire(at, "died");
        Child& child = children_[at];
        for (ssize_t i = 0; i < got; ++i) {
            ++child.next;
            count(held[i] != 0);
        }
        child.since = Clock::now();
    }

    void give_up(size_t at) {
        kill(children_[at].pid, SIGKILL);
        retire(at, "did not end");
    }

    // The child has ended. If it ended during a seed, that seed failed, and a new child runs the remaining
    // ones.
    void retire(size_t at, const char* how) {
        const Child child = children_[at];
        children_.erase(children_.begin() + static_cast<ptrdiff_t>(at));
        close(child.pipe);
        int status = 0;
        waitpid(child.pid, &status, 0);
        if (child.next == child.end) return;
        fmt::print("seed {}: {} after {:.1f} s (signal {})\n", child.next, how,
                   std::chrono::duration<double>(Clock::now() - child.since).count(),
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        count(false);
        if (child.next + 1 < child.end) start(child.next + 1, child.end);
    }

    void count(bool held) {
        ++over_;
        if (!held) ++failed_;
        if (over_ % kProgressEvery == 0) fmt::print("… {} of {} seeds\n", over_, options_.count);
        std::fflush(stdout);
    }

    const SoakOptions options_;
    const std::function<bool(uint64_t)>& run_;
    uint64_t next_;
    uint64_t over_ = 0, failed_ = 0;
    std::vector<Child> children_;
};

}  // namespace

uint64_t soak(const SoakOptions& options, const std::function<bool(uint64_t seed)>& run) {
    return Soak(options, run).run_all();
}

}  // namespace wss::sim
