// SPDX-License-Identifier: Apache-2.0
// Volumes are created, changed and deleted during I/O. Most tests step the reactors, as the simulation does.
#include "target/volume/volume_set.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "tests/unit/io/harness.h"
#include "tests/unit/volume/locked.h"
#include "tests/unit/volume/stepped.h"

namespace wss::volume {
namespace {

using io::test::Buffer;
using io::test::kPatience;
using io::test::TemporaryFolder;
using io::test::TestRequest;

TEST_F(InAVolumeSet, a_created_volume_is_found_by_its_lun_on_every_reactor) {
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(create("b"));
    for (size_t i = 0; i < 2; ++i) {
        OpenVolume* found = set_->table(i).find(1);
        ASSERT_NE(found, nullptr);
        EXPECT_EQ(found->volume().name(), "b");
        EXPECT_EQ(found->volume().blocks(), (1u << 20) / 512);
        EXPECT_EQ(set_->table(i).find(2), nullptr);
        EXPECT_EQ(set_->table(i).find(UINT64_MAX), nullptr);
    }
    EXPECT_NE(set_->table(0).find(0)->volume().wwid(), set_->table(0).find(1)->volume().wwid());
    EXPECT_EQ(set_->table(0).find(0)->volume().wwid() & ~kWwidMask, 0u);
}

TEST_F(InAVolumeSet, a_lun_is_not_reused_while_commands_for_its_former_volume_may_arrive) {
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(create("b"));
    const uint32_t former = set_->find("a")->identity.lun;
    ASSERT_TRUE(remove("a"));
    ASSERT_TRUE(create("a"));
    EXPECT_NE(set_->find("a")->identity.lun, former);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(set_->table(i).find(former), nullptr);
}

// Cached volumes depend on this: the cache's reactor is the first.
TEST_F(InAVolumeSet, the_first_reactor_adds_a_volume_before_the_others_and_removes_it_after_them) {
    Hears first, second;
    set_->table(0).add_observer(first);
    set_->table(1).add_observer(second);
    const auto only_second = [&] { second_.step(); };
    std::optional<Status> created;
    set_->create_async({.name = "a", .backend = "ram:1M"}, [&](Status status) { created = status; });
    for (int i = 0; i < 3; ++i) only_second();
    EXPECT_TRUE(second.heard.empty());
    while (!created) {
        step();
        EXPECT_LE(second.heard.size(), first.heard.size());
    }
    EXPECT_EQ(second.heard, std::vector<std::string>{"added a"});

    std::optional<Status> removed;
    set_->remove_async("a", [&](Status status) { removed = status; });
    for (int i = 0; i < 3; ++i) first_.step();
    EXPECT_EQ(first.heard, std::vector<std::string>{"added a"});
    for (int i = 0; i < 3; ++i) only_second();
    EXPECT_EQ(second.heard.size(), 2u);
    EXPECT_EQ(first.heard.size(), 1u);
    while (!removed) step();
    EXPECT_EQ(first.heard.size(), 2u);
    set_->table(0).remove_observer(first);
    set_->table(1).remove_observer(second);
}

// The check compares specifications. Each RAM disk is separate storage, but here it stands for shared
// storage.
TEST_F(InAVolumeSet, storage_of_one_volume_is_refused_to_another_until_the_first_is_removed) {
    reopen({.of_one_volume = [](const std::string& specification) { return specification == "ram:1M"; }});
    ASSERT_TRUE(create("a", "ram:1M"));
    const Status second = create("b", "ram:1M");
    EXPECT_EQ(second.code(), Code::kRefused);
    EXPECT_NE(second.to_string().find("volume a"), std::string::npos) << second.to_string();
    EXPECT_TRUE(create("c", "ram:2M"));
    EXPECT_TRUE(create("d", "ram:2M"));
    ASSERT_TRUE(remove("a"));
    EXPECT_TRUE(create("b", "ram:1M"));
}

TEST_F(InAVolumeSet, luns_of_former_volumes_are_reused_when_no_others_are_free) {
    std::vector<bool> given(kLunMax + 1);
    for (uint32_t i = 0; i <= kLunMax + 1; ++i) {
        ASSERT_TRUE(create("a"));
        const uint32_t lun = set_->find("a")->identity.lun;
        EXPECT_EQ(given[lun], i > kLunMax) << lun;
        given[lun] = true;
        ASSERT_TRUE(remove("a"));
    }
}

TEST_F(InAVolumeSet, io_through_one_reactor_is_seen_through_the_other) {
    ASSERT_TRUE(create("a"));
    Buffer out(4096), in(4096);
    out.fill(1);
    TestRequest write(io::Op::kWrite, 4096, 4096, out.data()), read(io::Op::kRead, 4096, 4096, in.data());
    set_->table(0).find(0)->queue().submit(write);
    while (!write.finished) step();
    set_->table(1).find(0)->queue().submit(read);
    while (!read.finished) step();
    EXPECT_TRUE(std::equal(out.data(), out.data() + 4096, in.data()));
}

TEST_F(InAVolumeSet, invalid_requests_are_refused_with_a_reason_and_leave_nothing_behind) {
    EXPECT_EQ(create("").code(), Code::kInvalid);
    EXPECT_EQ(create("a b").code(), Code::kInvalid);
    EXPECT_EQ(create("../x").code(), Code::kInvalid);
    EXPECT_EQ(create(std::string(64, 'x')).code(), Code::kInvalid);
    EXPECT_EQ(create("a", "ram:1M", {.block_size = 1024}).code(), Code::kInvalid);
    EXPECT_EQ(create("a", "ram:1M", {.size = 1000}).code(), Code::kInvalid);
    EXPECT_EQ(create("a", "floppy:1").code(), Code::kInvalid);
    EXPECT_EQ(create("a", "aio:/nonexistent/file").code(), Code::kNotFound);
    EXPECT_EQ(set_->count(), 0u);
    ASSERT_TRUE(create("a"));
    EXPECT_EQ(create("a").code(), Code::kExists);
    EXPECT_EQ(remove("b").code(), Code::kNotFound);
    EXPECT_EQ(resize("a", 0).code(), Code::kInvalid);
    EXPECT_EQ(resize("a", 100).code(), Code::kInvalid);
}

TEST_F(InAVolumeSet, removal_waits_for_holders_of_the_volume_and_hides_it_at_once) {
    ASSERT_TRUE(create("a"));
    OpenVolume* held = set_->table(0).find(0);
    held->hold();
    std::optional<Status> removed;
    set_->remove_async("a", [&](Status status) { removed = std::move(status); });
    for (int i = 0; i < 10; ++i) step();
    EXPECT_FALSE(removed);
    EXPECT_EQ(set_->table(0).find(0), nullptr);
    EXPECT_TRUE(held->closing());
    ASSERT_EQ(set_->list().size(), 1u);
    EXPECT_TRUE(set_->list()[0].removing);
    EXPECT_EQ(remove("a").code(), Code::kBusy);
    EXPECT_EQ(create("a").code(), Code::kBusy) << "the name is free only when the volume is gone";
    held->release();
    for (int i = 0; i < 10 && !removed; ++i) step();
    ASSERT_TRUE(removed);
    EXPECT_TRUE(*removed);
    EXPECT_TRUE(create("a"));
}

TEST_F(InAVolumeSet, removal_waits_for_io_in_flight) {
    ASSERT_TRUE(create("slow", "delay:us=20000:ram:1M"));
    Buffer buffer(512);
    TestRequest read(io::Op::kRead, 0, 512, buffer.data());
    set_->table(1).find(0)->queue().submit(read);
    EXPECT_TRUE(remove("slow"));
    EXPECT_TRUE(read.finished);
    EXPECT_EQ(read.error, 0);
}

TEST_F(InAVolumeSet, observers_are_notified_of_every_change_on_their_reactor) {
    Hears hears;
    set_->table(1).add_observer(hears);
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(resize("a", 2 << 20));
    ASSERT_TRUE(set_read_only("a", true));
    ASSERT_TRUE(remove("a"));
    EXPECT_EQ(hears.heard,
              (std::vector<std::string>{"added a", "resized a", "read-only changed a", "removed a"}));
    set_->table(1).remove_observer(hears);
    ASSERT_TRUE(create("b"));
    EXPECT_EQ(hears.heard.size(), 4u);
}

TEST_F(InAVolumeSet, resize_changes_the_size_in_the_data_path_and_does_not_truncate_a_larger_file) {
    TemporaryFolder folder;
    std::string path = folder.file("disk");
    ASSERT_TRUE(create("f", "aio:" + path, {.size = 4 << 20, .create = true}));
    const Volume& volume = set_->table(0).find(0)->volume();
    uint32_t generation = volume.generation();
    ASSERT_TRUE(resize("f", 8 << 20));
    EXPECT_EQ(volume.size(), uint64_t{8 << 20});
    EXPECT_EQ(std::filesystem::file_size(path), uint64_t{8 << 20});
    EXPECT_GT(volume.generation(), generation);
    ASSERT_TRUE(remove("f"));
    // A volume over the first part of a file leaves the rest of the file unchanged.
    ASSERT_TRUE(create("part", "aio:" + path, {.size = 1 << 20}));
    ASSERT_TRUE(resize("part", 512 << 10));
    ASSERT_TRUE(resize("part", 2 << 20));
    EXPECT_EQ(std::filesystem::file_size(path), uint64_t{8 << 20});
}

TEST_F(InAVolumeSet, a_volume_opened_read_only_cannot_be_made_writable) {
    ASSERT_TRUE(create("ro", "ram:1M", {.read_only = true}));
    EXPECT_EQ(set_read_only("ro", false).code(), Code::kPermission);
    ASSERT_TRUE(create("rw"));
    ASSERT_TRUE(set_read_only("rw", true));
    EXPECT_TRUE(set_->find("rw")->read_only);
    ASSERT_TRUE(set_read_only("rw", false));
}

TEST_F(InAVolumeSet, counters_of_all_reactors_add_up) {
    ASSERT_TRUE(create("a"));
    Counters::add(set_->table(0).find(0)->counters().reads, 3);
    Counters::add(set_->table(1).find(0)->counters().reads, 4);
    Counters::add(set_->table(1).find(0)->counters().read_bytes, 512);
    EXPECT_EQ(set_->find("a")->totals.reads, 7u);
    EXPECT_EQ(set_->find("a")->totals.read_bytes, 512u);
}

TEST_F(InAVolumeSet, without_a_state_file_the_same_volume_on_the_same_host_has_the_same_wwid) {
    TemporaryFolder folder;
    const std::string file = "aio:" + folder.file("disk");
    const VolumeOptions more{.size = 1 << 20, .create = true};
    reopen({.identity_salt = "host1"});
    ASSERT_TRUE(create("a", file, more));
    uint64_t before = set_->find("a")->identity.wwid;
    ASSERT_TRUE(remove("a"));
    reopen({.identity_salt = "host1"});
    ASSERT_TRUE(create("a", file, more));
    EXPECT_EQ(set_->find("a")->identity.wwid, before);
    ASSERT_TRUE(remove("a"));
    reopen({.identity_salt = "host2"});
    ASSERT_TRUE(create("a", file, more));
    EXPECT_NE(set_->find("a")->identity.wwid, before);
}

// Its contents are lost. No user of the old volume may mistake the zeroes for its data.
TEST_F(InAVolumeSet, recreated_memory_is_a_new_volume) {
    reopen({.identity_salt = "host1"});
    ASSERT_TRUE(create("a", "ram:1M"));
    Identity before = set_->find("a")->identity;
    ASSERT_TRUE(remove("a"));
    ASSERT_TRUE(create("a", "delay:us=1:ram:1M"));
    EXPECT_NE(set_->find("a")->identity.wwid, before.wwid);
}

struct LoggingExtension final : Extension {
    explicit LoggingExtension(std::vector<std::string>& where) : log(where) {}
    ~LoggingExtension() override { log.push_back("gone"); }
    Status memory_grows(std::span<std::byte> memory) override {
        log.push_back("grows to " + std::to_string(memory.size() >> 20) + " MiB");
        return memory.size() > (16 << 20) ? Status(Code::kExhausted, "no region so large") : Status::ok();
    }
    std::vector<std::string>& log;
};

TEST_F(InAVolumeSet, extensions_see_memory_grow_first_may_refuse_it_and_end_before_the_backend) {
    std::vector<std::string> log;
    reopen({.extend = [&](const Volume& volume) -> Result<std::unique_ptr<Extension>> {
        log.push_back("made for " + volume.name());
        return std::unique_ptr<Extension>(std::make_unique<LoggingExtension>(log));
    }});
    ASSERT_TRUE(create("a"));
    ASSERT_TRUE(resize("a", 2 << 20));
    EXPECT_EQ(resize("a", 32 << 20).code(), Code::kExhausted);
    EXPECT_EQ(set_->find("a")->size, uint64_t{2 << 20}) << "a refused resize changes nothing";
    ASSERT_TRUE(remove("a"));
    set_.reset();
    EXPECT_EQ(log, (std::vector<std::string>{"made for a", "grows to 2 MiB", "grows to 32 MiB", "gone"}));
}

// The next start would repeat it.
TEST_F(InAVolumeSet, a_growth_that_an_extension_refuses_does_not_stay_recorded) {
    const io::test::TemporaryFolder folder;
    std::vector<std::string> log;
    uint64_t growing = 0;
    reopen({.state = locked(folder.file("state.json")),
            .extend = [&](const Volume&) -> Result<std::unique_ptr<Extension>> {
                return std::unique_ptr<Extension>(std::make_unique<LoggingExtension>(log));
            },
            .write =
                [&](const StateLock&, const auto& volumes) {
                    if (!volumes.empty()) growing = volumes.front().sizes.growing();
                    return Status::ok();
                }});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("a"));
    EXPECT_EQ(resize("a", 32 << 20).code(), Code::kExhausted);
    EXPECT_EQ(growing, 0u);
    ASSERT_TRUE(remove("a"));
    set_.reset();
}

// --- blocking calls, reactors on their own threads

class WithReactorThreads : public testing::Test {
  protected:
    void start(VolumeSet::Options options) {
        options_ = options;
        set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>{&first_, &second_},
                                           std::move(options));
        threads_.emplace_back([this] { first_.run(); });
        threads_.emplace_back([this] { second_.run(); });
    }
    void stop() {
        EXPECT_TRUE(set_->close_all());
        first_.stop();
        second_.stop();
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
        set_.reset();
    }
    void restart() {
        stop();
        start(options_);
    }
    void TearDown() override {
        if (set_) stop();
    }
    Status create(const std::string& name, const std::string& backend, VolumeOptions more = {}) {
        more.name = name;
        more.backend = backend;
        return set_->create(more);
    }
    // Runs `what` on the first reactor and waits for it.
    void on_reactor(const std::function<void()>& what) {
        std::atomic<bool> done{false};
        first_.post([&] {
            what();
            done = true;
            done.notify_one();
        });
        done.wait(false);
    }

    VolumeSet::Options options_;
    SystemClock clock_;
    reactor::Reactor first_{clock_}, second_{clock_};
    std::unique_ptr<VolumeSet> set_;
    std::vector<std::thread> threads_;
};

TEST_F(WithReactorThreads, run_time_volumes_and_all_identities_survive_a_restart) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("declared", "ram:1M", {.declared = true}));
    ASSERT_TRUE(create("doomed", "ram:1M"));
    ASSERT_TRUE(
        create("kept", "aio:" + folder.file("disk"), {.size = 1 << 20, .block_size = 4096, .create = true}));
    ASSERT_TRUE(set_->resize("kept", 2 << 20));
    ASSERT_TRUE(set_->remove("doomed"));
    VolumeInfo kept = *set_->find("kept"), declared = *set_->find("declared");
    restart();
    ASSERT_TRUE(set_->restore());
    ASSERT_EQ(set_->list().size(), 1u) << "a declared volume is created from its configuration";
    EXPECT_EQ(set_->find("kept")->identity, kept.identity);
    EXPECT_EQ(set_->find("kept")->size, uint64_t{2 << 20});
    EXPECT_EQ(set_->find("kept")->block_size, 4096u);
    // Each volume gets its own identity, although the volumes are created in another order than before.
    ASSERT_TRUE(create("other", "ram:1M"));
    ASSERT_TRUE(create("declared", "ram:1M", {.declared = true}));
    EXPECT_EQ(set_->find("declared")->identity.lun, declared.identity.lun);
    EXPECT_NE(set_->find("declared")->identity.wwid, declared.identity.wwid) << "memory is new memory";
    EXPECT_NE(set_->find("other")->identity.lun, declared.identity.lun);
}

TEST_F(WithReactorThreads, a_declared_volume_keeps_the_size_it_was_given_at_run_time) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("d", "ram:1M", {.declared = true}));
    ASSERT_TRUE(set_->resize("d", 3 << 20));
    restart();
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("d", "ram:1M", {.declared = true}));
    EXPECT_EQ(set_->find("d")->size, uint64_t{3 << 20});
}

TEST_F(WithReactorThreads, write_protection_survives_a_restart_and_can_be_removed) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("p", "aio:" + folder.file("disk"), {.size = 1 << 20, .create = true}));
    ASSERT_TRUE(set_->set_read_only("p", true));
    restart();
    ASSERT_TRUE(set_->restore());
    EXPECT_TRUE(set_->find("p")->read_only);
    Status writable = set_->set_read_only("p", false);
    EXPECT_TRUE(writable) << writable.to_string();
}

TEST_F(WithReactorThreads, a_volume_that_cannot_be_opened_at_start_is_kept_for_the_next_one) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("away", "aio:" + folder.file("disk"), {.size = 1 << 20, .create = true}));
    VolumeInfo before = *set_->find("away");
    std::filesystem::rename(folder.file("disk"), folder.file("elsewhere"));
    restart();
    ASSERT_TRUE(set_->restore());
    ASSERT_EQ(set_->list().size(), 1u);
    EXPECT_TRUE(set_->list()[0].closed);
    const std::string trouble = set_->list()[0].trouble;
    EXPECT_TRUE(trouble.starts_with("cannot open " + folder.file("disk"))) << trouble;
    EXPECT_TRUE(trouble.ends_with(": No such file or directory")) << trouble;
    ASSERT_TRUE(create("other", "ram:1M"));
    EXPECT_NE(create("away", "ram:1M").text().find("wssctl volume reopen away"), std::string::npos);
    EXPECT_FALSE(set_->resize("away", 2 << 20));
    std::filesystem::rename(folder.file("elsewhere"), folder.file("disk"));
    restart();
    ASSERT_TRUE(set_->restore());
    EXPECT_EQ(set_->find("away")->identity, before.identity);
    EXPECT_FALSE(set_->find("away")->closed);
}

TEST_F(WithReactorThreads, a_file_that_became_shorter_causes_an_error_with_the_remedy) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("cut", "aio:" + folder.file("disk"), {.size = 1 << 20, .create = true}));
    const VolumeOptions declared{.size = 1 << 20, .create = true, .declared = true};
    ASSERT_TRUE(create("declared", "aio:" + folder.file("other"), declared));
    ASSERT_TRUE(set_->resize("declared", 2 << 20));
    std::filesystem::resize_file(folder.file("disk"), 1 << 19);
    std::filesystem::resize_file(folder.file("other"), 1 << 20);
    restart();
    ASSERT_TRUE(set_->restore());
    ASSERT_EQ(set_->list().size(), 1u);
    EXPECT_TRUE(set_->list()[0].closed);
    EXPECT_EQ(std::filesystem::file_size(folder.file("disk")), uint64_t{1 << 19}) << "not extended";
    Status refused = create("declared", "aio:" + folder.file("other"), declared);
    EXPECT_NE(refused.text().find("restore the missing data"), std::string::npos) << refused.text();
    std::filesystem::resize_file(folder.file("disk"), 1 << 20);
    restart();
    ASSERT_TRUE(set_->restore());
    EXPECT_EQ(set_->list().size(), 1u);
}

TEST_F(WithReactorThreads, access_lists_survive_a_restart) {
    TemporaryFolder folder;
    start({.state = locked(folder.file("state.json"))});
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("kept", "ram:1M", {.access = {"a=rw"}}));
    ASSERT_TRUE(create("declared", "ram:1M", {.access = {"a=rw"}, .declared = true}));
    ASSERT_TRUE(set_->set_access("declared", {"b=ro"}));
    EXPECT_FALSE(set_->set_access("declared", {"b=perhaps"}));
    restart();
    ASSERT_TRUE(set_->restore());
    ASSERT_TRUE(create("declared", "ram:1M", {.access = {"a=rw"}, .declared = true}));
    EXPECT_EQ(set_->find("kept")->access, std::vector<std::string>{"a=rw"});
    EXPECT_EQ(set_->find("declared")->access, std::vector<std::string>{"b=ro"}) << "changed at run time";
}

TEST_F(WithReactorThreads, a_damaged_state_file_causes_an_error_and_is_left_unchanged) {
    TemporaryFolder folder;
    std::string path = folder.file("state.json");
    std::string text = R"({"format": "wss-target-state", "version": 1, "volumes": [{"name": "x)";
    std::ofstream(path) << text;
    start({.state = locked(path)});
    Status status = set_->restore();
    EXPECT_EQ(status.code(), Code::kInvalid);
    EXPECT_NE(status.text().find(path), std::string::npos) << status.text();
    ASSERT_TRUE(create("a", "ram:1M"));
    std::stringstream now;
    now << std::ifstream(path).rdbuf();
    EXPECT_EQ(now.str(), text);
}

TEST_F(WithReactorThreads, a_removal_that_takes_too_long_times_out_and_completes_later) {
    start({.wait = from_s(2)});  // limits the creation as well
    ASSERT_TRUE(create("a", "ram:1M"));
    OpenVolume* held = nullptr;
    on_reactor([&] {
        held = set_->table(0).find(0);
        held->hold();
    });
    EXPECT_EQ(set_->remove("a").code(), Code::kTimedOut);
    EXPECT_EQ(set_->count(), 1u);
    on_reactor([&] { held->release(); });
    Nanoseconds deadline = clock_.now() + kPatience;
    while (set_->count() > 0 && clock_.now() < deadline) std::this_thread::yield();
    EXPECT_EQ(set_->count(), 0u);
}

TEST_F(WithReactorThreads,
       a_stop_that_does_not_end_in_time_names_the_volumes_and_does_not_continue_in_the_background) {
    start({.wait = from_s(1)});
    ASSERT_TRUE(create("a", "ram:1M"));
    OpenVolume* held = nullptr;
    on_reactor([&] { (held = set_->table(0).find(0))->hold(); });
    const std::string why = set_->close_all().text();
    on_reactor([&] { held->release(); });
    EXPECT_NE(why.find("requests of volume a have not completed"), std::string::npos) << why;
    EXPECT_EQ(why.find("background"), std::string::npos) << why;
}

// An endless stream of requests on one reactor: hold, submit, release.
struct Stream : TestRequest {
    VolumeTable* table = nullptr;
    uint32_t lun = 0;
    OpenVolume* volume = nullptr;
    uint64_t completed = 0;
    std::atomic<bool> stopping{false}, stopped{false};
    Buffer buffer{4096};

    void next() {
        volume = stopping ? nullptr : table->find(lun);
        if (volume == nullptr) {
            stopped = true;
            stopped.notify_one();
            return;
        }
        volume->hold();
        op = io::Op::kWrite;
        offset = 0;
        length = 4096;
        data = buffer.data();
        done = [](Request& request) noexcept {
            auto& self = static_cast<Stream&>(request);
            ++self.completed;
            self.volume->release();
            self.next();
        };
        volume->queue().submit(*this);
    }
};

TEST_F(WithReactorThreads, volumes_are_removed_during_a_stream_of_io_and_the_stream_ends_cleanly) {
    start({});
    TemporaryFolder folder;
    for (const std::string& backend : {std::string("ram:1M"), "aio:" + folder.file("disk")}) {
        ASSERT_TRUE(create("busy", backend, {.size = 1 << 20, .create = true}));
        Stream stream;
        stream.table = &set_->table(0);
        stream.lun = set_->find("busy")->identity.lun;
        first_.post([&] { stream.next(); });
        for (int i = 0; i < 20; ++i) {
            // This is not an ASSERT, because the stream below must always end before it is destroyed.
            EXPECT_TRUE(create("other", "ram:1M"));
            Status resized = set_->resize("busy", (2 + i % 2) << 20);
            EXPECT_TRUE(resized) << resized.to_string();
            EXPECT_TRUE(set_->remove("other"));
        }
        EXPECT_TRUE(set_->remove("busy"));
        stream.stopping = true;  // it still runs only if the removal failed
        stream.stopped.wait(false);
        EXPECT_GT(stream.completed, 0u);
    }
}

// --- the state file's text

TEST(StateFile, is_read_back_as_it_was_written) {
    std::vector<StoredVolume> volumes{
        {{.name = "a", .backend = "aio:/x \"y\"", .size = 1 << 20, .block_size = 512, .read_only = true},
         {0, 1}},
        {{.name = "b", .declared = true},
         {kLunMax, kWwidMask},
         RecordedSizes({.resized = 77,
                        .part = 1,
                        .growing = 2,
                        .shrinking = true,
                        .followed = true,
                        .cut_from = 3,
                        .cut_ownership = "owner"}),
         true}};
    auto parsed = parse_state(format_state(volumes), "f");
    ASSERT_TRUE(parsed) << parsed.status().to_string();
    EXPECT_EQ(*parsed, volumes);
}

TEST(StateFile, is_refused_with_damage_of_every_kind) {
    const std::string good =
        format_state({{{.name = "a", .backend = "ram:1M", .size = 1 << 20, .block_size = 512}, {3, 5}}});
    auto with = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos) << from;
        return text.replace(at, from.size(), to);
    };
    for (const std::string& bad :
         {std::string("{}"), std::string("[]"), std::string("\0", 1), with("wss-target-state", "other"),
          with("\"version\": 1", "\"version\": 2"), with("\"lun\": 3", "\"lun\": 16384"),
          with("\"lun\": 3", "\"lun\": -1"), with("\"lun\": 3", "\"lun\": \"3\""),
          with("\"name\": \"a\"", "\"name\": \"a/b\""), with("000000000000005", "0"),
          with("000000000000005", "1000000000000000"), with("000000000000005", "xyz"),
          with("\"block_size\": 512", "\"block_size\": 513"), with("\"size\"", "\"sise\"")})
        EXPECT_FALSE(parse_state(bad, "f")) << bad;
    // A truncated file is damaged, unless only its last newline is missing.
    for (size_t length = 0; length + 2 < good.size(); ++length)
        EXPECT_FALSE(parse_state(good.substr(0, length), "f"));
    std::string twice =
        format_state({{{.name = "a", .declared = true}, {1, 5}}, {{.name = "a", .declared = true}, {2, 6}}});
    EXPECT_FALSE(parse_state(twice, "f"));
}

}  // namespace
}  // namespace wss::volume
