// SPDX-License-Identifier: Apache-2.0
// YCSB's hash and record names. Both must be identical to YCSB's, so that this runner can read a table that
// YCSB has loaded, and YCSB can read a table that this runner has loaded.
#pragma once

#include <cstdint>
#include <string>

namespace wss::ycsb {

// FNV-1a over the eight octets of `value`, lowest first, then Java's Math.abs of the signed result. As in
// Java, the most negative number stays negative.
uint64_t fnv_hash(uint64_t value);

// "user" and the hash (or, if `ordered`, the number itself) in at least `padding` digits.
std::string key_name(uint64_t number, uint32_t padding, bool ordered);

}  // namespace wss::ycsb
