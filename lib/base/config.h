// SPDX-License-Identifier: Apache-2.0
// Configuration files: one TOML file per program.
//
// A program describes its keys by rows that point into its own plain struct. read_file() parses the file,
// checks every value and fills the struct. Each error of a key names the file, line and key ("wss.toml:12:
// volume[0].size: ..."). A syntax error names the file and line. An unknown key is an error, too, because a
// misspelt limit must not be silently ignored.
//
//   ConfigSchema schema;
//   schema.text("control", config.control);
//   schema.number("reactors", config.reactors, 0, 64);
//   schema.tables("volume", [&](ConfigSchema& row) {
//       row.size("size", config.volumes.emplace_back().size);
//   });
//   WSS_TRY(schema.read_file(path));
//
// After an error the struct may be partly filled, and the caller must discard it.
// Thread-safety: none. A schema belongs to one thread and must not outlive the objects that it points to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lib/base/status.h"

namespace wss {

class ConfigSchema {
  public:
    // Describes one table of an array of tables ("[[volume]]"). The objects that its rows point to must not
    // move until the next call.
    using Describe = std::function<void(ConfigSchema& row)>;
    // A further check of one value. Its error is reported with the file, line and key.
    using Check = std::function<Status()>;

    void text(std::string key, std::string& value, Check check = {});
    void flag(std::string key, bool& value);
    void number(std::string key, uint32_t& value, uint32_t min, uint32_t max, Check check = {});
    // A number of bytes or a string like "64M".
    void size(std::string key, uint64_t& value);
    // A string or an array of strings.
    void texts(std::string key, std::vector<std::string>& values);
    void tables(std::string key, Describe describe);
    // Makes the key that was described last mandatory.
    void required();

    Status read_file(const std::string& path) const;
    Status read_text(std::string_view text, const std::string& path) const;

  private:
    friend struct ConfigWalk;
    struct Number {
        uint32_t* value;
        uint32_t min, max;
    };
    struct Size {
        uint64_t* value;
    };
    struct Row {
        std::string key;
        std::variant<std::string*, bool*, Number, Size, std::vector<std::string>*, Describe> target;
        Check check;
        bool required = false;
    };
    std::vector<Row> rows_;
};

}  // namespace wss
