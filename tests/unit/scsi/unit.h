// SPDX-License-Identifier: Apache-2.0
// A logical unit for tests: they run a CDB given in hexadecimal and check the Action and its data.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "target/scsi/scsi.h"
#include "tests/unit/wire/hex.h"

namespace wss::scsi {

using Kind = Action::Kind;
using wire::AdditionalSense;
using wire::from_hex;
using wire::SenseKey;
using wire::spaced;
using wire::to_hex;

// 1 GiB of 512-byte blocks on 4 KiB sectors, thin, with a volatile cache.
inline Device example_device() {
    return {.name = "data",
            .wwid = 0x123456789abcdef,
            .block_size = 512,
            .blocks = 0x200000,
            .physical_block = 4096,
            .max_transfer_blocks = 2048,
            .optimal_transfer_blocks = 256,
            .max_unmap_blocks = 0x100000,
            .unmap_granularity_blocks = 8,
            .max_write_same_blocks = 0x100000,
            .volatile_cache = true,
            .discard = true,
            .unmapped_reads_zero = true};
}

struct Unit {
    Device device = example_device();
    std::vector<uint64_t> luns = {0, 1, 300};
    UnitAttentions attentions;
    std::vector<std::byte> data_in = std::vector<std::byte>(kAnswerMax);

    // Pads CDBs shorter than 16 bytes, as SRP does.
    Action run(wire::Bytes cdb) {
        std::vector<std::byte> padded(cdb.begin(), cdb.end());
        if (padded.size() < 16) padded.resize(16);
        return interpret(padded, device, luns, &attentions, data_in);
    }
    Action run(std::string_view cdb_hex) { return run(from_hex(cdb_hex)); }

    wire::Bytes answer(const Action& action) const {
        return wire::Bytes(data_in).first(action.data_in_length);
    }
    // Returns the data of a command that must succeed, or else "failed".
    std::string answer(std::string_view cdb_hex) {
        Action action = run(cdb_hex);
        return action.kind == Kind::kRespond && action.status == wire::kGood ? to_hex(answer(action))
                                                                             : "failed";
    }
};

// Returns "05/24/00 @1.4": key, code and the field pointer. Returns "" for an action that is not a failure.
inline std::string sense_of(const Action& action) {
    if (action.kind != Kind::kFail) return "";
    if (action.status != wire::kCheckCondition) return "status without sense";
    char text[64];
    const wire::Sense& sense = action.sense;
    int length = std::snprintf(text, sizeof(text), "%02x/%02x/%02x", unsigned(sense.key),
                               wire::asc(sense.code), wire::ascq(sense.code));
    std::string result(text, size_t(length));
    if (sense.field.valid)
        result += (sense.field.in_cdb ? " @" : " list@") + std::to_string(sense.field.byte);
    if (sense.field.valid && sense.field.bit >= 0) result += "." + std::to_string(sense.field.bit);
    if (sense.has_information) result += " lba " + std::to_string(sense.information);
    return result;
}

}  // namespace wss::scsi
