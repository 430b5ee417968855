// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/log.h"

#include "lib/wire/endian.h"

namespace wss::kv::store {
namespace {

std::string to_text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append32(std::string& out, size_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// Reads a length and that many bytes. Returns false if there are fewer.
bool take(std::string_view& from, std::string& to) {
    if (from.size() < 4) return false;
    const uint32_t length = wire::get32(reinterpret_cast<const std::byte*>(from.data()));
    if (from.size() - 4 < length) return false;
    to.assign(from.substr(4, length));
    from.remove_prefix(4 + size_t{length});
    return true;
}

}  // namespace

void LogBatch::add(Change change) {
    bytes_ += change.key.size() + change.value.size() + sizeof change;
    changes_.push_back(std::move(change));
}

void LogBatch::put_version(std::string_view key, Timestamp timestamp, Bytes record) {
    add({Kind::kPutVersion, timestamp, std::string(key), to_text(record)});
}

void LogBatch::remove_version(std::string_view key, Timestamp timestamp) {
    add({Kind::kRemoveVersion, timestamp, std::string(key), {}});
}

void LogBatch::put_transaction(const LoggedTransaction& transaction) {
    add({Kind::kPutTransaction, transaction.timestamp, {}, encode_transaction(transaction)});
}

void LogBatch::put_floor(Timestamp floor) {
    add({Kind::kPutFloor, floor, {}, {}});
}

// state (1) | length, participants | held keys, each with its length
std::string encode_transaction(const LoggedTransaction& transaction) {
    std::string out(1, static_cast<char>(transaction.state));
    append32(out, transaction.participants.size());
    out += transaction.participants;
    for (const std::string& key : transaction.held) {
        append32(out, key.size());
        out += key;
    }
    return out;
}

bool parse_transaction(Timestamp timestamp, std::string_view bytes, LoggedTransaction& transaction) {
    if (bytes.empty() || bytes[0] < 1 || bytes[0] > 3) return false;
    transaction = {.timestamp = timestamp, .state = static_cast<LoggedState>(bytes[0])};
    bytes.remove_prefix(1);
    if (!take(bytes, transaction.participants)) return false;
    while (!bytes.empty())
        if (!take(bytes, transaction.held.emplace_back())) return false;
    return true;
}

}  // namespace wss::kv::store
