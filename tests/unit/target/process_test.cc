// SPDX-License-Identifier: Apache-2.0
// The output of a daemon that other programs read.
#include "target/daemon/process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace wss::daemon {
namespace {

// A service that reports readiness twice, on standard output and to the service manager, and then ends.
class Nothing final : public Service {
  public:
    std::string describe() const override {
        if (++reports_ == 2) kill(getpid(), SIGTERM);
        return "nothing";
    }
    Status reload() override { return Status::ok(); }
    Status check_alive() override { return Status::ok(); }
    Status stop(const Step&) override { return Status::ok(); }

  private:
    mutable int reports_ = 0;
};

struct Ended {
    int status = -1;
    std::string output;
};

// Runs a process that prints during its start, as libraries may, and whose start succeeds or fails.
Ended run(bool starts) {
    int both[2];
    if (pipe(both) != 0) return {};
    std::fflush(stdout);  // otherwise the child would print buffered text again
    const pid_t child = fork();
    if (child == 0) {
        dup2(both[1], STDOUT_FILENO);
        close(both[0]);
        close(both[1]);
        char name[] = "wss-nothing";
        char* arguments[] = {name, nullptr};
        Program program{.name = name,
                        .describe = [](CLI::App&) {},
                        .configure = [](const CLI::App&) { return Status::ok(); },
                        .start = [starts](const Step&) -> Result<std::unique_ptr<Service>> {
                            std::printf("a library prints\n");
                            std::fflush(stdout);
                            if (starts) return std::unique_ptr<Service>(new Nothing);
                            return Status(Code::kInvalid, "it does not start");
                        }};
        const int status = run_process(program, 1, arguments);
        std::printf("a library prints at the end, too\n");
        std::fflush(stdout);
        _exit(status);
    }
    close(both[1]);
    Ended ended;
    char bytes[512];
    for (ssize_t got; (got = read(both[0], bytes, sizeof bytes)) > 0;)
        ended.output.append(bytes, static_cast<size_t>(got));
    close(both[0]);
    int status = -1;
    if (waitpid(child, &status, 0) == child && WIFEXITED(status)) ended.status = WEXITSTATUS(status);
    return ended;
}

TEST(Process, prints_only_the_ready_line_on_standard_output_and_no_output_of_libraries) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork() into threads";
#endif
    const Ended ended = run(true);
    EXPECT_EQ(ended.output, "wss-nothing: ready on nothing\n");
    EXPECT_EQ(ended.status, 0);
}

TEST(Process, prints_nothing_on_standard_output_when_it_does_not_start) {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork() into threads";
#endif
    const Ended ended = run(false);
    EXPECT_EQ(ended.output, "");
    EXPECT_EQ(ended.status, 1);
}

}  // namespace
}  // namespace wss::daemon
