// SPDX-License-Identifier: Apache-2.0
// Values that say who wrote them: the writer, the key, the keys written together, and a checksum over all of
// it. With such values a reader of any process can tell a torn value, another key's value, one that nobody
// wrote, and a part of a transaction - without believing anything that the store says about itself.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss::kv::check {

// One put_all of one session of one run of the checker.
struct Writer {
    uint32_t run = 0, session = 0;
    uint64_t sequence = 0;
    auto operator<=>(const Writer&) const = default;
};

struct Stamp {
    Writer writer;
    uint64_t key = 0;                // fingerprint
    std::vector<uint64_t> siblings;  // fingerprints of all keys of the transaction, this one included
};

// The shortest value that can carry a stamp of so many keys.
size_t stamp_bytes(size_t siblings);

// A value of `length` bytes (at least stamp_bytes()); what is left is filled with bytes that follow from the
// stamp.
void write_stamp(std::string& value, size_t length, const Writer& writer, uint64_t key,
                 std::span<const uint64_t> siblings);

enum class StampState : uint8_t {
    kGood,
    kForeign,  // no stamp at all: somebody else's value
    kTorn,     // a stamp whose checksum does not fit
};
// `stamp` keeps its memory from call to call.
StampState read_stamp(std::string_view value, Stamp& stamp);

}  // namespace wss::kv::check
