// SPDX-License-Identifier: Apache-2.0
// The image's client and the engine of a SizeWorld.
#include <algorithm>

#include "tests/unit/volume/size_world.h"

namespace wss::volume {

namespace {

// No requests go to it: the world accesses the image itself.
class IdleQueue final : public io::Queue {
  public:
    void submit(io::Request&) noexcept override {}
    size_t in_flight() const noexcept override { return 0; }
    size_t poll() noexcept override { return 0; }
};

}  // namespace

// --- the client of the image ---

ModelBackend::ModelBackend(SizeWorld& world, const io::OpenOptions& how) : world_(world) {
    notices_.begin(world.image_.bytes, how.at_most);
    world.backend_ = this;
}

ModelBackend::~ModelBackend() {
    // Ceph may still carry out what it was sent.
    if (state_ == State::kUnderWay && !applied_ && !lost_ && world_.chance(2)) world_.applied_own(wanted_);
    if (world_.backend_ == this) world_.backend_ = nullptr;
}

Result<std::unique_ptr<io::Queue>> ModelBackend::open_queue(reactor::Reactor&) {
    return std::unique_ptr<io::Queue>(std::make_unique<IdleQueue>());
}

// The thread of the notices may be preempted before and after the user acts on one.
void ModelBackend::watch_size(SizeChanged changed) {
    if (!changed) return notices_.watch(std::move(changed));
    notices_.watch([&world = world_, changed = std::move(changed)](uint64_t before, uint64_t after) {
        if (!world.calm_ && world.chance(3)) world.let_happen();
        if (world.dead()) return true;
        const bool done = changed(before, after);
        if (!world.calm_ && world.chance(3)) world.let_happen();
        return done;
    });
}

std::string ModelBackend::ownership() const {
    return std::to_string(world_.image_.owner);
}

Status ModelBackend::may_resize() {
    if (lost_ || world_.dead()) return Status(Code::kClosed, "closed");
    if (state_ != State::kNone) return Status(Code::kBusy, "a resize is in progress");
    return world_.refuses_ ? Status(Code::kPermission, "refused") : Status::ok();
}

Status ModelBackend::resize(uint64_t bytes) {
    if (lost_ || world_.dead()) return Status(Code::kClosed, "closed");
    if (bytes == notices_.size() && state_ == State::kNone) return Status::ok();
    WSS_TRY(may_resize());
    if (notices_.would_cut(bytes)) return Status(Code::kRefused, "others have enlarged it");
    world_.note("resize of the image to {} begins", bytes);
    world_.issued_own(bytes);
    notices_.limit_own(bytes);
    state_ = State::kUnderWay;
    wanted_ = bytes;
    applied_ = false;
    result_.reset();
    is_called_ = true;
    Status resized = resize_now();
    is_called_ = false;
    return resized;
}

Status ModelBackend::resize_now() {
    for (;;) {
        if (world_.chance(2)) world_.let_happen();
        if (lost_ || world_.over()) return Status(Code::kClosed, "closed");
        if (!world_.calm_ && world_.chance(6)) {
            world_.note("resize of the image has timed out");
            return Status(Code::kTimedOut, "no answer");
        }
        if (state_ == State::kUnderWay) progress();
        if (auto result = std::exchange(result_, std::nullopt)) return *result;
    }
}

std::optional<Status> ModelBackend::late_resize() {
    if (result_) return std::exchange(result_, std::nullopt);
    if (state_ != State::kUnderWay) return std::nullopt;
    return Status(Code::kBusy, "no answer");
}

void ModelBackend::progress() {
    if (lost_ || world_.dead()) return;
    if (!applied_ && world_.chance(3)) return end(false);
    if (applied_) return end(world_.calm_ || !world_.chance(5));
    applied_ = true;
    world_.applied_own(wanted_);
}

void ModelBackend::end(bool succeeded) {
    const bool is_known = world_.calm_ || !world_.chance(3);
    world_.note("resize of the image to {} {}{}", wanted_, succeeded ? "succeeds" : "fails",
                succeeded || is_known ? "" : ", its size is unknown");
    if (succeeded)
        notices_.changed_own(wanted_);
    else if (is_known)
        notices_.failed_own(world_.image_.bytes);
    else
        notices_.unknown_own();
    if (!succeeded && applied_) world_.removed_by_others(wanted_);  // the target learns of it like that
    state_ = succeeded || is_known ? State::kNone : State::kUnknown;
    result_ = succeeded ? Status::ok() : Status(Code::kIo, "failed");
    looked_ = false;
    read_size();
}

void ModelBackend::read_size() {
    reads_.push_back({world_.image_.bytes, notices_.moment(), world_.time_});
}

void ModelBackend::deliver_read() {
    const Read read = reads_.front();
    reads_.pop_front();
    if (lost_) return;
    world_.note("read of the size: {}", read.bytes);
    looked_ = read.when == world_.time_ && state_ == State::kNone && !notices_.has_resized_since(read.moment);
    if (read.bytes < kModelBlock) return lose();
    if (state_ == State::kUnknown && !notices_.has_resized_since(read.moment)) {
        notices_.failed_own(read.bytes);
        state_ = State::kNone;
        looked_ = false;
        return;
    }
    if (read.bytes != notices_.latest() || state_ == State::kUnderWay)
        notices_.changed(read.bytes, read.moment);
}

void ModelBackend::lose() {
    world_.note("the image is lost");
    lost_ = true;
    notices_.lose();
}

// --- the engine ---

Status ModelEngine::may_open(const Volume& volume) {
    const uint64_t blocks = volume.size() / kModelBlock, drops = volume.drops_from();
    if (drops != 0 && drops <= volume.size()) return Status::ok();
    for (uint64_t i = blocks; i < kModelBlocks; ++i)
        if (copies[i].dirty) return Status(Code::kRefused, "engines hold writes beyond the end");
    return Status::ok();
}

void ModelEngine::volume_changed(Change change, OpenVolume& volume) noexcept {
    if (change == Change::kRemoved) drops_from_ = 0;
    if (change != Change::kAdded) return;
    world_.note("the volume is served with {}, drops from {}", volume.volume().size(),
                volume.volume().drops_from());
    drops_from_ = volume.volume().drops_from();
    const bool is_followed = !world_.file_.empty() && world_.file_.front().sizes.followed();
    if (drops_from_ != 0) world_.dropping(drops_from_, true, !is_followed);
    for (uint64_t i = volume.volume().blocks(); i < kModelBlocks; ++i)
        if (!copies[i].dirty) copies[i] = {};
}

void ModelEngine::volume_shrinks(OpenVolume&, std::shared_ptr<Shrink> shrink) noexcept {
    world_.note("the engine is to drop what it has from {}", shrink->bytes());
    world_.dropping(shrink->bytes(), false, world_.is_requested(shrink->bytes()));
    shrinks_.push_back(std::move(shrink));
}

void ModelEngine::volume_reopens(OpenVolume&, std::shared_ptr<Reopening> reopening) noexcept {
    const bool dirty = std::any_of(copies.begin(), copies.end(), [](const Copy& copy) { return copy.dirty; });
    if (dirty && !reopening->give_up_dirty()) return reopening->end(Status(Code::kRefused, "dirty"));
    if (!reopening->look_only()) copies = {};
    reopening->end(Status::ok());
}

void ModelEngine::answer(bool drops) {
    world_.note("the engine {}", drops ? "has dropped it" : "fails to drop it");
    if (drops && drops_from_ != 0) drop_from(std::exchange(drops_from_, 0));
    for (const auto& shrink : std::exchange(shrinks_, {})) {
        if (!drops) continue;
        drop_from(shrink->bytes());
        shrink->done();
    }
}

void ModelEngine::forget_requests() {
    drops_from_ = 0;
    shrinks_.clear();
}

void ModelEngine::drop_from(uint64_t bytes) {
    for (uint64_t i = bytes / kModelBlock; i < kModelBlocks; ++i) copies[i] = {};
}

// --- what the engine is to drop ---

// True if the operator requested a shrink to that size. A request to enlarge the volume first completes an
// earlier shrink, which is not requested then.
bool SizeWorld::is_requested(uint64_t bytes) const {
    const auto largest = std::max_element(requests_.begin(), requests_.end(),
                                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
    return !reporting_ && largest != requests_.end() && largest->bytes == bytes;
}

void SizeWorld::dropping(uint64_t bytes, bool at_opening, bool is_operators) {
    ++drops_;
    for (uint64_t i = bytes / kModelBlock; i < kModelBlocks; ++i) {
        Block& block = blocks_[i];
        if (block.sure && !block.operators)
            fail(fmt::format("S2: block {} is dropped{}, nobody cut it off", i,
                             at_opening ? " at the opening" : ""));
        block.sure = false;
        block.min_copy = value_ + 1;
        if (block.operators && !block.pending && is_operators) block.min_stored = value_ + 1;
    }
    if (!at_opening && !is_saved_) unsaved_ = true;
}

}  // namespace wss::volume
