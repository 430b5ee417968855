// SPDX-License-Identifier: Apache-2.0
// A set of volumes on storage that others can resize and take over, such as an image in a Ceph cluster.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"

namespace wss::volume {

// Storage that others resize and take over, as the test directs.
struct Shared {
    uint64_t size = 1 << 20;
    uint64_t former_size = 0;  // the size that its former clients see
    uint64_t left = 0;         // the size that the next client finds; 0: unchanged
    uint64_t at_most = 0;      // the size that its user knows; a larger one has yet to be reported
    bool offers = false;       // reports the larger size as soon as it is watched
    uint64_t offered = 0;      // a smaller size that is not accepted because of trouble; 0: none
    io::Backend::SizeChanged changed;
    const io::Backend* newest = nullptr;    // the backend that `changed` belongs to
    bool refuses = false;                   // opening fails
    bool taken = false;                     // the newest backend has lost the storage
    bool elsewhere = false;                 // only another node can shut out the owner
    std::atomic<bool> silent = false;       // resizes time out
    bool ends_resizes = false;              // a resize that times out has ended, and has had no effect
    std::atomic<int> resizes = 0;           // requested so far
    bool hides_growth = false;              // others have shrunk and enlarged it
    bool refuses_resizes = false;           // resizes fail
    bool ends = false;                      // the program ends; resizes go on
    bool awaits = false, given_up = false;  // waits for its owner; the operator has given up the wait
    bool slow = false;                      // reports trouble, but is not lost
    std::string owner;                      // changes when another owner has had the storage
    std::optional<io::OpenOptions> opened;  // options of the last open
    std::function<void()> meanwhile;        // called once, during an open or a resize
    void let_happen() {
        if (auto what = std::exchange(meanwhile, {})) what();
    }
    std::atomic<int> clients{0};
};
class SharedBackend final : public io::Backend {
  public:
    explicit SharedBackend(Shared& shared)
        : shared_(shared), ram_(*io::open_backend("delay:us=1:ram:4M", {})) {
        shared_.newest = this;
        ++shared_.clients;
    }
    ~SharedBackend() override { --shared_.clients; }
    io::Limits limits() const noexcept override {
        if (shared_.offered != 0) return {.size = shared_.offered};
        if (shared_.newest != this) return {.size = shared_.former_size};
        return {.size = shared_.at_most == 0 ? shared_.size : std::min(shared_.size, shared_.at_most)};
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor& reactor) override {
        return ram_->open_queue(reactor);
    }
    Status resize(uint64_t bytes) override {
        ++shared_.resizes;
        asked_ = bytes;
        if (shared_.silent && bytes != shared_.size) return Status(Code::kTimedOut, "no answer");
        if (shared_.ends) return shared_.size = bytes, Status(Code::kClosed, "the program is ending");
        if (shared_.refuses_resizes && bytes != shared_.size)
            return Status(Code::kExhausted, "the pool is full");
        if (bytes != shared_.size) shared_.let_happen();
        return shared_.size = bytes, Status::ok();
    }
    std::optional<Status> late_resize() override {
        if (shared_.ends_resizes) return std::nullopt;
        if (shared_.silent) return Status(Code::kBusy, "no answer");
        return shared_.size = asked_, Status::ok();
    }
    bool hides_growth() const noexcept override { return shared_.hides_growth; }
    void watch_size(SizeChanged changed) override {
        if (shared_.newest == this) shared_.changed = std::move(changed);
        if (shared_.offers) shared_.at_most = 0;
    }
    bool lost() const noexcept override { return shared_.newest == this && shared_.taken; }
    std::string trouble() const override {
        return shared_.awaits ? "waits for its owner" : shared_.slow ? "does not answer" : "";
    }
    bool give_up() noexcept override {
        shared_.given_up |= shared_.awaits;
        return std::exchange(shared_.awaits, false);
    }
    Status may_steal() const override { return shared_.elsewhere ? not_here() : Status::ok(); }
    static Status not_here() { return Status(Code::kInvalid, "its owner can be shut out only there"); }
    bool is_shared() const override { return true; }
    std::string ownership() const override { return shared_.owner; }
    std::string describe() const override { return "shared"; }

  private:
    Shared& shared_;
    uint64_t asked_ = 0;  // the size that the last resize requested
    const std::unique_ptr<io::Backend> ram_;
};

// One reactor on the test's own thread.
class OnSharedStorage : public testing::Test {
  protected:
    OnSharedStorage() { make_set({}); }
    void make_set(VolumeSet::Options options) {
        options.open = [this](const std::string&,
                              const io::OpenOptions& how) -> Result<std::unique_ptr<io::Backend>> {
            if (shared_.elsewhere && how.steal) return SharedBackend::not_here();
            shared_.opened = how;
            shared_.at_most = how.at_most;
            shared_.let_happen();
            if (shared_.refuses) return failure(Code::kBusy, "the client at 1.2.3.4 uses it");
            shared_.former_size = shared_.size;
            if (shared_.left != 0) shared_.size = shared_.left;
            return std::unique_ptr<io::Backend>(std::make_unique<SharedBackend>(shared_));
        };
        set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>{&reactor_}, std::move(options));
    }
    ~OnSharedStorage() override {
        EXPECT_TRUE(await([&](VolumeSet::Done done) { set_->close_all_async(std::move(done)); }));
        set_.reset();
        EXPECT_EQ(shared_.clients, 0) << "one client is left and keeps the lock";
    }
    Status await(const std::function<void(VolumeSet::Done)>& start) {
        std::optional<Status> result;
        start([&](Status status) { result = std::move(status); });
        const Nanoseconds deadline = clock_.now() + io::test::kPatience;
        while (!result && clock_.now() < deadline) reactor_.step();
        return result.value_or(Status(Code::kTimedOut, "the test's time limit"));
    }
    Status create(const std::string& name, uint64_t size = 0, bool declared = false) {
        VolumeOptions options;
        options.declared = declared;
        options.name = name;
        options.backend = "any";
        options.size = size;
        return await([&](VolumeSet::Done done) { set_->create_async(options, std::move(done)); });
    }
    // Reports a size like the backend's own thread, which may block. Returns false if the volume does not
    // adopt it yet.
    bool follows(uint64_t before, uint64_t after) {
        bool done = false;
        std::atomic<bool> over{false};
        std::thread keeper([&] {
            done = shared_.changed(before, after);
            over = true;
        });
        while (!over) reactor_.step();
        keeper.join();
        return done;
    }
    void others_resize(uint64_t bytes) {
        const uint64_t before = std::exchange(shared_.size, bytes);
        while (!follows(before, bytes)) {
        }
    }

    // Runs a command like the control thread, which waits for the reactors.
    Status control(const std::function<Status()>& command) {
        std::optional<Status> result;
        std::atomic<bool> over{false};
        std::thread control([&] {
            result = command();
            over = true;
        });
        while (!over) reactor_.step();
        control.join();
        return *result;
    }
    Status reopen(const std::string& name, const VolumeSet::ReopenOptions& how = {}) {
        return control([&] { return set_->reopen(name, how); });
    }
    Status resize(const std::string& name, uint64_t bytes) {
        return control([&] { return set_->resize(name, bytes); });
    }
    Permission permission() { return set_->table(0).find(0)->access().of("anybody"); }

    SystemClock clock_;
    reactor::Reactor reactor_{clock_};
    io::test::TemporaryFolder folder_;
    std::vector<std::vector<StoredVolume>> written_;  // the saves of the state file, if there is one
    Shared shared_;
    std::unique_ptr<VolumeSet> set_;
};

}  // namespace wss::volume
