// SPDX-License-Identifier: Apache-2.0
// The meaning of a CDB for a volume. Pure: no I/O, no allocation, no state but the unit attentions passed in.
//
// interpret() turns the bytes of a command into an Action that the caller carries out. Everything that can be
// decided without the volume's data is decided here: field checks, ranges, limits, write protection,
// conflicts with reservations, and the whole answer of INQUIRY and similar commands.
//
// Invariants
//  SC1  An Action that touches data lies inside the device: lba + blocks ≤ device.blocks, and blocks ×
//       block_size fits in 32 bits for every kind that moves data (kRead, kWrite, kVerify with data,
//       kCompareAndWrite).
//  SC2  At most `data_in.size()` bytes of data_in are written, never more than the CDB's allocation length;
//       Action::data_in_length is their number.
//  SC3  One row of a table per command (commands.h): REPORT SUPPORTED OPERATION CODES and the check for
//       reserved bits read the same rows as the dispatch does.
//
// Life of a command: parse IU → interpret() → kRespond: send data_in and status; kFail: send status and
// sense; others: fetch data_out_length bytes from the initiator when > 0 (a data-out buffer of any other
// length fails the command with sense::wrong_data_buffer()), carry it out, answer data_in_length bytes, or a
// sense from target/scsi/sense.h.
//
// Thread-safety: pure functions; a UnitAttentions belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "lib/wire/scsi.h"
#include "target/scsi/sense.h"
#include "target/scsi/unit_attention.h"

namespace wss::volume {
struct Reservations;
}

namespace wss::scsi {

using wire::Bytes;
using wire::MutableBytes;

// A logical unit as commands see it. A snapshot: fill one when the volume changes and keep it.
struct Device {
    bool present = true;  // false: no such LUN; nothing else is looked at
    std::string_view name;
    uint64_t wwid = 0;                    // 60 bits count: NAA 3, locally assigned
    uint32_t block_size = 512;            // bytes; a power of two, 512 … 65536
    uint64_t blocks = 0;                  // 0: not ready
    uint32_t physical_block = 0;          // bytes; 0 or below block_size: block_size
    uint32_t max_transfer_blocks = 2048;  // of one READ, WRITE or VERIFY; × block_size < 4 GiB
    uint32_t optimal_transfer_blocks = 0;
    uint32_t max_unmap_blocks = UINT32_MAX;  // of one UNMAP, all ranges together
    uint32_t unmap_granularity_blocks = 1;
    uint64_t max_write_same_blocks = UINT32_MAX;  // 0: any number
    uint8_t max_compare_blocks = 16;
    uint16_t relative_port = 1;
    bool read_only = false;
    bool volatile_cache = false;  // WCE: writes are stable only after a flush or with FUA
    bool discard = false;         // UNMAP, and WRITE SAME with UNMAP
    bool unmapped_reads_zero = false;
    bool rotational = false;
    bool reservations_persist = false;  // APTPL is possible
};

inline constexpr uint64_t kWwidMask = (uint64_t{1} << 60) - 1;
inline constexpr uint32_t kMaxUnmapRanges = 256;
// Room for every answer (REPORT LUNS of 2047 units). With less, long answers are cut as the standard's
// allocation length would cut them.
inline constexpr uint32_t kAnswerMax = 16384;

// What max_transfer_blocks comes to: never so much that a transfer's bytes pass 32 bits (SC1). 0 means no
// wish.
inline uint32_t transfer_limit(const Device& device) {
    uint32_t fits = UINT32_MAX / device.block_size;
    return device.max_transfer_blocks == 0 || device.max_transfer_blocks > fits ? fits
                                                                                : device.max_transfer_blocks;
}

struct Action {
    enum class Kind : uint8_t {
        kRespond,     // data_in_length bytes of answer are in data_in; status GOOD
        kFail,        // status and sense
        kRead,        // lba, blocks → data_in_length bytes
        kWrite,       // data_out_length bytes → lba, blocks; fua
        kFlush,       // lba, blocks (reaches to the end when the command said so)
        kUnmap,       // data_out_length bytes of parameter list → parse_unmap_list()
        kWriteSame,   // one block of data-out (none with no_data_out: zeroes) over lba, blocks; unmap: may
                      // deallocate
        kVerify,      // lba, blocks; data_out_length > 0: compare with it, else only read
        kReserveOut,  // data_out_length bytes of parameter list → parse_reserve_out()
        kCompareAndWrite,  // data-out: `blocks` to compare, then `blocks` to write; fua; one atomic step
    };

    Kind kind = Kind::kFail;
    uint8_t status = wire::kCheckCondition;
    bool fua = false;
    bool unmap = false;
    bool no_data_out = false;
    uint64_t lba = 0;
    uint64_t blocks = 0;
    uint32_t data_out_length = 0;  // what the command takes
    uint32_t data_in_length = 0;   // what the command gives
    wire::Sense sense;             // kFail
};

// What the persistent reservation of others forbids an initiator.
enum class Restriction : uint8_t { kNone, kNoWrites, kNoAccess };

// What persistent reservations mean for the initiator of a command.
struct Standing {
    const volume::Reservations* reservations = nullptr;  // nullptr: nobody is registered
    Restriction restriction = Restriction::kNone;
};

// `luns`: the numbers that REPORT LUNS shows. `attentions`: those of this I_T_L nexus; null: there are none.
// A pending one fails the command (and is gone), except where SPC-4 says that it does not.
Action interpret(Bytes cdb, const Device& device, std::span<const uint64_t> luns, UnitAttentions* attentions,
                 MutableBytes data_in, const Standing& standing = {});

// Fixed, unless an LBA of the device needs more than the 32 bits that fixed sense has for it. MODE SENSE page
// 0A says the same (D_SENSE).
inline wire::SenseFormat sense_format(const Device& device) {
    return device.present && device.blocks > uint64_t{UINT32_MAX} + 1 ? wire::SenseFormat::kDescriptor
                                                                      : wire::SenseFormat::kFixed;
}

// The ranges of an UNMAP parameter list, all checked: inside the device, ≤ kMaxUnmapRanges, sum ≤
// max_unmap_blocks. A view of the list's bytes, which must stay and must not change. Ranges of zero blocks
// are possible.
class UnmapList {
  public:
    uint32_t count() const { return count_; }
    wire::BlockRange range(uint32_t index) const;

  private:
    friend bool parse_unmap_list(Bytes list, const Device& device, UnmapList& out, wire::Sense& sense);
    const std::byte* raw_ = nullptr;
    uint32_t count_ = 0;
};
// False: `sense` says why.
bool parse_unmap_list(Bytes list, const Device& device, UnmapList& out, wire::Sense& sense);

}  // namespace wss::scsi
