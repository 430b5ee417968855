// SPDX-License-Identifier: Apache-2.0
#include "lib/io/sim/sim_image.h"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

#include "lib/base/assert.h"

namespace wss::io {

// ---- A client's view -------------------------------------------------------------------------------------

SimImageClient::SimImageClient(SimImage& image, std::shared_ptr<SimContents> contents, sim::World& world,
                               const SimDiskFaults& faults, const HolderMark& mark, uint64_t owner)
    : SimDevice(world, std::move(contents), faults),
      image_(image),
      mark_(mark),
      owner_(owner),
      answered_(world.now()) {
    world.schedule_in(Nanoseconds{static_cast<int64_t>(world.random().below(kCheckEvery.count))},
                      [this] { check(); });
}

void SimImageClient::cut_off(bool cut) {
    if (std::exchange(cut_, cut) == cut) return;
    if (!cut) resume();
}

void SimImageClient::check() {
    if (closed_) return;
    if (!cut_) {
        answered_ = world().now();
        noticed_ = noticed_ || fenced_;
    }
    world().schedule_in(kCheckEvery, [this] { check(); });
}

bool SimImageClient::is_unanswered_for(Nanoseconds time) const noexcept {
    return !noticed_ && world().now() - answered_ >= time;
}

std::string SimImageClient::trouble() const {
    if (noticed_) return "blocklisted: another client took the image";
    return is_unanswered_for(kSlow) ? "the image does not answer" : "";
}

std::string SimImageClient::ownership() const {
    return owner_ == 0 ? "" : fmt::format("image 1, owner {}", owner_);
}

int SimImageClient::refusal(const Flight&) {
    if (!fenced_) return 0;
    noticed_ = true;
    return ESHUTDOWN;
}

void SimImageClient::close() {
    closed_ = true;
    if (!fenced_ && !cut_) image_.release(*this);
}

void SimImageClient::kill() {
    closed_ = true;
    drop_some(cut_ || fenced_ ? 1 : 3);
    if (world().random().chance(3)) break_off();
}

// ---- The image -------------------------------------------------------------------------------------------

SimImage::SimImage(sim::World& world, uint64_t bytes, const SimDiskFaults& faults)
    : world_(world), contents_(std::make_shared<SimContents>(bytes)), faults_(faults) {
    contents_->make_stable();
}

void SimImage::fence_holder() noexcept {
    if (holder_ != nullptr) holder_->fence();
    holder_ = nullptr;
}

SimImageClient& SimImage::take(std::string_view owner) {
    fence_holder();
    if (!owner.empty() && owner != owner_name_) {
        ++owner_;
        owner_name_ = owner;
    }
    const uint64_t former = lock_;
    lock_ = ++last_client_;
    found_ = HolderMark::after(found_, {.former = former, .was_free = former == 0}, lock_,
                               world_.random().next() | 1);
    clients_.emplace_back(
        new SimImageClient(*this, contents_, world_, faults_, *found_, owner.empty() ? 0 : owner_));
    holder_ = clients_.back().get();
    return *holder_;
}

bool SimImage::die_while_taking(Death death) {
    fence_holder();
    if (death == Death::kHolderFenced) return false;
    const uint64_t former = std::exchange(lock_, 0);
    if (death == Death::kLockBroken) return former != 0;
    lock_ = ++last_client_;
    return true;
}

void SimImage::take_without_mark() {
    fence_holder();
    ++last_client_;
    lock_ = 0;
}

void SimImage::write(Request& request) {
    WSS_ASSERT(contents_->has(request), "the request is within the image");
    contents_->change(request, request.length / SimContents::kSector);
}

void SimImage::release(const SimImageClient& client) noexcept {
    if (holder_ != &client) return;
    holder_ = nullptr;
    found_->released = true;
    lock_ = 0;
}

}  // namespace wss::io
