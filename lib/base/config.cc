// SPDX-License-Identifier: Apache-2.0
// The only file that knows toml++.
#include "lib/base/config.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <sys/stat.h>

#include <toml++/toml.h>
#include <algorithm>
#include <fstream>
#include <sstream>

#include "lib/base/size.h"
#include "lib/base/suggest.h"

namespace wss {

// Larger files are not configurations of ours; a device file would never end.
constexpr size_t kFileMax = 4 << 20;

void ConfigSchema::text(std::string key, std::string& value, Check check) {
    rows_.push_back({std::move(key), &value, std::move(check)});
}
void ConfigSchema::flag(std::string key, bool& value) {
    rows_.push_back({std::move(key), &value, {}});
}
void ConfigSchema::number(std::string key, uint32_t& value, uint32_t min, uint32_t max, Check check) {
    rows_.push_back({std::move(key), Number{&value, min, max}, std::move(check)});
}
void ConfigSchema::size(std::string key, uint64_t& value) {
    rows_.push_back({std::move(key), Size{&value}, {}});
}
void ConfigSchema::texts(std::string key, std::vector<std::string>& values) {
    rows_.push_back({std::move(key), &values, {}});
}
void ConfigSchema::tables(std::string key, Describe describe) {
    rows_.push_back({std::move(key), std::move(describe), {}});
}
void ConfigSchema::required() {
    rows_.back().required = true;
}

// One descent through a document, side by side with its schema.
struct ConfigWalk {
    const std::string& path;

    Status error(const toml::node& where, const std::string& key, std::string_view what) const {
        return failure(Code::kInvalid, "{}:{}: {}: {}", path, where.source().begin.line, key, what);
    }

    Status table(const ConfigSchema& schema, const toml::table& table, const std::string& prefix) const {
        for (auto&& [key, node] : table) WSS_TRY(known(schema, std::string(key.str()), node, prefix));
        for (const auto& row : schema.rows_) {
            const toml::node* node = table.get(row.key);
            if (node == nullptr && row.required) return error(table, prefix + row.key, "is missing");
            if (node == nullptr) continue;
            WSS_TRY(value(row, *node, prefix + row.key));
            if (!row.check) continue;
            if (Status checked = row.check(); !checked)
                return error(*node, prefix + row.key, checked.to_string());
        }
        return Status::ok();
    }

    Status known(const ConfigSchema& schema, const std::string& key, const toml::node& node,
                 const std::string& prefix) const {
        std::vector<std::string_view> keys;
        for (const auto& row : schema.rows_) keys.push_back(row.key);
        if (std::find(keys.begin(), keys.end(), key) != keys.end()) return Status::ok();
        return error(node, prefix + key, "unknown key" + suggestion(key, keys));
    }

    Status value(const ConfigSchema::Row& row, const toml::node& node, const std::string& key) const {
        return std::visit([&](const auto& target) { return store(target, node, key); }, row.target);
    }

    Status store(std::string* target, const toml::node& node, const std::string& key) const {
        if (!node.is_string()) return error(node, key, "must be a text in quotes");
        *target = node.as_string()->get();
        return Status::ok();
    }
    Status store(bool* target, const toml::node& node, const std::string& key) const {
        if (!node.is_boolean()) return error(node, key, "must be true or false");
        *target = node.as_boolean()->get();
        return Status::ok();
    }
    Status store(const ConfigSchema::Number& target, const toml::node& node, const std::string& key) const {
        int64_t number = node.is_integer() ? node.as_integer()->get() : -1;
        if (number < target.min || number > target.max)
            return error(node, key, fmt::format("must be a number from {} to {}", target.min, target.max));
        *target.value = static_cast<uint32_t>(number);
        return Status::ok();
    }
    Status store(const ConfigSchema::Size& target, const toml::node& node, const std::string& key) const {
        if (node.is_integer() && node.as_integer()->get() >= 0) {
            *target.value = static_cast<uint64_t>(node.as_integer()->get());
            return Status::ok();
        }
        if (!node.is_string()) return error(node, key, "must be a number of bytes or a text like \"64M\"");
        auto parsed = parse_size(node.as_string()->get());
        if (!parsed) return error(node, key, parsed.status().to_string());
        *target.value = *parsed;
        return Status::ok();
    }
    Status store(std::vector<std::string>* target, const toml::node& node, const std::string& key) const {
        if (node.is_string()) {
            *target = {node.as_string()->get()};
            return Status::ok();
        }
        if (!node.is_array()) return error(node, key, "must be a text or an array of texts");
        target->clear();
        for (const toml::node& item : *node.as_array()) {
            if (!item.is_string()) return error(item, key, "must be a text or an array of texts");
            target->push_back(item.as_string()->get());
        }
        return Status::ok();
    }
    Status store(const ConfigSchema::Describe& target, const toml::node& node, const std::string& key) const {
        if (!node.is_array_of_tables() && !(node.is_array() && node.as_array()->empty()))
            return error(node, key, fmt::format("must be a list of tables: write [[{}]]", key));
        size_t index = 0;
        for (const toml::node& item : *node.as_array()) {
            ConfigSchema row;
            target(row);
            WSS_TRY(table(row, *item.as_table(), fmt::format("{}[{}].", key, index++)));
        }
        return Status::ok();
    }
};

Status ConfigSchema::read_text(std::string_view text, const std::string& path) const {
    toml::parse_result parsed = toml::parse(text, path);
    if (!parsed)
        return failure(Code::kInvalid, "{}:{}: {}", path, parsed.error().source().begin.line,
                       parsed.error().description());
    return ConfigWalk{path}.table(*this, parsed.table(), "");
}

Status ConfigSchema::read_file(const std::string& path) const {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return Status::from_errno(errno, fmt::format("cannot read {}", path));
    if (S_ISDIR(info.st_mode)) return Status::from_errno(EISDIR, fmt::format("cannot read {}", path));
    std::ifstream file(path, std::ios::binary);
    if (!file) return Status::from_errno(errno, fmt::format("cannot read {}", path));
    std::string text(kFileMax + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    if (text.size() > kFileMax) return failure(Code::kInvalid, "{} is larger than {} bytes", path, kFileMax);
    return read_text(text, path);
}

}  // namespace wss
