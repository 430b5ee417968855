// SPDX-License-Identifier: Apache-2.0
// VolumeSet's tasks on the reactors: a volume is opened, published, changed and closed on each of them.
#include <atomic>

#include "target/volume/volume_record.h"
#include "target/volume/volume_set.h"

namespace wss::volume {

std::shared_ptr<RateLimiter> limiter_of(const RateLimits& limits) {
    return limits.any() ? std::make_shared<RateLimiter>(limits) : nullptr;
}

void VolumeSet::open_on_reactors(const RecordPtr& record, Done done) {
    std::shared_ptr<RateLimiter> limiter;
    {
        std::lock_guard lock(m_);
        // Limits that were set while it was being reopened take effect now.
        auto known = known_.find(record->options.name);
        if (known != known_.end() && known->second.limits) record->options.limits = *known->second.limits;
        limiter = limiter_of(record->options.limits);
    }
    for (size_t i = 0; i < tables_.size(); ++i)
        record->opens.push_back(std::make_unique<OpenVolume>(record->volume, record->access, limiter));
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    for (size_t i = 0; i < tables_.size(); ++i)
        reactors_[i]->post(
            [this, record, gathering, i] { gathering->arrive(tables_[i]->open(*record->opens[i])); });
}

// `visit(i)` runs on each reactor i: on reactor 0 before it runs on any other.
static void visit_first_first(const std::vector<reactor::Reactor*>& reactors,
                              const std::function<void(size_t)>& visit) {
    reactors[0]->post([&reactors, visit] {
        visit(0);
        for (size_t i = 1; i < reactors.size(); ++i) reactors[i]->post([visit, i] { visit(i); });
    });
}

// As visit_first_first(), but on reactor 0 after it has run on all others.
static void visit_first_last(const std::vector<reactor::Reactor*>& reactors,
                             const std::function<void(size_t)>& visit) {
    if (reactors.size() == 1) return reactors[0]->post([visit] { visit(0); });
    auto left = std::make_shared<std::atomic<size_t>>(reactors.size() - 1);
    for (size_t i = 1; i < reactors.size(); ++i)
        reactors[i]->post([&reactors, visit, left, i] {
            visit(i);
            if (left->fetch_sub(1) == 1) reactors[0]->post([visit] { visit(0); });
        });
}

// TV4.
void VolumeSet::publish_on_reactors(const RecordPtr& record, Done done) {
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    visit_first_first(reactors_, [this, record, gathering](size_t i) {
        tables_[i]->publish(*record->opens[i]);
        gathering->arrive(Status::ok());
    });
}

void VolumeSet::close_on_reactors(const RecordPtr& record, Done done, bool reopening) {
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    visit_first_last(reactors_, [this, record, gathering, reopening](size_t i) {
        record->opens[i]->reopening_ = reopening;
        tables_[i]->close(*record->opens[i], [gathering] { gathering->arrive(Status::ok()); });
    });
}

void VolumeSet::notify_reactors(const std::shared_ptr<Volume>& volume, const News& news, Done done) {
    if (tables_.empty()) return done(Status::ok());
    auto gathering = std::make_shared<Gathering>(tables_.size(), std::move(done));
    for (size_t i = 0; i < tables_.size(); ++i)
        reactors_[i]->post([this, volume, gathering, news, i] {
            // If the volume was closed meanwhile, there is nothing to change.
            OpenVolume* open = tables_[i]->find(volume->lun());
            const bool there = open != nullptr && &open->volume() == volume.get();
            // A volume that was lost after this was posted grants no access.
            if (there && news.access != nullptr)
                open->former_access_ = std::exchange(open->access_, volume->lost() ? nobody() : news.access);
            if (there && news.change == Change::kLimits) open->limiter_ = news.limiter;
            if (there) tables_[i]->notify(news.change, *open);
            if (there) open->former_access_.reset();
            auto ended = [gathering] { gathering->arrive(Status::ok()); };
            if (!there || news.writes == nullptr) return ended();
            tables_[i]->fence(*open, std::make_shared<WriteFence>(news.writes, ended));
        });
}

}  // namespace wss::volume
