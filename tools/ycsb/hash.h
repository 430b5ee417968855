// SPDX-License-Identifier: Apache-2.0
// YCSB's hash and the names of its records. Both must be exactly YCSB's: a table loaded by one runner is read
// by another.
#pragma once

#include <cstdint>
#include <string>

namespace wss::kv::ycsb {

// FNV-1a over the eight octets of `value`, the lowest first, and then Java's Math.abs of the result as a
// signed number (which leaves the most negative one negative; it is returned as it is).
uint64_t fnv_hash(uint64_t value);

// "user" and the hash (or, ordered, the number itself) in at least `padding` digits.
std::string key_name(uint64_t number, uint32_t padding, bool ordered);

}  // namespace wss::kv::ycsb
