// SPDX-License-Identifier: Apache-2.0
// Self-describing values: the writer, the key, the keys written together, and a checksum over all of it. A
// reader in any process can recognise a torn value, another key's value, a value that was never written, and
// a part of a transaction, without relying on anything that the store reports.
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

// The shortest value that can hold a stamp with this many keys.
size_t stamp_bytes(size_t siblings);

// Writes a value of `length` bytes (at least stamp_bytes()). The rest is filled with bytes derived from the
// stamp.
void write_stamp(std::string& value, size_t length, const Writer& writer, uint64_t key,
                 std::span<const uint64_t> siblings);

enum class StampState : uint8_t {
    kGood,
    kForeign,  // no stamp: not written by write_stamp()
    kTorn,     // a stamp with a wrong checksum
};
// `stamp` keeps its memory between calls.
StampState read_stamp(std::string_view value, Stamp& stamp);

}  // namespace wss::kv::check
