// SPDX-License-Identifier: Apache-2.0
// The events of a SizeWorld: what storage, clients, the operator and others do.
#include "tests/unit/volume/size_world.h"

namespace wss::volume {

// --- events ---

bool SizeWorld::turn() {
    if (over() || calm_ || chance(2)) reactor_.step();
    if (over())
        for (std::stop_source* source : running_) source->request_stop();
    if (over()) return false;
    if (calm_) {
        (void)settle_once();
        return true;
    }
    let_happen();
    return !over() && !chance(10);
}

void SizeWorld::let_happen() {
    if (over()) return;
    ++depth_;
    const int events = 1 + static_cast<int>(random_.below(3));
    for (int i = 0; i < events && !over(); ++i) event();
    --depth_;
}

void SizeWorld::event() {
    if (calm_) return (void)settle_once();
    switch (random_.below(8)) {
        case 0:
            reactor_.step();
            break;
        case 1:
        case 2:
            storage_event();
            break;
        case 3:
            if (engine_.is_shrinking()) engine_.answer(!chance(8));
            break;
        case 4:
            report();
            break;
        case 5:
        case 6:
            client_event();
            break;
        default:
            operator_event();
    }
}

void SizeWorld::storage_event() {
    switch (random_.below(8)) {
        case 0:
        case 1:
            others_resize(some_size());
            break;
        case 2:
            if (backend_ != nullptr) backend_->read_size();
            break;
        case 3:
            if (backend_ != nullptr && backend_->is_late()) backend_->progress();
            break;
        case 4:
            if (chance(12)) take_image();
            break;
        default:
            if (backend_ != nullptr && backend_->has_reads()) backend_->deliver_read();
    }
}

void SizeWorld::client_event() {
    const uint64_t block = random_.below(kModelBlocks);
    switch (random_.below(5)) {
        case 0:
        case 1:
            return write(block);
        case 2:
        case 3:
            return read(block);
        default:
            destage();
    }
}

void SizeWorld::operator_event() {
    const bool top = depth_ == 0;
    switch (random_.below(12)) {
        case 0:
        case 1:
        case 2:
            if (depth_ <= 1) operator_resizes((1 + random_.below(kModelBlocks)) * kModelBlock);
            break;
        case 3:
            disk_full_ = chance(3);
            break;
        case 4:
            refuses_ = chance(4);
            break;
        case 5:
            if (chance(6)) ending_ = chance(2) ? Ending::kStop : Ending::kKill;
            break;
        case 6:
            if (top) reopen();
            break;
        case 7:
            if (top && chance(2)) settle();
            break;
        case 8:
            if (top) (void)set_->declare({});
            set_access();
            break;
        default:
            if (depth_ <= 1) run_task();
    }
}

// Another change of the volume that saves the state file, and which a failed save reverts.
void SizeWorld::set_access() {
    if (setting_ || volume() == nullptr) return;
    setting_ = true;
    const Status set = set_->set_access(kModelVolume, {chance(2) ? "*=rw" : "*=ro"});
    note("the operator's change of the access list: {}", set.to_string());
    setting_ = false;
}

void SizeWorld::run_task() {
    if (tasks_.empty()) return;
    note("a background task runs");
    ++depth_;
    LateEnds::Task task = std::move(tasks_.front());
    tasks_.pop_front();
    std::stop_source source;
    running_.push_back(&source);
    task(source.get_token());
    running_.pop_back();
    task = {};
    --depth_;
    note("the background task has ended");
}

// A notice of the thread of SizeNotices.
void SizeWorld::report() {
    if (backend_ == nullptr || reporting_) return;
    reporting_ = true;
    ++depth_;
    const std::optional<bool> done = backend_->notices().report();
    if (done) note("the notice: {}", *done ? "done" : "to be repeated");
    --depth_;
    reporting_ = false;
    if (!done) note_followed();
}

void SizeWorld::others_resize(uint64_t bytes) {
    note("others resize the image from {} to {}", image_.bytes, bytes);
    ++time_;
    if (bytes < image_.bytes) removed_by_others(bytes);
    image_.resize(bytes);
    if (backend_ == nullptr || backend_->lost_) return;
    backend_->looked_ = false;
    backend_->read_size();
}

void SizeWorld::take_image() {
    if (backend_ == nullptr || backend_->lost_) return;
    note("another owner takes the image");
    backend_->lose();
    backend_->reads_.clear();
    ++image_.owner;
    for (Block& block : blocks_) block.sure = false;
    while (chance(2)) others_resize(some_size());
    for (uint64_t i = 0; i < image_.bytes / kModelBlock; ++i)
        if (chance(2)) image_.blocks[i] = blocks_[i].others = ++value_;
}

void SizeWorld::operator_resizes(uint64_t bytes) {
    const Volume* before = volume();
    if (before == nullptr || backend_ == nullptr) return;
    const uint64_t size = before->size(), part = before->sizes().part();
    const auto blocks = blocks_;
    note("the operator resizes the volume from {} to {}", size, bytes);
    for (uint64_t i = bytes / kModelBlock; i < kModelBlocks; ++i) blocks_[i].operators = true;
    for (uint64_t i = size / kModelBlock; i < bytes / kModelBlock; ++i) blocks_[i].min_stored = 0;
    const uint64_t latest = backend_->notices().latest();
    const uint64_t number = ++requested_;
    requests_.push_back({bytes, latest, number});
    const uint64_t drops = drops_;
    const Status resized = set_->resize(kModelVolume, bytes);
    note("the operator's resize: {}", resized.to_string());
    if (resized.code() != Code::kTimedOut)
        std::erase_if(requests_, [&](const Request& request) { return request.number == number; });
    if (over()) {
        may_be_part_ = incomplete_ = true;
        return;
    }
    if (resized) {
        may_lag_ = false;
        const uint64_t now = backend_ == nullptr ? 0 : backend_->notices().latest();
        may_be_part_ = bytes + kModelBlock <= std::max(latest, now) || (part != 0 && bytes <= size);
        incomplete_ = false;
        return;
    }
    if (drops != drops_ || resized.code() == Code::kTimedOut) {
        may_be_part_ = incomplete_ = true;
    } else if (!disk_full_) {
        for (uint64_t i = 0; i < kModelBlocks; ++i) {
            if (blocks_[i].written != blocks[i].written) continue;
            blocks_[i].operators = blocks[i].operators;
            blocks_[i].min_stored = std::max(blocks_[i].min_stored, blocks[i].min_stored);
        }
    }
}

void SizeWorld::reopen() {
    const Volume* lost = volume();
    if (lost != nullptr && !lost->lost()) return;
    if (lost == nullptr && volume_options_.declared && !set_->find(kModelVolume))
        return (void)set_->create(volume_options_);
    const Status reopened =
        set_->reopen(kModelVolume, {.steal = chance(2), .give_up_dirty = lost != nullptr});
    note("reopen: {}", reopened.to_string());
    if (lost == nullptr && reopened.code() == Code::kRefused) engine_.copies = {};  // wssctl cache give-up
    if (lost == nullptr && reopened.code() == Code::kRefused)
        for (Block& block : blocks_) block.sure = false;
}

}  // namespace wss::volume
