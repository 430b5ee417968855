// SPDX-License-Identifier: Apache-2.0
// A VolumeSet with a state file. A test may stop and restart it, and make writes of the file fail.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"

namespace wss::volume {

// Answers shrinks at once, or not at all.
class LettingGo final : public Observer {
  public:
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_shrinks(OpenVolume& volume, std::shared_ptr<Shrink> shrink) noexcept override {
        size_seen = volume.volume().size();
        if (lets_go) shrink->done();
    }
    bool lets_go = true;
    uint64_t size_seen = 0;
};

class VolumeState : public testing::Test {
  protected:
    void SetUp() override {
        std::filesystem::create_directory(folder_.file("state"));
        start();
        ASSERT_TRUE(create("a"));
    }
    void TearDown() override { stop(); }
    void start() {
        std::function<void(uint64_t, std::function<void()>)> deleted;
        if (has_cache_)
            deleted = [this](uint64_t wwid, std::function<void()> recorded) {
                deleted_.push_back(wwid);
                records_deletions_ ? recorded() : later_.set_value(std::move(recorded));
            };
        set_ = std::make_unique<VolumeSet>(
            std::vector<reactor::Reactor*>{&reactor_},
            VolumeSet::Options{
                .state = remembers_ ? locked(path()) : nullptr,
                .open = open_,
                .write = [this](const auto& to, const auto& volumes) { return write_(to, volumes); },
                .deleted = deleted,
                .forgotten = [this](uint64_t wwid) { forgotten_.push_back(wwid); },
                .wait = wait_});
        set_->table(0).add_observer(holder_);
        thread_ = std::thread([this] { reactor_.run(); });
        ASSERT_TRUE(set_->restore());
    }
    void stop() {
        EXPECT_TRUE(set_->close_all());
        reactor_.stop();
        thread_.join();
        set_->table(0).remove_observer(holder_);
        set_.reset();
    }
    Status create(const std::string& name) {
        return set_->create(
            {.name = name, .backend = "aio:" + folder_.file(name), .size = 1 << 20, .create = true});
    }
    // Repeats the resize while a start continues an earlier one.
    Status resize_when_over(const std::string& name, uint64_t bytes) {
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        for (;;) {
            Status resized = set_->resize(name, bytes);
            if (resized.code() != Code::kBusy || clock_.now() > deadline) return resized;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    void on_reactor(std::function<void()> task) {
        std::promise<void> done;
        reactor_.post([&] {
            task();
            done.set_value();
        });
        done.get_future().wait();
    }
    std::string path() { return folder_.file("state") + "/state.json"; }
    void fill_state_disk() { std::filesystem::rename(folder_.file("state"), folder_.file("elsewhere")); }
    void empty_state_disk() { std::filesystem::rename(folder_.file("elsewhere"), folder_.file("state")); }
    uint64_t file_size() { return std::filesystem::file_size(folder_.file("a")); }
    std::string text() {
        std::stringstream all;
        all << std::ifstream(path()).rdbuf();
        return all.str();
    }

    io::test::TemporaryFolder folder_;
    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    LettingGo holder_;
    VolumeSet::Open open_ = io::open_backend;
    VolumeSet::Write write_ = write_state_file;
    std::vector<uint64_t> deleted_, forgotten_;
    bool has_cache_ = true;          // an observer that is notified of deletions
    bool records_deletions_ = true;  // false: the test completes one of them through `later_`
    std::promise<std::function<void()>> later_;
    Nanoseconds wait_ = from_s(5);
    bool remembers_ = true;
    std::unique_ptr<VolumeSet> set_;
    std::thread thread_;
};

}  // namespace wss::volume
