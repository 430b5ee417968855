// SPDX-License-Identifier: Apache-2.0
// The state file is written before anything is destroyed. If the state disk is full, a change is refused and
// nothing changes. A start completes changes that it finds incomplete.
#include "tests/unit/volume/volume_state.h"

#include <unistd.h>

#include "tests/unit/volume/slow_storage.h"

namespace wss::volume {
namespace {

TEST_F(VolumeState, on_a_full_disk_refuses_each_change_and_leaves_everything_unchanged) {
    fill_state_disk();
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    EXPECT_EQ(file_size(), uint64_t{1 << 20});
    EXPECT_FALSE(set_->resize("a", 2 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    EXPECT_EQ(file_size(), uint64_t{1 << 20});
    EXPECT_FALSE(set_->set_read_only("a", true));
    EXPECT_FALSE(set_->find("a")->read_only);
    EXPECT_FALSE(set_->set_access("a", {"*=ro"}));
    EXPECT_TRUE(set_->find("a")->access.empty());
    EXPECT_FALSE(create("b"));
    EXPECT_FALSE(set_->remove("a"));
    EXPECT_EQ(set_->count(), 1u);
    empty_state_disk();
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    stop();
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
    EXPECT_TRUE(set_->remove("a"));
}

TEST_F(VolumeState, records_no_shrink_once_observers_have_released_it_and_the_file_is_truncated) {
    ASSERT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_EQ(holder_.size_seen, uint64_t{1 << 19});
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
    EXPECT_EQ(text().find("shrinking"), std::string::npos) << text();
}

TEST_F(VolumeState, keeps_a_shrink_that_an_observer_dropped_until_it_is_repeated) {
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    EXPECT_EQ(file_size(), uint64_t{1 << 20});
    EXPECT_FALSE(set_->resize("a", 1 << 20)) << "data beyond the end must not return";
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
    holder_.lets_go = true;
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
    EXPECT_TRUE(set_->resize("a", 1 << 20));
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 20});
    EXPECT_EQ(file_size(), uint64_t{1 << 20});
}

TEST_F(VolumeState, keeps_data_beyond_the_end_of_an_interrupted_shrink_from_returning) {
    std::ofstream(folder_.file("a"), std::ios::in | std::ios::out).seekp((1 << 19) + 4096).put('x');
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    stop();
    holder_.lets_go = true;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
    EXPECT_NE(set_->table(0).find(0)->volume().drops_from(), 0u);
    EXPECT_FALSE(set_->resize("a", 1 << 20));
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_TRUE(set_->resize("a", 1 << 20));
    std::ifstream file(folder_.file("a"));
    file.seekg((1 << 19) + 4096);
    EXPECT_EQ(file.get(), 0);
    EXPECT_EQ(text().find("shrinking"), std::string::npos) << text();
}

TEST_F(VolumeState, records_a_deletion_before_data_is_removed_so_that_a_start_in_between_reports_it) {
    const uint64_t wwid = set_->find("a")->identity.wwid;
    ASSERT_TRUE(create("b"));
    std::atomic<bool> held{false};
    OpenVolume* open = set_->table(0).find(0);
    reactor_.post([&] {
        open->hold();
        held = true;
    });
    while (!held) std::this_thread::yield();
    std::thread deletes([&] { EXPECT_TRUE(set_->remove("a")); });
    while (text().find("deleted") == std::string::npos) std::this_thread::yield();
    std::filesystem::copy_file(path(), folder_.file("meanwhile"));
    reactor_.post([&] { open->release(); });
    deletes.join();
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
    stop();
    std::filesystem::copy_file(folder_.file("meanwhile"), path(),
                               std::filesystem::copy_options::overwrite_existing);
    start();
    EXPECT_EQ(deleted_, std::vector<uint64_t>{wwid});
    EXPECT_EQ(forgotten_, std::vector<uint64_t>{wwid});
    EXPECT_EQ(set_->count(), 1u);
    EXPECT_TRUE(create("a")) << "the name is free";
}

TEST_F(VolumeState, forgets_an_unopened_volume_when_it_is_deleted_and_does_not_reuse_its_lun) {
    const Identity before = set_->find("a")->identity;
    stop();
    std::filesystem::remove(folder_.file("a"));
    start();
    ASSERT_TRUE(set_->find("a")->closed);
    EXPECT_TRUE(set_->remove("a"));
    EXPECT_EQ(forgotten_, std::vector<uint64_t>{before.wwid});
    ASSERT_TRUE(create("b"));
    EXPECT_NE(set_->find("b")->identity.lun, before.lun);
}

// Holds a volume until release().
class HeldVolume {
  public:
    HeldVolume(reactor::Reactor& reactor, OpenVolume& open) : reactor_(reactor), open_(open) {
        std::promise<void> held;
        reactor_.post([&] {
            open_.hold();
            held.set_value();
        });
        held.get_future().wait();
    }
    void release() {
        reactor_.post([&open = open_] { open.release(); });
    }

  private:
    reactor::Reactor& reactor_;
    OpenVolume& open_;
};

bool soon(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!done()) {
        if (std::chrono::steady_clock::now() > limit) return false;
        std::this_thread::yield();
    }
    return true;
}

TEST_F(VolumeState, keeps_the_record_of_a_deletion_when_a_second_one_is_refused) {
    ASSERT_TRUE(create("b"));
    HeldVolume held(reactor_, *set_->table(0).find(0));
    std::thread deletes([&] { EXPECT_TRUE(set_->remove("a")); });
    EXPECT_TRUE(soon([&] { return text().find("deleted") != std::string::npos; }));
    EXPECT_EQ(set_->remove("a").code(), Code::kBusy);
    EXPECT_TRUE(set_->set_read_only("b", true)) << "the file is written";
    EXPECT_NE(text().find("deleted"), std::string::npos) << text();
    held.release();
    deletes.join();
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
}

TEST_F(VolumeState, has_no_record_of_a_completed_deletion_that_outlasted_its_caller) {
    stop();
    wait_ = from_s(1);
    start();
    ASSERT_TRUE(create("b"));
    HeldVolume held(reactor_, *set_->table(0).find(0));
    EXPECT_EQ(set_->remove("a").code(), Code::kTimedOut);
    EXPECT_NE(text().find("deleted"), std::string::npos) << text();
    held.release();
    ASSERT_TRUE(soon([&] { return set_->count() == 1; }));
    EXPECT_TRUE(set_->set_read_only("b", true)) << "the file is written";
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
}

TEST_F(VolumeState, has_no_record_after_a_stop_of_a_deletion_that_outlasted_its_caller) {
    stop();
    wait_ = from_s(1);
    start();
    HeldVolume held(reactor_, *set_->table(0).find(0));
    EXPECT_EQ(set_->remove("a").code(), Code::kTimedOut);
    held.release();
    ASSERT_TRUE(soon([&] { return set_->count() == 0; }));
    stop();
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
    start();
    EXPECT_TRUE(deleted_.empty());
}

TEST_F(VolumeState, without_a_file_lets_a_recreated_volume_be_deleted_whose_deletion_outlasted_its_caller) {
    stop();
    remembers_ = false;
    wait_ = from_s(1);
    start();
    ASSERT_TRUE(create("x"));
    HeldVolume held(reactor_, *set_->table(0).find(0));
    EXPECT_EQ(set_->remove("x").code(), Code::kTimedOut);
    held.release();
    ASSERT_TRUE(soon([&] { return set_->count() == 0; }));
    ASSERT_TRUE(create("x"));
    EXPECT_TRUE(set_->remove("x"));
}

TEST_F(VolumeState, keeps_a_deletion_during_a_run_without_a_cache_for_a_run_with_one) {
    const uint64_t wwid = set_->find("a")->identity.wwid;
    stop();
    std::filesystem::rename(folder_.file("a"), folder_.file("hidden"));
    records_deletions_ = false;
    wait_ = from_s(1);
    start();
    EXPECT_EQ(set_->remove("a").code(), Code::kTimedOut);
    ASSERT_EQ(deleted_, std::vector<uint64_t>{wwid});
    stop();
    has_cache_ = false;
    start();
    ASSERT_TRUE(create("b")) << "the file is written";
    EXPECT_NE(text().find("deleted"), std::string::npos) << text();
    stop();
    has_cache_ = records_deletions_ = true;
    deleted_.clear();
    start();
    EXPECT_EQ(deleted_, std::vector<uint64_t>{wwid});
    ASSERT_TRUE(create("c")) << "the file is written";
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
}

TEST_F(VolumeState, keeps_the_deletion_of_an_unopened_volume_until_observers_have_recorded_it) {
    stop();
    std::filesystem::rename(folder_.file("a"), folder_.file("hidden"));
    start();
    ASSERT_EQ(set_->count(), 0u);
    records_deletions_ = false;
    std::thread deletes([&] { EXPECT_TRUE(set_->remove("a")); });
    EXPECT_TRUE(soon([&] { return text().find("deleted") != std::string::npos; }));
    ASSERT_TRUE(create("b"));
    EXPECT_NE(text().find("deleted"), std::string::npos) << text();
    later_.get_future().get()();
    deletes.join();
    EXPECT_EQ(text().find("deleted"), std::string::npos) << text();
}

// ---- Concurrent changes ----------------------------------------------------------------------------------

// A thread that makes a call which may block, and a check of whether it blocks.
class Caller {
  public:
    explicit Caller(std::function<void()> call)
        : thread_([this, call = std::move(call)] {
              id_ = gettid();
              call();
              is_over_ = true;
          }) {}
    ~Caller() { thread_.join(); }
    bool is_over() const { return is_over_; }
    // Returns when the call blocks or has ended.
    void until_it_waits() const {
        while (!is_over_ && !sleeps()) std::this_thread::yield();
    }

  private:
    bool sleeps() const {
        if (id_ == 0) return false;
        std::ifstream file(fmt::format("/proc/self/task/{}/stat", id_.load()));
        std::string all((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        const size_t name_ends = all.rfind(')');
        return name_ends != std::string::npos && all.substr(name_ends + 2, 1) == "S";
    }
    std::atomic<pid_t> id_{0};
    std::atomic<bool> is_over_{false};
    std::thread thread_;  // last, as it uses the other members
};

TEST_F(VolumeState, has_both_of_two_limits_that_are_set_at_the_same_time) {
    std::promise<void> begun, go_on;
    bool first = true;
    write_ = [&](const auto& to, const auto& volumes) {
        if (std::exchange(first, false)) {
            begun.set_value();
            go_on.get_future().wait();
        }
        return write_state_file(to, volumes);
    };
    {
        Caller iops([&] { EXPECT_TRUE(set_->set_limits("a", {.iops = 7})); });
        begun.get_future().wait();
        Caller bandwidth([&] { EXPECT_TRUE(set_->set_limits("a", {.bandwidth = 1 << 20})); });
        bandwidth.until_it_waits();
        go_on.set_value();
    }
    EXPECT_EQ(set_->find("a")->limits, (RateLimits{.iops = 7, .bandwidth = 1 << 20}));
}

// Keeps the fences that it receives.
class Storage final : public Observer {
  public:
    void volume_changed(Change, OpenVolume&) noexcept override {}
    void volume_fences(OpenVolume&, std::shared_ptr<WriteFence> fence) noexcept override {
        writes.emplace_back(std::move(fence));
        came.set_value();
    }
    FencedWrites writes;
    std::promise<void> came;
};

TEST_F(VolumeState, can_change_for_one_volume_while_a_fence_of_another_waits) {
    ASSERT_TRUE(create("b"));
    Storage storage;
    on_reactor([&] { set_->table(0).add_observer(storage); });
    {
        Caller fence([&] { EXPECT_TRUE(set_->set_read_only("a", true)); });
        storage.came.get_future().wait();
        EXPECT_TRUE(set_->set_limits("b", {.iops = 7}));
        EXPECT_FALSE(fence.is_over()) << "its write is in flight";
        on_reactor([&] { storage.writes.clear(); });
    }
    on_reactor([&] { set_->table(0).remove_observer(storage); });
}

TEST_F(VolumeState, keeps_other_changes_that_are_made_while_a_change_is_refused) {
    std::atomic<bool> writes{false};
    write_ = [&](const auto& to, const auto& volumes) {
        if (writes.exchange(true)) return write_state_file(to, volumes);
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        return Status::from_errno(ENOSPC, "write it");
    };
    std::thread refused([&] { EXPECT_FALSE(set_->set_read_only("a", true)); });
    while (!writes) std::this_thread::yield();
    EXPECT_TRUE(set_->set_access("a", {"*=ro"}));
    refused.join();
    stop();
    write_ = write_state_file;
    start();
    EXPECT_FALSE(set_->find("a")->read_only);
    EXPECT_EQ(set_->find("a")->access, std::vector<std::string>{"*=ro"});
}

TEST_F(VolumeState, keeps_all_changes_by_many_clients_through_a_restart) {
    stop();
    wait_ = from_s(120);  // slow machines need it
    start();
    auto expect_done = [](const char* what, const Status& status) {
        EXPECT_TRUE(status) << what << ": " << status.to_string();
    };
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i)
        clients.emplace_back([this, expect_done, i] {
            const std::string name = "of" + std::to_string(i);
            expect_done("create", create(name));
            for (int round = 0; round < 10; ++round) {
                expect_done("set_read_only", set_->set_read_only(name, round % 2 == 0));
                expect_done("resize", set_->resize(name, (round + 1) * 4096));
                expect_done("set_access", set_->set_access("a", {"*=ro"}));
            }
        });
    for (std::thread& client : clients) client.join();
    stop();
    start();
    for (int i = 0; i < 4; ++i) {
        EXPECT_FALSE(set_->find("of" + std::to_string(i))->read_only);
        EXPECT_EQ(set_->find("of" + std::to_string(i))->size, 40960u);
    }
    EXPECT_EQ(set_->find("a")->access, std::vector<std::string>{"*=ro"});
}

// ---- A start after an incomplete shrink ------------------------------------------------------------------

// The file may have been truncated by hand in the meantime, and have the old size again with data that others
// have written since.
TEST_F(VolumeState, lets_a_repeated_shrink_truncate_the_file_but_no_start) {
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    stop();
    holder_.lets_go = true;
    for (int starts = 0; starts < 2; ++starts) {
        start();
        EXPECT_EQ(file_size(), uint64_t{1 << 20});
        EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
        if (starts == 0) stop();
    }
    const Status grown = set_->resize("a", 1 << 20);
    EXPECT_EQ(grown.code(), Code::kRefused);
    EXPECT_NE(grown.text().find("wssctl volume resize a 524288"), std::string::npos) << grown.text();
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
    EXPECT_TRUE(set_->resize("a", 1 << 20));
}

TEST_F(VolumeState, forgets_a_shrink_whose_file_has_another_size_at_a_start) {
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    stop();
    holder_.lets_go = true;
    std::filesystem::resize_file(folder_.file("a"), 1 << 21);
    start();
    EXPECT_EQ(text().find("cut_"), std::string::npos) << text();
    EXPECT_TRUE(resize_when_over("a", 1 << 18));
    EXPECT_EQ(file_size(), uint64_t{1 << 21}) << "the volume covers only a part of it";
}

// A file that cannot be truncated, for example on a read-only file system, or that has another owner.
class Uncut final : public io::Backend {
  public:
    explicit Uncut(std::unique_ptr<io::Backend> file) : file_(std::move(file)) {}
    io::Limits limits() const noexcept override { return file_->limits(); }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return file_->open_queue(reactor);
    }
    Status resize(uint64_t bytes) override {
        return fails ? Status::from_errno(EROFS, "cut") : file_->resize(bytes);
    }
    std::string describe() const override { return file_->describe(); }
    std::string ownership() const override { return owner; }
    static inline bool fails = false;
    static inline std::string owner;

  private:
    const std::unique_ptr<io::Backend> file_;
};

TEST_F(VolumeState, allows_no_growth_before_a_shrink_that_could_not_truncate_its_file_has_completed) {
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    stop();
    open_ = [](const std::string& specification,
               const io::OpenOptions& options) -> Result<std::unique_ptr<io::Backend>> {
        auto file = io::open_backend(specification, options);
        if (!file) return file.status();
        return std::unique_ptr<io::Backend>(std::make_unique<Uncut>(std::move(*file)));
    };
    holder_.lets_go = Uncut::fails = true;
    start();
    ASSERT_TRUE(set_->find("a")) << "the volume is served";
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
    EXPECT_FALSE(set_->resize("a", 1 << 20)) << "data beyond the end must not return";
    Uncut::fails = false;
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
    EXPECT_EQ(text().find("cut_from"), std::string::npos) << text();
}

TEST_F(VolumeState, lets_no_repeated_shrink_truncate_storage_that_another_owner_has_had_since) {
    open_ = [](const std::string& specification,
               const io::OpenOptions& options) -> Result<std::unique_ptr<io::Backend>> {
        auto file = io::open_backend(specification, options);
        if (!file) return file.status();
        return std::unique_ptr<io::Backend>(std::make_unique<Uncut>(std::move(*file)));
    };
    for (const bool others : {true, false}) {
        Uncut::owner = "1";
        stop();
        start();
        holder_.lets_go = false;
        EXPECT_FALSE(set_->resize("a", 1 << 19));
        stop();
        holder_.lets_go = true;
        if (others) Uncut::owner = "2";
        start();
        EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
        EXPECT_EQ(text().find("cut_") == std::string::npos, others) << text();
        EXPECT_TRUE(resize_when_over("a", 1 << 19));
        EXPECT_EQ(file_size(), others ? uint64_t{1 << 20} : uint64_t{1 << 19});
        EXPECT_TRUE(set_->resize("a", 1 << 20));
    }
}

TEST_F(VolumeState, lets_a_repeated_shrink_that_failed_again_be_repeated_after_a_start) {
    stop();
    Slow slow;
    slow.silent = true;
    open_ = [&slow](const std::string& specification,
                    const io::OpenOptions& options) -> Result<std::unique_ptr<io::Backend>> {
        auto file = io::open_backend(specification, options);
        if (!file) return file.status();
        return std::unique_ptr<io::Backend>(std::make_unique<SlowBackend>(slow, std::move(*file)));
    };
    start();
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    holder_.lets_go = false;
    EXPECT_FALSE(set_->resize("a", 1 << 19));
    stop();
    holder_.lets_go = true;
    open_ = io::open_backend;
    start();
    EXPECT_EQ(set_->find("a")->size, uint64_t{1 << 19});
    EXPECT_TRUE(set_->resize("a", 1 << 19));
    EXPECT_EQ(file_size(), uint64_t{1 << 19});
}

}  // namespace
}  // namespace wss::volume
