// SPDX-License-Identifier: Apache-2.0
// NoDescriptors: while this object lives, no descriptor can be opened.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace wss::test {

class NoDescriptors {
  public:
    NoDescriptors() {
        getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest_free = dup(0);
        close(lowest_free);
        rlimit none{static_cast<rlim_t>(lowest_free), before_.rlim_max};
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
    NoDescriptors(const NoDescriptors&) = delete;
    NoDescriptors& operator=(const NoDescriptors&) = delete;

  private:
    rlimit before_{};
};

}  // namespace wss::test
