// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "target/cache/destage_job.h"

namespace wss::cache {

Destager::Runs::Runs(Destager& destager, size_t jobs) : destager_(destager), jobs_(destager.jobs_) {
    while (runs_.size() < jobs) {
        runs_.push_back(std::make_unique<Run>());
        runs_.back()->owner = this;
    }
}

Destager::Runs::~Runs() {
    for (const auto& run : runs_) destager_.reactor_.cancel(run->patience);
}

// Finds `wanted` adjacent free numbers, or the longest such range. Returns the first number; `found` is the
// length, at least one.
uint32_t Destager::Runs::free_numbers(uint32_t wanted, uint32_t& found) const noexcept {
    uint32_t best = 0;
    found = 0;
    for (uint32_t i = 0, length = 0; i < jobs_.size() && found < wanted; ++i) {
        length = jobs_[i]->busy ? 0 : length + 1;
        if (length <= found) continue;
        found = length;
        best = i + 1 - length;
    }
    return best;
}

void Destager::Runs::begin(CachedVolume& volume, std::span<Line* const> lines) noexcept {
    const auto unused =
        std::find_if(runs_.begin(), runs_.end(), [](const auto& one) { return one->fetching == 0; });
    Run* const run = unused == runs_.end() ? nullptr : unused->get();
    uint32_t count = 0;
    const uint32_t first = free_numbers(run == nullptr ? 1 : static_cast<uint32_t>(lines.size()), count);
    if (run != nullptr) {
        run->first = first;
        run->count = count;
        run->fetching = count + 1;
        if (count > 1) destager_.reactor_.set(run->patience, destager_.reactor_.now() + kPatience);
    }
    for (uint32_t i = 0; i < count; ++i) {
        Job& job = *jobs_[first + i];
        if (job.busy) {  // an earlier job ended at once, and this one was reused for another line
            if (run != nullptr) --run->fetching;
            continue;
        }
        job.salvage = false;
        job.again = volume.planner->retries();
        job.run = run;
        destager_.begin_job(job, volume, *lines[i], Access::kShared);
    }
    if (run != nullptr && --run->fetching == 0) store(*run);
}

void Destager::Runs::leave(Job& job) noexcept {
    if (job.run != nullptr) --std::exchange(job.run, nullptr)->fetching;
}

void Destager::Runs::fetched(Job& job) noexcept {
    if (job.run == nullptr) return destager_.go_on(job);
    if (--job.run->fetching == 0) store(*job.run);
}

// kPatience has expired: stores the lines that are fetched. The other jobs continue alone.
void Destager::Runs::part(Run& run) noexcept {
    for (uint32_t i = 0; i < run.count; ++i) {
        Job& job = *jobs_[run.first + i];
        if (job.run == &run && job.outstanding > 0) leave(job);
    }
    store(run);
}

// Requires that each line of the run is fetched or that its fetch failed.
void Destager::Runs::store(Run& run) noexcept {
    destager_.reactor_.cancel(run.patience);
    // A job that ends may be reused at once, even within this loop, and then belongs to another run.
    run.fetching = 1;
    for (uint32_t i = 0; i < run.count;) {
        Job& job = *jobs_[run.first + i];
        if (job.run != &run) {
            ++i;
            continue;
        }
        const uint32_t count = neighbours(job, &run, run.count - i);
        for (uint32_t k = 0; k < count; ++k) jobs_[run.first + i + k]->run = nullptr;
        i += count;
        count > 1 ? store_together(job, count) : destager_.go_on(job);
    }
    run.fetching = 0;
}

// Number of jobs of the run, starting with this one, whose data is contiguous in storage.
uint32_t Destager::Runs::neighbours(const Job& job, const Run* run, uint32_t most) const noexcept {
    const uint64_t size = job.volume->open->volume().size();
    const SubBlocks all = destager_.geometry_.all();
    const auto may = [&](const Job& one) {
        const uint64_t end = destager_.geometry_.start_of(one.key.line) + destager_.geometry_.line_bytes();
        return one.run == run && !one.failed && !one.staging && one.left.first_run() == one.left &&
               end <= size;
    };
    const auto has = [&](const Job& one, uint32_t sub_block) {
        return (one.left.bits >> sub_block & 1) != 0;
    };
    if (!may(job)) return 1;
    uint32_t count = 1;
    for (; count < most; ++count) {
        const Job &before = *jobs_[job.number + count - 1], &next = *jobs_[job.number + count];
        if (!may(next) || next.key.line != before.key.line + 1 || next.volume != job.volume) break;
        if (!has(before, all.count() - 1) || !has(next, 0)) break;
    }
    return count;
}

void Destager::Runs::store_together(Job& job, uint32_t count) noexcept {
    uint64_t length = 0;
    for (uint32_t i = 0; i < count; ++i) {
        Job& one = *jobs_[job.number + i];
        one.phase = Job::Phase::kStore;
        length += uint64_t{one.left.count()} * kSubBlockBytes;
    }
    job.merged = count;
    const uint64_t begin = uint64_t{job.left.first()} * kSubBlockBytes;
    job.io.op = io::Op::kWrite;
    job.io.fua = false;
    job.io.offset = destager_.geometry_.start_of(job.key.line) + begin;
    job.io.length = length;
    job.io.data = job.buffer + begin;
    job.io.done = stored;
    job.io.context = &job;
    job.volume->open->queue().submit(job.io);
}

// If storage fails, each line is stored alone, because the fault may concern only one of them. If storage did
// not answer in time, the lines stay dirty, because each would wait as long again.
void Destager::Runs::stored(io::Request& io) noexcept {
    Job& first = *static_cast<Job*>(io.context);
    Destager& destager = *first.owner;
    const bool good = io.error == 0, over = !good && first.silent;
    const int error = io.error;
    const uint32_t number = first.number, count = first.merged;
    for (uint32_t i = 0; i < count; ++i) {
        Job& job = *destager.jobs_[number + i];
        if (good) destager.count_stored(job, uint64_t{job.left.count()} * kSubBlockBytes);
        if (good) job.left = {};
        over ? destager.done(job, error) : destager.step(job);
    }
}

}  // namespace wss::cache
