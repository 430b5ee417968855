// SPDX-License-Identifier: Apache-2.0
#include "tests/chaos/block/load/ledger.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace wss::chaos {

namespace {

struct Stamp {
    uint32_t volume;
    uint32_t sector;
    uint64_t id;
};
constexpr size_t kStamps = kSectorBytes / sizeof(Stamp);
using Stamps = std::array<Stamp, kStamps>;

Stamps stamps_of(uint32_t volume, uint64_t sector, uint64_t id) {
    Stamps stamps{};
    if ((id & kZeroesBit) == 0 && id != 0) stamps.fill({volume, static_cast<uint32_t>(sector), id});
    return stamps;
}

bool is_zeroes(uint64_t id) {
    return id == 0 || (id & kZeroesBit) != 0;
}
constexpr uint64_t kUndone = UINT64_MAX;
uint64_t order_of(uint64_t id) {
    return id & ~kZeroesBit;
}

}  // namespace

struct Ledger::Header {
    uint64_t volume, sectors;
    uint64_t limit;
    uint64_t next_id;
    uint64_t acknowledgements;
    uint64_t flushed;  // the first `flushed` acknowledgements are stable
    uint64_t epoch;
};

struct Ledger::Sector {
    static constexpr uint32_t kMaybe = 3;
    uint64_t acknowledged;
    uint64_t acknowledgement;  // number of the acknowledgement
    uint64_t stable;           // newest change known to be stable
    uint64_t newest;
    uint64_t maybe[kMaybe];  // changes since `acknowledged` with an unknown outcome
    uint8_t maybes;
    bool loose;   // a read may return any change from `stable` to `newest`
    bool zeroed;  // these changes may include one to zeroes
};

std::optional<Ledger> Ledger::open(const std::string& path, uint32_t volume, uint64_t sectors) {
    const size_t bytes = sizeof(Header) + sectors * sizeof(Sector);
    int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return std::nullopt;
    void* memory = MAP_FAILED;
    if (::ftruncate(fd, static_cast<off_t>(bytes)) == 0)
        memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (memory == MAP_FAILED) return std::nullopt;
    Ledger ledger({static_cast<std::byte*>(memory), bytes});
    Header& header = ledger.header();
    if (header.next_id == 0) header = {volume, sectors, sectors, 1, 0, 0, 0};
    return ledger;
}

Ledger::Ledger(Ledger&& other) noexcept : file_(std::exchange(other.file_, {})) {}

Ledger::~Ledger() {
    if (!file_.empty()) ::munmap(file_.data(), file_.size());
}

Ledger::Header& Ledger::header() const {
    return *reinterpret_cast<Header*>(file_.data());
}

Ledger::Sector& Ledger::sector(uint64_t number) const {
    return reinterpret_cast<Sector*>(file_.data() + sizeof(Header))[number];
}

uint32_t Ledger::volume() const {
    return static_cast<uint32_t>(header().volume);
}
uint64_t Ledger::limit() const {
    return header().limit;
}
void Ledger::set_limit(uint64_t sectors) {
    header().limit = std::min(sectors, header().sectors);
}
uint64_t Ledger::sectors() const {
    return header().sectors;
}
uint64_t Ledger::epoch() const {
    return header().epoch;
}

void Ledger::set_unsure(bool unsure) {
    if ((header().epoch % 2 != 0) != unsure) ++header().epoch;
}

void Ledger::settle(Sector& sector) const {
    if (sector.acknowledgement > header().flushed || sector.stable == sector.acknowledged) return;
    sector.stable = sector.acknowledged;
    if (sector.loose) return;
    sector.zeroed =
        is_zeroes(sector.acknowledged) || std::any_of(sector.maybe, sector.maybe + sector.maybes, is_zeroes);
}

uint64_t Ledger::begin_change(const Range& range, bool zeroes) {
    const uint64_t id = header().next_id++ | (zeroes ? kZeroesBit : 0);
    for (uint64_t number = range.first; number < range.end(); ++number) {
        Sector& each = sector(number);
        settle(each);
        each.zeroed |= zeroes;
        each.newest = id;
        if (each.maybes < Sector::kMaybe)
            each.maybe[each.maybes++] = id;
        else
            each.loose = true;
    }
    return id;
}

void Ledger::end_change(const Range& range, uint64_t id, Outcome outcome) {
    if (outcome == Outcome::kUnknown || outcome == Outcome::kDiscarded) return;
    const uint64_t acknowledgement = ++header().acknowledgements;
    for (uint64_t number = range.first; number < range.end(); ++number) {
        Sector& each = sector(number);
        each.acknowledged = id;
        each.acknowledgement = acknowledgement;
        each.maybes = 0;
        each.loose = false;
        if (outcome == Outcome::kStable) each.stable = id;
    }
}

uint64_t Ledger::begin_flush() const {
    return header().acknowledgements;
}

void Ledger::end_flush(uint64_t token) {
    header().flushed = std::max(header().flushed, token);
}

void Ledger::loosen() {
    for (uint64_t number = 0; number < header().sectors; ++number) {
        Sector& each = sector(number);
        settle(each);
        if (each.stable == each.acknowledged && each.maybes == 0) continue;
        each.loose = true;
        each.acknowledgement = kUndone;  // no flush covers it until the next change
    }
}

void Ledger::cut(const Range& range) {
    const uint64_t id = header().next_id++ | kZeroesBit;
    for (uint64_t number = range.first; number < std::min(range.end(), header().sectors); ++number) {
        Sector& each = sector(number);
        each = {.acknowledged = id,
                .acknowledgement = 0,
                .stable = id,
                .newest = id,
                .maybe = {},
                .maybes = 0,
                .loose = false,
                .zeroed = true};
    }
}

void Ledger::fill(uint64_t first, uint64_t id, std::span<std::byte> data) const {
    for (size_t at = 0; at < data.size(); at += kSectorBytes, ++first) {
        Stamps stamps = stamps_of(static_cast<uint32_t>(header().volume), first, id);
        std::memcpy(data.data() + at, stamps.data(), kSectorBytes);
    }
}

bool Ledger::allows(const Sector& sector, uint64_t id) const {
    auto same = [id](uint64_t other) { return is_zeroes(id) ? is_zeroes(other) : id == other; };
    if (same(sector.acknowledged)) return true;
    if (std::any_of(sector.maybe, sector.maybe + sector.maybes, same)) return true;
    if (!sector.loose) return false;
    if (is_zeroes(id)) return sector.zeroed || is_zeroes(sector.stable);
    return order_of(id) >= order_of(sector.stable) && order_of(id) <= order_of(sector.newest);
}

std::optional<Wrong> Ledger::check(uint64_t first, std::span<const std::byte> data) {
    for (size_t at = 0; at < data.size(); at += kSectorBytes, ++first) {
        Stamps found;
        std::memcpy(found.data(), data.data() + at, kSectorBytes);
        Sector& each = sector(first);
        settle(each);
        const Stamps expected = stamps_of(static_cast<uint32_t>(header().volume), first, found[0].id);
        const bool whole = std::memcmp(expected.data(), found.data(), kSectorBytes) == 0;
        if (!whole || !allows(each, found[0].id))
            return Wrong{first, describe(first, each, data.data() + at)};
    }
    return std::nullopt;
}

std::string Ledger::describe(uint64_t number, const Sector& sector, const std::byte* found) const {
    Stamps stamps;
    std::memcpy(stamps.data(), found, kSectorBytes);
    auto name = [](uint64_t id) {
        return is_zeroes(id) ? fmt::format("zeroes({})", order_of(id)) : fmt::format("{}", id);
    };
    std::string maybes;
    for (uint32_t i = 0; i < sector.maybes; ++i) maybes += " " + name(sector.maybe[i]);
    return fmt::format(
        "sector {}: found volume {} sector {} change {} (last stamp: {} {} {}); allowed in volume {}: "
        "acknowledged {}, "
        "unknown [{}], stable {}, newest {}{}",
        number, stamps[0].volume, stamps[0].sector, name(stamps[0].id), stamps.back().volume,
        stamps.back().sector, name(stamps.back().id), header().volume, name(sector.acknowledged), maybes,
        name(sector.stable), name(sector.newest), sector.loose ? ", loose" : "");
}

}  // namespace wss::chaos
