// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/block/load/volume_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace wss::chaos {

namespace {

using std::chrono::steady_clock;
constexpr int kThreads = 5;
constexpr auto kAfterError = std::chrono::milliseconds(10);
constexpr auto kPause = std::chrono::microseconds(2000);
constexpr size_t kEventsShown = 60;
constexpr auto kNextDraw = std::chrono::microseconds(20);

uint64_t below(std::mt19937_64& random, uint64_t limit) {
    return limit == 0 ? 0 : random() % limit;
}

}  // namespace

VolumeLoad::VolumeLoad(Client& client, std::string name, Ledger ledger, uint64_t seed)
    : client_(client),
      name_(std::move(name)),
      ledger_(std::move(ledger)),
      busy_(ledger_.sectors()),
      limit_(ledger_.limit()) {
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this, seed, i] { run(seed * kThreads + i); });
}

VolumeLoad::~VolumeLoad() {
    stop();
    for (std::thread& thread : threads_) thread.join();
}

void VolumeLoad::set_limit(uint64_t sectors) {
    std::lock_guard lock(m_);
    ledger_.set_limit(sectors);
    client_.history->note(ledger_.volume(), "limit", {sectors, UINT32_MAX});
    limit_ = ledger_.limit();
}

void VolumeLoad::set_unsure(bool unsure) {
    std::lock_guard lock(m_);
    ledger_.set_unsure(unsure);
    client_.history->note(ledger_.volume(), unsure ? "unsure" : "sure", {0, UINT32_MAX});
}

void VolumeLoad::loosen() {
    std::lock_guard lock(m_);
    ledger_.loosen();
    client_.history->note(ledger_.volume(), "loosen", {0, UINT32_MAX});
}

// Operations in flight beyond the cut may still write there.
void VolumeLoad::cut(uint64_t sectors, bool certain) {
    std::lock_guard lock(m_);
    client_.history->note(ledger_.volume(), certain ? "cut" : "maybe cut", {sectors, UINT32_MAX});
    for (uint64_t first = sectors; first < busy_.size();) {
        uint64_t end = first;
        while (end < busy_.size() && busy_[end] == busy_[first]) ++end;
        if (busy_[first] || !certain)
            ledger_.begin_change({first, end - first}, true);
        else
            ledger_.cut({first, end - first});
        first = end;
    }
}

VolumeLoad::Handle VolumeLoad::handle() {
    std::lock_guard lock(open_m_);
    if (handle_) return handle_;
    wss_volume* opened = nullptr;
    if (wss_open(client_.session, name_.c_str(), &opened) == 0)
        handle_ = Handle(opened, [](wss_volume* volume) { wss_close(volume); });
    return handle_;
}

// Drops the handle of a volume that was deleted. The next operation then opens the volume that has the name
// at that time.
void VolumeLoad::give_back(const Handle& used, int error) {
    wss_info info{};
    if (error == 0 || wss_get_info(used.get(), &info) != 0 || (info.flags & WSS_GONE) == 0) return;
    std::lock_guard lock(open_m_);
    if (handle_ == used) handle_.reset();
}

VolumeLoad::Operation VolumeLoad::draw(std::mt19937_64& random) const {
    const uint64_t kind = below(random, 1000);
    Operation operation{.kind = kind < 420   ? Kind::kWrite
                                : kind < 450 ? Kind::kStableWrite
                                : kind < 480 ? Kind::kZeroes
                                : kind < 505 ? Kind::kDiscard
                                : kind < 515 ? Kind::kFlush
                                             : Kind::kRead,
                        .range = {}};
    constexpr uint64_t kLengths[] = {1, 1, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 32, 64, 128, 512};
    uint64_t length = kLengths[below(random, std::size(kLengths))];
    const bool zeroes = operation.kind == Kind::kZeroes || operation.kind == Kind::kDiscard;
    if (zeroes && below(random, 4) == 0) length = kStripeSectors;
    const uint64_t step = std::min<uint64_t>(length, 8);
    const uint64_t stripe =
        client_.number + below(random, limit_ / kStripeSectors / client_.count) * client_.count;
    operation.range = {stripe * kStripeSectors + below(random, (kStripeSectors - length) / step + 1) * step,
                       length};
    return operation;
}

const char* VolumeLoad::name_of(Kind kind) {
    constexpr const char* kNames[] = {"read", "write", "write FUA", "zeroes", "discard", "flush"};
    return kNames[static_cast<size_t>(kind)];
}

// Returns false if the range is beyond the limit or another operation uses it.
bool VolumeLoad::begin(Operation& operation) {
    std::lock_guard lock(m_);
    operation.epoch = ledger_.epoch();
    const Range& range = operation.range;
    if (operation.kind == Kind::kFlush) {
        operation.token = ledger_.begin_flush();
        operation.event = client_.history->begin(ledger_.volume(), "flush", {0, UINT32_MAX}, operation.token);
        return true;
    }
    if (range.end() > ledger_.limit()) return false;
    for (uint64_t each = range.first; each < range.end(); ++each)
        if (busy_[each]) return false;
    for (uint64_t each = range.first; each < range.end(); ++each) busy_[each] = true;
    const bool zeroes = operation.kind == Kind::kZeroes || operation.kind == Kind::kDiscard;
    if (operation.kind != Kind::kRead) operation.token = ledger_.begin_change(range, zeroes);
    operation.event =
        client_.history->begin(ledger_.volume(), name_of(operation.kind), range, operation.token);
    return true;
}

int VolumeLoad::perform(wss_volume* volume, const Operation& operation, std::span<std::byte> buffer) {
    const uint64_t offset = operation.range.first * kSectorBytes;
    const size_t length = operation.range.count * kSectorBytes;
    switch (operation.kind) {
        case Kind::kRead:
            return wss_read(volume, buffer.data(), length, offset);
        case Kind::kWrite:
        case Kind::kStableWrite:
            ledger_.fill(operation.range.first, operation.token, buffer.first(length));
            return wss_write(volume, buffer.data(), length, offset,
                             operation.kind == Kind::kWrite ? 0 : WSS_FUA);
        case Kind::kZeroes:
            return wss_write_zeroes(volume, length, offset, operation.token % 2 == 0 ? WSS_NO_UNMAP : 0);
        case Kind::kDiscard:
            return wss_discard(volume, length, offset);
        case Kind::kFlush:
            return wss_flush(volume);
    }
    return -EINVAL;
}

void VolumeLoad::count(Kind kind, int result) {
    Counters& counters = client_.counters;
    if (result == -ETIMEDOUT) ++counters.timeouts;
    if (result != 0) {
        ++counters.errors;
        return;
    }
    ++(kind == Kind::kRead      ? counters.reads
       : kind == Kind::kFlush   ? counters.flushes
       : kind == Kind::kZeroes  ? counters.zeroes
       : kind == Kind::kDiscard ? counters.discards
                                : counters.writes);
}

void VolumeLoad::end(const Operation& operation, int result, std::span<const std::byte> data) {
    std::lock_guard lock(m_);
    client_.history->end(operation.event, result);
    const Range& range = operation.range;
    const bool sure = result == 0 && operation.epoch % 2 == 0 && operation.epoch == ledger_.epoch();
    if (operation.kind == Kind::kFlush) {
        if (sure) ledger_.end_flush(operation.token);
        return;
    }
    for (uint64_t each = range.first; each < range.end(); ++each) busy_[each] = false;
    if (operation.kind == Kind::kRead) {
        if (result != 0) return;
        if (auto wrong = ledger_.check(range.first, data.first(range.count * kSectorBytes)))
            report(operation, *wrong);
        return;
    }
    const Outcome outcome = !sure                                  ? Outcome::kUnknown
                            : operation.kind == Kind::kDiscard     ? Outcome::kDiscarded
                            : operation.kind == Kind::kStableWrite ? Outcome::kStable
                                                                   : Outcome::kAcknowledged;
    ledger_.end_change(range, operation.token, outcome);
}

void VolumeLoad::report(const Operation& operation, const Wrong& wrong) {
    client_.wrong(name_, fmt::format("{} (read of {} sectors from {}); operations of this sector:\n{}",
                                     wrong.text, operation.range.count, operation.range.first,
                                     client_.history->about(ledger_.volume(), wrong.sector, kEventsShown)));
    std::abort();  // not reached
}

void VolumeLoad::run(uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> own(kTransferSectors * kSectorBytes);
    while (!stopping_) {
        ++active_;
        Operation operation = draw(random);
        Handle volume = client_.paused ? nullptr : handle();
        // While the volume was being opened, it may have been deleted, and another volume created with its
        // name.
        if (!volume || stopping_ || !begin(operation)) {
            --active_;
            std::this_thread::sleep_for(volume ? kNextDraw : kPause);
            continue;
        }
        const auto started = steady_clock::now();
        const int result = perform(volume.get(), operation, own);
        const auto took =
            std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - started);
        end(operation, result, own);
        count(operation.kind, result);
        if (static_cast<uint64_t>(took.count()) > client_.counters.slowest_ms)
            client_.counters.slowest_ms = static_cast<uint64_t>(took.count());
        give_back(volume, result);
        volume.reset();
        --active_;
        if (result != 0) std::this_thread::sleep_for(kAfterError);
    }
}

std::string VolumeLoad::verify(steady_clock::time_point deadline) {
    std::vector<std::byte> data(kTransferSectors * kSectorBytes);
    std::string error = "operations did not end";
    auto retry = [&](const Operation& wanted) {
        for (; steady_clock::now() < deadline; std::this_thread::sleep_for(kAfterError)) {
            Operation operation = wanted;
            Handle volume = handle();
            if (!volume || !begin(operation)) {
                if (!volume) error = fmt::format("it cannot be opened: {}", wss_error());
                continue;
            }
            const int result = perform(volume.get(), operation, data);
            if (result != 0)
                error = fmt::format("sectors {} to {}: {} ({})", wanted.range.first, wanted.range.end(),
                                    wss_error(), result);
            end(operation, result, data);
            count(operation.kind, result);
            give_back(volume, result);
            if (result == 0) return true;
        }
        return false;
    };
    while (active_ > 0 && steady_clock::now() < deadline) std::this_thread::sleep_for(kPause);
    if (active_ > 0) return error;
    uint64_t limit = 0;
    {
        std::lock_guard lock(m_);
        limit = ledger_.limit();
    }
    for (uint64_t at = 0; at < limit; at += kTransferSectors) {
        if (at / kStripeSectors % client_.count != client_.number) continue;
        if (!retry({.kind = Kind::kRead, .range = {at, std::min(kTransferSectors, limit - at)}}))
            return error;
    }
    return retry({.kind = Kind::kFlush, .range = {}}) ? "" : "flush: " + error;
}

}  // namespace wss::chaos
