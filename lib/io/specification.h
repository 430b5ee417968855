// SPDX-License-Identifier: Apache-2.0
// What the specification of a backend says before anything is opened. Needs no backend.
#pragma once

#include <string>
#include <string_view>

namespace wss::io {

// What is below its filters, and how many these are.
struct Unfiltered {
    std::string_view storage;
    int filters = 0;
};
Unfiltered without_filters(std::string_view specification);

// The path of what is a file or a device; empty: it is none. Without filters.
std::string_view path_of(std::string_view storage);

// To open it may take the storage from an owner that is alive, and would lose it (steal=true).
bool may_take_storage(std::string_view specification);

// Which storage it is, however that is reached.
struct StorageName {
    std::string name;  // the same for each way to a file (aio:, uring:, pool:, spawn:), and each path to it
    std::string file;  // the file as its file system knows it, also under another name; empty: none
    // Empty ones are nobody else's (ram:), or not known.
    bool is_same(const StorageName& other) const {
        return (!name.empty() && name == other.name) || (!file.empty() && file == other.file);
    }
    bool operator==(const StorageName&) const = default;
};
// Asks the file system.
StorageName storage_name(std::string_view specification);

}  // namespace wss::io
