// SPDX-License-Identifier: Apache-2.0
// usage: scale_bench life|change|recovery|salvage LINES. Measures the longest turn of the target's reactor
// while engines and volumes with LINES lines are added and removed, and the memory per line. Prints JSON
// objects, one per line, which tests/bench/scale.py collects.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/log.h"
#include "tests/bench/scale_world.h"

namespace wss::bench {
namespace {

constexpr uint64_t kDirtyLines = 100'000;
constexpr uint64_t kWarmLines = 32 * kCommandLines;
constexpr uint64_t kSalvagedLines = 20'480;
constexpr uint64_t kDiscardBytes = uint64_t{1} << 30;

void print(const char* what, uint64_t lines, double turn_ms, const char* more = "", double value = 0) {
    std::printf("{\"what\": \"%s\", \"lines\": %lu, \"turn_ms_max\": %.3f", what, lines, turn_ms);
    if (*more != '\0') std::printf(", \"%s\": %.1f", more, value);
    std::printf("}\n");
    std::fflush(stdout);
}

// Returns the bytes of `lines` lines, rounded to whole commands, at least one.
uint64_t bytes_of(uint64_t lines) {
    return std::max<uint64_t>(lines / kCommandLines, 1) * kCommandBytes;
}

class Scale {
  public:
    explicit Scale(uint64_t lines) : lines_(lines), dirty_(std::min(kDirtyLines, lines / 4)) {}

    void life();
    void recovery();
    void salvage();
    void change();

  private:
    void open(std::string membership, cache::Policy policy);
    void add_engines(uint64_t lines, bool keep);
    void warm_up();
    void join(uint32_t live);
    void fill();
    void make_dirty(uint64_t lines);
    void keep_headers(uint64_t wwid);
    void lose(BareEngine& engine);
    std::string saved_membership();

    const uint64_t lines_, dirty_;
    uint64_t identity_ = 0;  // of the last engine
    const fabric::SimNetwork network_{};
    sim::World world_{1};
    std::vector<std::unique_ptr<BareEngine>> engines_;
    std::unique_ptr<Target> target_;
};

void Scale::open(std::string membership, cache::Policy policy) {
    const uint64_t bytes = std::max(lines_ * 2 * kLineBytes, 2 * kDiscardBytes);
    target_ = std::make_unique<Target>(world_, network_, bytes, std::move(membership), policy);
}

// Adds two engines, as write-back needs.
void Scale::add_engines(uint64_t lines, bool keep) {
    engines_.clear();
    for (int i = 0; i < 2; ++i)
        engines_.push_back(std::make_unique<BareEngine>(world_, network_, ++identity_,
                                                        static_cast<uint32_t>(lines / 2), keep));
}

void Scale::join(uint32_t live) {
    for (auto& engine : engines_)
        if (engine->is_over()) engine->join();
    target_->until("the engines", [&] { return target_->live_engines() == live; });
}

// Initializes what every target needs once, regardless of its number of lines: buffers, links, commands.
void Scale::warm_up() {
    add_engines(kWarmLines, false);
    join(2);
    target_->run(false, 0, 4 * kWarmLines * kLineBytes);
    for (auto& engine : engines_) engine->leave();
    target_->until("the first engines have left", [&] { return target_->info().engines.empty(); });
}

// Writes more lines than fit in the engines, so that ghosts of evicted lines exist as well.
void Scale::fill() {
    target_->run(false, 0, bytes_of(lines_ + lines_ / 2));
}

void Scale::make_dirty(uint64_t lines) {
    target_->holds_writes = true;
    target_->run(true, 0, bytes_of(lines));
}

void Scale::lose(BareEngine& engine) {
    engine.close();
    const size_t before = target_->info().engines.size();
    target_->until("the loss", [&] { return engine.is_over() && target_->info().engines.size() < before; });
    // Includes the work that follows at the next ticks.
    const Nanoseconds end = world_.now() + from_ms(500);
    target_->until("half a second has passed", [&] { return world_.now() >= end; });
}

void Scale::life() {
    open("", cache::Policy::kBack);
    warm_up();
    const uint64_t before = resident_bytes();
    add_engines(lines_, false);
    target_->take_longest();
    join(2);
    print("join", lines_, target_->take_longest());
    fill();
    make_dirty(dirty_);
    print("memory", lines_, 0, "bytes_per_line",
          static_cast<double>(resident_bytes() - before) / static_cast<double>(lines_));
    target_->take_longest();
    for (int i = 0; i < 10; ++i) target_->scrape();
    print("metrics scrape", lines_, target_->take_longest());
    lose(*engines_[1]);
    const double one = target_->take_longest();
    lose(*engines_[0]);
    print("loss of second copies", lines_, one);
    print("loss", lines_, target_->take_longest());
    target_->holds_writes = false;
}

void Scale::change() {
    open("", cache::Policy::kThrough);
    add_engines(lines_, false);
    join(2);
    fill();
    target_->take_longest();
    target_->discard(0, kDiscardBytes);
    print("discard of 1 GiB", lines_, target_->take_longest());
    engines_[1]->leave();
    target_->until("the leave",
                   [&] { return engines_[1]->is_over() && target_->info().engines.size() == 1; });
    print("leave", lines_, target_->take_longest());
    target_->remove_volume();
    print("deletion of a volume", lines_, target_->take_longest());
}

std::string Scale::saved_membership() {
    cache::Membership saved;
    saved.storage = 7;
    saved.line_bytes = kLineBytes;
    saved.next_incarnation = 3;
    saved.engines = {{1, 1}, {2, 2}};
    saved.dirty[target_->wwid()] = {.name = "disk", .bytes = uint64_t{1} << 30};
    return saved.to_text();
}

// Every arena slot of both engines holds a line. Dirty lines are in both engines, scattered among clean ones.
// Every other clean line was filled and never written.
void Scale::keep_headers(uint64_t wwid) {
    cache::LineHeader header{.volume = wwid, .valid = {1}, .line_shift = 12};
    for (uint32_t copy = 0; copy < 2; ++copy) {
        header.incarnation = copy + 1;
        header.dirty = {};
        for (uint32_t slot = 0; slot < lines_ / 2; ++slot) {
            header.line = (uint64_t{slot} * 2 + copy) * 2 + 1;
            header.generation = slot % 2 == 0 ? 1 : slot;
            engines_[copy]->set_header(slot, header);
        }
        header.dirty = {1};
        for (uint64_t i = 0; i < dirty_; ++i) {
            header.line = i * 2;
            header.generation = i + 1;
            engines_[copy]->set_header(static_cast<uint32_t>(i * (lines_ / 2) / dirty_), header);
        }
    }
}

void Scale::recovery() {
    open("", cache::Policy::kBack);
    const std::string membership = saved_membership();
    const uint64_t wwid = target_->wwid();
    (void)target_.release();  // leaked, as it must no longer be stepped
    world_.find(kTarget)->services().clear();
    open(membership, cache::Policy::kBack);
    add_engines(lines_, true);
    keep_headers(wwid);
    target_->holds_writes = true;
    target_->take_longest();
    for (auto& engine : engines_) engine->join(7, static_cast<uint32_t>(engine->identity()));
    target_->until("recovery", [&] {
        const cache::CacheInfo info = target_->info();
        return !info.recovering && info.index.dirty_lines == dirty_;
    });
    print("recovery of dirty lines", lines_, target_->take_longest());
}

void Scale::salvage() {
    open("", cache::Policy::kBack);
    add_engines(lines_, true);
    join(2);
    const uint64_t dirty = std::min(kSalvagedLines, dirty_);
    make_dirty(dirty);
    uint32_t incarnations[2] = {engines_[0]->incarnation(), engines_[1]->incarnation()};
    const uint64_t storage = target_->cache().storage_id();
    for (auto& engine : engines_) lose(*engine);
    target_->holds_writes = false;
    target_->take_longest();
    target_->take_total();
    engines_[0]->join(storage, incarnations[0]);
    target_->until("the salvage", [&] { return engines_[0]->is_over() && target_->info().away == 0; });
    const double total = target_->take_total();
    print("salvage", lines_, target_->take_longest(), "cpu_ms", total);
}

}  // namespace
}  // namespace wss::bench

int main(int argc, char** argv) {
    const uint64_t lines = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
    auto scale = std::make_unique<wss::bench::Scale>(lines);
    (void)wss::log::set_level("error");
    if (lines >= 4 * wss::bench::kCommandLines && std::strcmp(argv[1], "life") == 0)
        scale->life();
    else if (lines > 0 && std::strcmp(argv[1], "recovery") == 0)
        scale->recovery();
    else if (lines > 0 && std::strcmp(argv[1], "salvage") == 0)
        scale->salvage();
    else if (lines > 0 && std::strcmp(argv[1], "change") == 0)
        scale->change();
    else
        return std::fprintf(stderr, "usage: scale_bench life|change|recovery|salvage LINES\n"), 2;
    std::fflush(stdout);
    std::_Exit(0);  // skips the orderly end of links and lines
}
