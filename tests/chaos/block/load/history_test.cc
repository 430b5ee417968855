// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/block/load/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace wss::chaos {
namespace {

using testing::HasSubstr;
using testing::Not;

class HistoryTest : public testing::Test {
  protected:
    ~HistoryTest() override { std::filesystem::remove(path_); }

    const std::string path_ =
        std::filesystem::temp_directory_path() / ("history-test-" + std::to_string(getpid()));
};

TEST_F(HistoryTest, ShowsTheEventsOfASectorInOrder) {
    History history = *History::open(path_);
    const uint64_t first = history.begin(7, "write", {8, 2}, 41);
    history.end(first, 0);
    history.note(7, "cut", {10, 100});
    history.begin(7, "read", {9, 4}, 0);
    const std::string text = history.about(7, 9, 10);
    EXPECT_THAT(text, HasSubstr("write of sectors 8 to 10, change 41"));
    EXPECT_THAT(text, HasSubstr("in flight: read of sectors 9 to 13"));
    EXPECT_THAT(text, Not(HasSubstr("cut")));
    EXPECT_LT(text.find("write"), text.find("read"));
    EXPECT_EQ(history.about(8, 9, 10), "");
    EXPECT_THAT(history.about(7, 9, 1), Not(HasSubstr("write")));
}

TEST_F(HistoryTest, SurvivesItsClient) {
    { History::open(path_)->note(7, "write", {8, 2}); }
    EXPECT_THAT(History::open(path_)->about(7, 8, 10), HasSubstr("write"));
}

TEST_F(HistoryTest, KeepsOnlyTheLastEvents) {
    History history = *History::open(path_);
    const uint64_t old = history.begin(7, "write", {8, 2}, 1);
    for (uint64_t i = 0; i < History::kEvents; ++i) history.note(7, "read", {20, 1});
    history.end(old, -5);
    EXPECT_EQ(history.about(7, 8, 10), "");
    EXPECT_THAT(history.about(7, 20, 1), HasSubstr("result 0"));
}

}  // namespace
}  // namespace wss::chaos
