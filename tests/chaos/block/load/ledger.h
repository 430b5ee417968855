// SPDX-License-Identifier: Apache-2.0
// Ledger: the contents that each sector of a volume may have, given the guarantees of every command.
//
// Every change has an id. A write fills its sectors with {volume, sector, id}. A write of zeroes, a discard
// and the cut of a volume have ids whose highest bit is set. The ledger is a file mapped into memory. Its
// contents outlive the process, so a restarted client can continue.
//
//   acknowledged     only this content is allowed until the next change
//   failed, or interrupted by a kill   may have taken effect: allowed until the next acknowledged change
//   discarded        zeroes are allowed in addition to what was allowed before
//   flushed          a flush covers the changes that were acknowledged before it began
//   given up         the last flushed change and all later changes are allowed
//   cut off          only zeroes are allowed when the volume grows again
//   unsure           a command that changes the rules is in progress. The caller reports operations that
//                    overlap it as kUnknown
//
// The caller never lets a change overlap another operation of the same sectors.
// Thread-safety: none; the volume's lock guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace wss::chaos {

constexpr size_t kSectorBytes = 512;
constexpr uint64_t kZeroesBit = uint64_t{1} << 63;

struct Range {
    uint64_t first = 0, count = 0;  // sectors
    uint64_t end() const { return first + count; }
};

struct Wrong {
    uint64_t sector = 0;
    std::string text;
};

enum class Outcome : uint8_t { kAcknowledged, kStable, kDiscarded, kUnknown };

class Ledger {
  public:
    // Opens or creates the file. Returns nullopt on failure.
    static std::optional<Ledger> open(const std::string& path, uint32_t volume, uint64_t sectors);
    Ledger(Ledger&& other) noexcept;
    Ledger& operator=(Ledger&&) = delete;
    ~Ledger();

    uint32_t volume() const;
    uint64_t limit() const;  // sectors in use now
    void set_limit(uint64_t sectors);
    // Odd while the ledger is unsure. It changes whenever that state changes.
    uint64_t epoch() const;
    uint64_t sectors() const;
    void set_unsure(bool unsure);

    // Returns the id of the change. After this call, every sector of the range may have it.
    uint64_t begin_change(const Range& range, bool zeroes);
    void end_change(const Range& range, uint64_t id, Outcome outcome);
    // Returns a token for end_flush(). The flush covers the changes acknowledged before this call.
    uint64_t begin_flush() const;
    void end_flush(uint64_t token);
    // After this call, acknowledged changes that were not flushed may be undone.
    void loosen();
    void cut(const Range& range);

    void fill(uint64_t first, uint64_t id, std::span<std::byte> data) const;
    // Returns the first sector, starting with `first`, whose data is wrong, if any.
    std::optional<Wrong> check(uint64_t first, std::span<const std::byte> data);

  private:
    struct Header;
    struct Sector;
    explicit Ledger(std::span<std::byte> file) : file_(file) {}
    Header& header() const;
    Sector& sector(uint64_t number) const;
    void settle(Sector& sector) const;
    bool allows(const Sector& sector, uint64_t id) const;
    std::string describe(uint64_t number, const Sector& sector, const std::byte* found) const;

    std::span<std::byte> file_;
};

}  // namespace wss::chaos
