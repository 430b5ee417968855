// SPDX-License-Identifier: Apache-2.0
// Java's property files, the format of YCSB's workloads. A line is `key=value`, `key: value` or `key value`.
// Comments start with # or !. A backslash at the end of a line continues it. The escapes are \t \n \r \f
// \uXXXX and \<any>.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace wss::ycsb {

class Properties {
  public:
    // Adds the properties in the text. Later values replace earlier ones. `name` is for error messages.
    Status read_text(std::string_view text, const std::string& name);
    Status read_file(const std::string& path);
    // `assignment`: "key=value", as after `-p`.
    Status set(std::string_view assignment);
    void set(const std::string& key, std::string value) { values_[key] = std::move(value); }

    bool has(const std::string& key) const { return values_.contains(key); }
    std::string text(const std::string& key, const std::string& otherwise) const;
    Result<uint64_t> number(const std::string& key, uint64_t otherwise) const;
    Result<double> real(const std::string& key, double otherwise) const;
    Result<bool> flag(const std::string& key, bool otherwise) const;
    const std::map<std::string, std::string>& all() const { return values_; }

  private:
    std::map<std::string, std::string> values_;
};

}  // namespace wss::ycsb
