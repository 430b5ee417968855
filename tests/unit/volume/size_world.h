// SPDX-License-Identifier: Apache-2.0
// SizeWorld: a volume on an image that others resize, with everything that takes part in its size.
//
// The VolumeSet and the SizeNotices are the real ones. The image behaves as an rbd image does, the backend as
// io::rbd::Client, the engine as cache engines do. Everything runs on one thread. Each call of storage, each
// save and each wait is a point where other events may happen, as the seed decides. A seed repeats all of it.
//
// Rules that each event is checked against
//  S1  No read of the volume returns a copy of data that a shrink by anybody has removed. Until the notice of
//      such a shrink has been delivered, copies may be served.
//  S2  No acknowledged write is dropped, unless others or the operator have cut off its block since.
//  S3  When nothing is left to do, the volume has the size of its image in whole blocks, or, on a part of it,
//      the smaller one of both. A volume is on a part only if the operator made it so, or after a shrink of
//      the operator that failed, or after a restart that requires the volume's former size.
//  S4  The image is resized only as the operator requested, and what others have added to it since that
//      request is not cut off once the target knows of it.
//
// Accepted: an operator that enlarges a volume on a part finds the contents of the image there, which may be
// older than its writes. What others do to the image while the target does not run is found by size only.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/clock.h"
#include "lib/io/size_notices.h"
#include "target/volume/volume_set.h"

namespace wss::volume {

constexpr const char* kModelVolume = "a";
constexpr uint64_t kModelBlock = 4096, kModelBlocks = 12;

// An rbd image. A shrink removes blocks, and regrown blocks are 0.
struct ModelImage {
    uint64_t bytes = 0;
    uint64_t owner = 1;  // changes when another owner has had it
    std::array<uint64_t, kModelBlocks> blocks{};
    uint64_t whole() const { return bytes / kModelBlock * kModelBlock; }
    void resize(uint64_t to) {
        for (uint64_t i = std::min(to, bytes) / kModelBlock; i < kModelBlocks; ++i) blocks[i] = 0;
        bytes = to;
    }
};

class SizeWorld;

// As io::rbd::Client and RbdBackend.
class ModelBackend final : public io::Backend {
  public:
    ModelBackend(SizeWorld& world, const io::OpenOptions& how);
    ~ModelBackend() override;
    io::Limits limits() const noexcept override {
        return {.size = notices_.size(), .discard = true, .volatile_cache = false};
    }
    Result<std::unique_ptr<io::Queue>> open_queue(reactor::Reactor&) override;
    Status resize(uint64_t bytes) override;
    std::optional<Status> late_resize() override;
    Status may_resize() override;
    bool hides_growth() const noexcept override { return notices_.hides_growth(); }
    void watch_size(SizeChanged changed) override;
    bool lost() const noexcept override { return lost_; }
    std::string ownership() const override;
    bool is_shared() const override { return true; }
    std::string describe() const override { return "model"; }

    // The header of the image has changed, or the client looks at it: a read of its size begins.
    void read_size();
    bool has_reads() const { return !reads_.empty(); }
    void deliver_read();
    void lose();
    bool is_resizing() const { return state_ != State::kNone; }
    bool is_late() const { return state_ == State::kUnderWay && !is_called_; }
    // The own resize in progress takes effect, or ends.
    void progress();
    io::SizeNotices& notices() { return notices_; }
    // The current size was read after all resizes, and was delivered.
    bool has_looked() const { return looked_; }
    uint64_t known_by_reads() const { return notices_.latest(); }

  private:
    friend class SizeWorld;
    enum class State : uint8_t { kNone, kUnderWay, kUnknown };
    struct Read {
        uint64_t bytes, moment, when;
    };
    Status resize_now();
    void end(bool succeeded);

    SizeWorld& world_;
    io::SizeNotices notices_;
    std::deque<Read> reads_;  // replies come in order
    State state_ = State::kNone;
    uint64_t wanted_ = 0;
    bool applied_ = false, lost_ = false, looked_ = true;
    bool is_called_ = false;        // resize() has not returned yet
    std::optional<Status> result_;  // of a late resize, until it is taken
};

// As the cache with its engines. Holds copies until it is told to drop them, and may answer late.
class ModelEngine final : public Observer {
  public:
    struct Copy {
        uint64_t value = 0;  // 0: none
        bool dirty = false;
        uint64_t made = 0;  // the last value that existed then
    };
    explicit ModelEngine(SizeWorld& world) : world_(world) {}
    Status may_open(const Volume& volume) override;
    void volume_changed(Change change, OpenVolume& volume) noexcept override;
    void volume_shrinks(OpenVolume& volume, std::shared_ptr<Shrink> shrink) noexcept override;
    void volume_reopens(OpenVolume& volume, std::shared_ptr<Reopening> reopening) noexcept override;
    bool is_shrinking() const { return !shrinks_.empty() || drops_from_ != 0; }
    void answer(bool drops);
    void forget_requests();
    std::array<Copy, kModelBlocks> copies{};

  private:
    void drop_from(uint64_t bytes);
    SizeWorld& world_;
    std::vector<std::shared_ptr<Shrink>> shrinks_;
    uint64_t drops_from_ = 0;  // requested at the opening
};

class SizeWorld {
  public:
    SizeWorld(uint64_t seed, bool traces);
    ~SizeWorld();
    SizeWorld(const SizeWorld&) = delete;
    SizeWorld& operator=(const SizeWorld&) = delete;
    void run(int steps);
    const std::string& failure() const { return failure_; }
    const std::vector<std::string>& trace() const { return trace_; }

  private:
    friend class ModelBackend;
    friend class ModelEngine;
    enum class Ending : uint8_t { kNo, kStop, kKill };
    // What is known of one block of the volume.
    struct Block {
        uint64_t written = 0;     // the last acknowledged write
        bool sure = false;        // a read must return `written`
        bool operators = false;   // the operator has requested a size before this block since
        bool pending = false;     // others have removed it, and the target may not have followed yet
        uint64_t others = 0;      // the last write of another owner
        uint64_t dead = 0;        // values before this were removed by others
        uint64_t min_copy = 0;    // older copies must not be served
        uint64_t min_stored = 0;  // older contents of the image must not be served
    };
    struct Request {
        uint64_t bytes, latest, number;  // `latest`: the known size of the image then
    };

    template <typename... Args>
    void note(fmt::format_string<Args...> format, Args&&... args) {
        if (traces_)
            trace_.push_back(std::string(depth_ * 2, ' ') + fmt::format(format, std::forward<Args>(args)...));
    }
    void fail(const std::string& why);
    bool chance(uint32_t one_in) { return random_.chance(one_in); }
    uint64_t some_size();
    bool over() const { return ending_ != Ending::kNo || !failure_.empty(); }
    bool dead() const { return ending_ == Ending::kKill || !failure_.empty(); }

    VolumeSet::Options options();
    void start();
    void end();
    void begin_volume();
    void restart();
    void reconfigure();
    void while_it_does_not_run();
    void forget_unseen();
    Status write_file(const std::vector<StoredVolume>& volumes);
    Result<std::unique_ptr<io::Backend>> open(const io::OpenOptions& how);

    // Lets others act while something waits.
    bool turn();
    void let_happen();
    void event();
    void storage_event();
    void client_event();
    void operator_event();
    void set_access();
    void run_task();
    void report();
    void others_resize(uint64_t bytes);
    void take_image();
    void operator_resizes(uint64_t bytes);
    void reopen();
    void write(uint64_t block);
    void read(uint64_t block);
    void destage();

    void removed_by_others(uint64_t bytes);
    void applied_own(uint64_t bytes);
    void issued_own(uint64_t bytes);
    void dropping(uint64_t bytes, bool at_opening, bool is_operators);
    bool is_requested(uint64_t bytes) const;
    void note_followed();
    void settle();
    bool settle_once();
    void check_quiet();
    const Volume* volume();

    Random random_;
    const bool traces_;
    std::vector<std::string> trace_;
    std::string failure_;
    size_t depth_ = 0;

    SystemClock clock_;
    reactor::Reactor reactor_{clock_, {.spin = kNever}};
    ModelImage image_;
    ModelEngine engine_{*this};
    ModelBackend* backend_ = nullptr;  // the newest
    std::unique_ptr<VolumeSet> set_;
    std::vector<StoredVolume> file_;
    bool disk_full_ = false, is_saved_ = true, refuses_ = false, reporting_ = false, calm_ = false,
         setting_ = false;
    Ending ending_ = Ending::kNo;
    std::deque<LateEnds::Task> tasks_;
    std::vector<std::stop_source*> running_;

    std::array<Block, kModelBlocks> blocks_{};
    uint64_t value_ = 0;      // the last one written
    uint64_t time_ = 0;       // number of effects on the image
    uint64_t requested_ = 0;  // number of requests
    uint64_t drops_ = 0;      // number of requests to drop data
    std::vector<Request> requests_;
    VolumeOptions volume_options_;
    bool may_be_part_ = false;
    bool incomplete_ = false;  // a shrink of the operator has dropped data, and may not have cut the image
    bool may_lag_ = false;     // a start required the former size of the volume
    bool unsaved_ = false;     // a shrink was followed that could not be saved
    bool refused_ = false;     // a notice is to be repeated
};

}  // namespace wss::volume
