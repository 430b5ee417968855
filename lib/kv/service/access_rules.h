// SPDX-License-Identifier: Apache-2.0
// AccessRules: the rights of the clients of the key-value store, a list of `NAME=RIGHTS[:PREFIX]`.
//
//   RIGHTS     r, w or rw: read, write, both; none: no right; partition: inquire about transactions
//   PREFIX     of the keys; without it, every key. Printable ASCII; "%" and two hexadecimal digits stand for
//              any byte
//   NAME       of the client's secret; "*": every client that no other rule names
//
// The rights of a client are those of all its rules together. If the list is not empty, a client without a
// rule has no rights, unless there are rules for "*".
//
// Thread-safety: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/status.h"

namespace wss::kv {

class ClientRights {
  public:
    bool may_read(std::string_view key) const noexcept { return covers(reads_, key); }
    bool may_write(std::string_view key) const noexcept { return covers(writes_, key); }
    // A scan sees all keys with its prefix: one rule must cover them.
    bool may_scan(std::string_view prefix) const noexcept { return covers(reads_, prefix); }
    bool reads_all() const noexcept { return may_read({}); }
    bool writes_all() const noexcept { return may_write({}); }
    bool writes_any() const noexcept { return !writes_.empty(); }
    bool is_partition() const noexcept { return is_partition_; }
    // True if there is a key that it may read or write.
    bool is_client() const noexcept { return !reads_.empty() || !writes_.empty(); }

  private:
    friend class AccessRules;
    static bool covers(const std::vector<std::string>& prefixes, std::string_view key) noexcept {
        for (const std::string& prefix : prefixes)
            if (key.starts_with(prefix)) return true;
        return false;
    }
    std::vector<std::string> reads_, writes_;  // prefixes
    bool is_partition_ = false;
};

class AccessRules {
  public:
    static constexpr size_t kRulesMax = 4096;
    // Each request searches the rules of its client linearly.
    static constexpr size_t kRulesPerName = 64;

    static Result<AccessRules> parse(const std::vector<std::string>& words);

    bool empty() const { return words_.empty(); }
    const ClientRights& of(std::string_view name) const noexcept;
    // True if a name has the right of a partition.
    bool has_partition() const noexcept;
    const std::vector<std::string>& words() const { return words_; }  // the rules as given

  private:
    Status add(const std::string& word);

    std::vector<std::string> words_;
    std::map<std::string, ClientRights, std::less<>> names_;
    std::map<std::string, size_t, std::less<>> counts_;  // rules of each name
};

}  // namespace wss::kv
