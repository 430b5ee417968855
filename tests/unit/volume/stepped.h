// SPDX-License-Identifier: Apache-2.0
// A set of volumes whose reactors the test steps, as the simulation does.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "target/volume/volume_set.h"
#include "tests/unit/io/harness.h"

namespace wss::volume {

class Hears final : public Observer {
  public:
    void volume_changed(Change change, OpenVolume& volume) noexcept override {
        heard.push_back(std::string(to_string(change)) + " " + volume.volume().name());
    }
    std::vector<std::string> heard;
};

// Two reactors on the test's own thread.
class InAVolumeSet : public testing::Test {
  protected:
    explicit InAVolumeSet(VolumeSet::Options options = {}) { reopen(std::move(options)); }
    void reopen(VolumeSet::Options options) {
        set_.reset();
        set_ = std::make_unique<VolumeSet>(std::vector<reactor::Reactor*>{&first_, &second_},
                                           std::move(options));
    }
    ~InAVolumeSet() override {
        if (!set_) return;
        EXPECT_TRUE(await([&](VolumeSet::Done done) { set_->close_all_async(std::move(done)); }));
    }
    void step() {
        first_.step();
        second_.step();
    }
    // Steps until the change that `start` begins is complete.
    Status await(const std::function<void(VolumeSet::Done)>& start) {
        std::optional<Status> result;
        start([&](Status status) { result = std::move(status); });
        Nanoseconds deadline = clock_.now() + io::test::kPatience;
        while (!result && clock_.now() < deadline) step();
        return result.value_or(Status(Code::kTimedOut, "the test's time limit"));
    }
    Status create(const std::string& name, const std::string& backend = "ram:1M", VolumeOptions more = {}) {
        more.name = name;
        more.backend = backend;
        return await([&](VolumeSet::Done done) { set_->create_async(more, std::move(done)); });
    }
    Status remove(const std::string& name) {
        return await([&](VolumeSet::Done done) { set_->remove_async(name, std::move(done)); });
    }
    Status resize(const std::string& name, uint64_t bytes) {
        return await([&](VolumeSet::Done done) { set_->resize_async(name, bytes, std::move(done)); });
    }
    Status set_read_only(const std::string& name, bool read_only) {
        return await(
            [&](VolumeSet::Done done) { set_->set_read_only_async(name, read_only, std::move(done)); });
    }

    SystemClock clock_;
    reactor::Reactor first_{clock_}, second_{clock_};
    std::unique_ptr<VolumeSet> set_;
};

}  // namespace wss::volume
