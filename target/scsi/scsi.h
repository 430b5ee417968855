// SPDX-License-Identifier: Apache-2.0
// Interpretation of CDBs. Pure: no I/O, no allocation, no state except the unit attentions passed in.
//
// interpret() converts a CDB into an Action that the caller executes. Everything that can be decided without
// the volume's data is decided here: field checks, ranges, limits, write protection, conflicts with
// reservations, and the whole answer of INQUIRY and similar commands.
//
// Invariants
//  SC1  An Action that touches data lies inside the device: lba + blocks ≤ device.blocks, and blocks ×
//       block_size fits in 32 bits for every kind that moves data (kRead, kWrite, kVerify with data,
//       kCompareAndWrite).
//  SC2  At most `data_in.size()` bytes of data_in are written, and at most the CDB's allocation length.
//       Action::data_in_length is their number.
//  SC3  Each command has one row in a table (commands.h). REPORT SUPPORTED OPERATION CODES, the check for
//       reserved bits and the dispatch use the same rows.
//
// Life of a command: parse the IU, call interpret(), then proceed by the kind of the action. kRespond: send
// data_in and the status. kFail: send the status and the sense data. Others: fetch data_out_length bytes from
// the initiator, if it is not 0; execute; answer with data_in_length bytes or with sense data of
// target/scsi/sense.h. A data-out buffer of another length fails the command with sense::wrong_data_buffer().
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

// A logical unit, as input of interpret(). It is a snapshot: fill one in when the volume changes, and keep
// it.
struct Device {
    bool present = true;  // false: no such LUN; other members are not used
    std::string_view name;
    uint64_t wwid = 0;                    // 60 bits are used: NAA 3, locally assigned
    uint32_t block_size = 512;            // bytes; a power of two, 512 … 65536
    uint64_t blocks = 0;                  // 0: not ready
    uint32_t physical_block = 0;          // bytes; if it is 0 or less than block_size, block_size applies
    uint32_t max_transfer_blocks = 2048;  // for one READ, WRITE or VERIFY; × block_size < 4 GiB
    uint32_t optimal_transfer_blocks = 0;
    uint32_t max_unmap_blocks = UINT32_MAX;  // for one UNMAP: sum of all ranges
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
// A buffer of this size has room for every answer (REPORT LUNS of 2047 units). In a smaller buffer, long
// answers are truncated, as they are by the allocation length.
inline constexpr uint32_t kAnswerMax = 16384;

// max_transfer_blocks, limited so that the bytes of a transfer fit in 32 bits (SC1); 0 means no other limit.
inline uint32_t transfer_limit(const Device& device) {
    uint32_t fits = UINT32_MAX / device.block_size;
    return device.max_transfer_blocks == 0 || device.max_transfer_blocks > fits ? fits
                                                                                : device.max_transfer_blocks;
}

struct Action {
    enum class Kind : uint8_t {
        kRespond,     // data_in_length bytes of the answer are in data_in; status GOOD
        kFail,        // status and sense
        kRead,        // lba, blocks → data_in_length bytes
        kWrite,       // data_out_length bytes → lba, blocks; fua
        kFlush,       // lba, blocks (to the end of the device if the command has 0 blocks)
        kUnmap,       // data_out_length bytes of parameter list → parse_unmap_list()
        kWriteSame,   // one block of data-out (none with no_data_out: zeroes) over lba, blocks; unmap: may
                      // deallocate
        kVerify,      // lba, blocks; data_out_length > 0: compare with it, else only read
        kReserveOut,  // data_out_length bytes of parameter list → parse_reserve_out()
        kCompareAndWrite,  // data-out: `blocks` to compare, then `blocks` to write; fua; atomic
    };

    Kind kind = Kind::kFail;
    uint8_t status = wire::kCheckCondition;
    bool fua = false;
    bool unmap = false;
    bool no_data_out = false;
    uint64_t lba = 0;
    uint64_t blocks = 0;
    uint32_t data_out_length = 0;  // bytes from the initiator
    uint32_t data_in_length = 0;   // bytes to the initiator
    wire::Sense sense;             // kFail
};

// The restriction of an initiator by the persistent reservation of another.
enum class Restriction : uint8_t { kNone, kNoWrites, kNoAccess };

// Persistent reservations of the unit, and their effect on the initiator of a command.
struct Standing {
    const volume::Reservations* reservations = nullptr;  // nullptr: no registrations
    Restriction restriction = Restriction::kNone;
};

// `luns`: for REPORT LUNS. `attentions`: those of this I_T_L nexus, or nullptr. A pending attention fails the
// command and is removed, except for the commands that SPC-4 exempts.
Action interpret(Bytes cdb, const Device& device, std::span<const uint64_t> luns, UnitAttentions* attentions,
                 MutableBytes data_in, const Standing& standing = {});

// Fixed format, unless an LBA of the device needs more than the 32 bits of that format. Mode page 0A reports
// the format (D_SENSE).
inline wire::SenseFormat sense_format(const Device& device) {
    return device.present && device.blocks > uint64_t{UINT32_MAX} + 1 ? wire::SenseFormat::kDescriptor
                                                                      : wire::SenseFormat::kFixed;
}

// The checked ranges of an UNMAP parameter list: all are inside the device, there are at most
// kMaxUnmapRanges, and their sum is at most max_unmap_blocks. This is a view of the list's bytes, which must
// outlive it and must not change. Ranges of zero blocks are possible.
class UnmapList {
  public:
    uint32_t count() const { return count_; }
    wire::BlockRange range(uint32_t index) const;

  private:
    friend bool parse_unmap_list(Bytes list, const Device& device, UnmapList& out, wire::Sense& sense);
    const std::byte* raw_ = nullptr;
    uint32_t count_ = 0;
};
// Returns false if the list is refused, with the reason in `sense`.
bool parse_unmap_list(Bytes list, const Device& device, UnmapList& out, wire::Sense& sense);

}  // namespace wss::scsi
