// SPDX-License-Identifier: Apache-2.0
// Detection of a standard error stream that leads to the journal.
#include "lib/base/journal.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace wss {
namespace {

class Journal : public testing::Test {
  public:
    ~Journal() override { unsetenv("JOURNAL_STREAM"); }

  protected:
    static bool is_journal(const std::string& stream) {
        setenv("JOURNAL_STREAM", stream.c_str(), 1);
        return journal::is_standard_error();
    }
    static std::string standard_error() {
        struct stat info {};
        fstat(STDERR_FILENO, &info);
        return fmt::format("{}:{}", info.st_dev, info.st_ino);
    }
};

TEST_F(Journal, is_standard_error_if_the_manager_names_its_file) {
    EXPECT_TRUE(is_journal(standard_error()));
}

TEST_F(Journal, is_not_the_file_of_a_parent) {
    unsetenv("JOURNAL_STREAM");
    EXPECT_FALSE(journal::is_standard_error());
    EXPECT_FALSE(is_journal("1:1"));
}

TEST_F(Journal, is_only_the_file_that_the_variable_names) {
    for (const char* stream : {"", ":", "1", "1:", ":1", "a:b", "-1:-1", "99999999999999999999999:1"})
        EXPECT_FALSE(is_journal(stream)) << stream;
    EXPECT_FALSE(is_journal(standard_error() + " "));
}

}  // namespace
}  // namespace wss
