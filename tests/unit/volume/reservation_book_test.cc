// SPDX-License-Identifier: Apache-2.0
// Reservations across a restart, and files in a foreign format.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "lib/base/file.h"
#include "target/volume/reservation_book.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {
namespace {

constexpr uint64_t kWwid = 0x123456789abcdef;

Reservations example(bool persists) {
    Registration first{.initiator = {.port = {}, .name = "ada"}, .key = 0x11, .is_holder = true};
    first.initiator.port[0] = 0xfe;
    Registration second{.initiator = {.port = {}, .name = "bob"}, .key = 0x22};
    return {.registrations = {first, second},
            .type = ReservationType::kWriteExclusiveRegistrants,
            .persists = persists,
            .generation = 7};
}

class ReservationBooks : public testing::Test {
  protected:
    void open() {
        book_ = *ReservationBook::open(locked(path_), [this](const StateLock& state, std::string_view text) {
            Status written = ReservationBook::write_file(state, text);
            ++writes_;
            return fails_after_ ? Status::from_errno(EIO, "sync its folder") : written;
        });
    }
    void close() { book_.reset(); }
    Status change(uint64_t wwid, const Reservations& next, bool lasts = true) {
        std::promise<Status> promise;
        book_->change(
            wwid, lasts, [&](const Reservations&) { return std::optional(next); },
            [&](const Status& status, const ReservationBook::Shared&) { promise.set_value(status); });
        return promise.get_future().get();
    }

    io::test::TemporaryFolder folder_;
    const std::string path_ = folder_.file("state.json");
    std::atomic<bool> fails_after_{false};  // reports an error after the file was replaced
    std::atomic<int> writes_{0};
    std::shared_ptr<ReservationBook> book_;
};

TEST_F(ReservationBooks, keep_persistent_reservations_through_a_restart) {
    open();
    ASSERT_TRUE(change(kWwid, example(true)));
    ASSERT_TRUE(change(2, example(false)));
    ASSERT_TRUE(change(3, example(true), false)) << "a volume in memory";
    EXPECT_EQ(book_->find(kWwid)->generation, 7u);
    close();
    open();
    const auto again = book_->find(kWwid);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->registrations, example(true).registrations);
    EXPECT_EQ(again->type, ReservationType::kWriteExclusiveRegistrants);
    EXPECT_TRUE(again->persists);
    EXPECT_EQ(again->generation, 0u);
    EXPECT_EQ(book_->find(2), nullptr);
    EXPECT_EQ(book_->find(3), nullptr);
    ASSERT_TRUE(change(kWwid, {}));
    close();
    open();
    EXPECT_EQ(book_->find(kWwid), nullptr);
}

TEST_F(ReservationBooks, forget_deleted_volumes_until_the_target_ends) {
    open();
    ASSERT_TRUE(change(1, example(true)));
    ASSERT_TRUE(change(2, example(true)));
    book_->forget(1);
    book_->keep_all();
    book_->forget(2);
    close();
    open();
    EXPECT_EQ(book_->find(1), nullptr);
    EXPECT_NE(book_->find(2), nullptr);
}

TEST_F(ReservationBooks, leave_reservations_unchanged_if_a_change_cannot_be_saved) {
    open();
    ASSERT_TRUE(change(1, example(true)));
    std::filesystem::remove(path_ + ".reservations");
    std::filesystem::create_directory(path_ + ".reservations");
    EXPECT_FALSE(change(1, {}));
    EXPECT_EQ(book_->find(1)->registrations.size(), 2u);
    std::filesystem::remove(path_ + ".reservations");
    EXPECT_TRUE(change(1, {}));
}

TEST_F(ReservationBooks, correct_a_file_that_contains_a_refused_change) {
    open();
    ASSERT_TRUE(change(1, example(true)));
    fails_after_ = true;
    EXPECT_FALSE(change(1, {}));
    const int before = writes_;
    fails_after_ = false;
    for (int i = 0; i < 1000 && writes_ == before; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const auto text = read_file(path_ + ".reservations", 1 << 20);
    ASSERT_TRUE(text.is_ok());
    EXPECT_TRUE(ReservationBook::parse(*text, path_)->contains(1));
}

TEST_F(ReservationBooks, correct_a_file_that_contains_a_refused_change_when_they_are_closed) {
    open();
    ASSERT_TRUE(change(1, example(true)));
    fails_after_ = true;
    EXPECT_FALSE(change(1, {}));
    fails_after_ = false;
    close();
    open();
    EXPECT_NE(book_->find(1), nullptr);
}

// An operator may go back to the version that wrote the file, or repair it.
TEST_F(ReservationBooks, leave_a_refused_file_unchanged) {
    const std::string text = R"({"format": "wss-target-reservations", "version": 2, "volumes": {}})";
    std::ofstream(path_ + ".reservations") << text;
    EXPECT_FALSE(ReservationBook::open(locked(path_)));
    EXPECT_EQ(*read_file(path_ + ".reservations", 1 << 20), text);
}

TEST_F(ReservationBooks, apply_changes_at_once_without_a_file) {
    book_ = std::make_shared<ReservationBook>();
    ASSERT_TRUE(change(1, example(true)));
    EXPECT_NE(book_->find(1), nullptr);
    book_->forget(1);
    EXPECT_EQ(book_->find(1), nullptr);
}

TEST_F(ReservationBooks, refuse_damaged_files) {
    const std::string good = ReservationBook::format({{kWwid, example(true)}});
    ASSERT_TRUE(ReservationBook::parse(good, "f").is_ok());
    auto broken = [&](const std::string& what, const std::string& with) {
        std::string text = good;
        const size_t at = text.find(what);
        EXPECT_NE(at, std::string::npos) << what;
        return !ReservationBook::parse(text.replace(at, what.size(), with), "f").is_ok();
    };
    EXPECT_FALSE(ReservationBook::parse("", "f").is_ok());
    EXPECT_FALSE(ReservationBook::parse("[]", "f").is_ok());
    EXPECT_TRUE(broken("wss-target-reservations", "others"));
    EXPECT_TRUE(broken("\"version\": 1", "\"version\": 2"));
    EXPECT_TRUE(broken("\"type\": 5", "\"type\": 2"));
    EXPECT_TRUE(broken("\"type\": 5", "\"type\": 261"));
    EXPECT_TRUE(broken("\"type\": 5", "\"type\": 7")) << "all should hold it, but one does";
    EXPECT_TRUE(broken("\"holder\": true", "\"holder\": false")) << "no initiator holds it";
    EXPECT_TRUE(broken("\"holder\": false", "\"holder\": true")) << "two initiators hold it";
    EXPECT_TRUE(broken("0000000000000022", "0000000000000000")) << "key 0";
    EXPECT_TRUE(broken("\"fe0000", "\"fe00")) << "too short a port id";
    EXPECT_TRUE(broken("123456789abcdef", "xyz"));
    // No initiator may be registered twice.
    EXPECT_TRUE(ReservationBook::parse(good, "f").is_ok());
    Reservations twice = example(true);
    twice.registrations[1].initiator = twice.registrations[0].initiator;
    EXPECT_FALSE(ReservationBook::parse(ReservationBook::format({{1, twice}}), "f").is_ok());
}

}  // namespace
}  // namespace wss::volume
