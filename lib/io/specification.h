// SPDX-License-Identifier: Apache-2.0
// Facts about the storage that a specification names, found without opening a backend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace wss::io {

// The specification below the filters, and the number of filters.
struct Unfiltered {
    std::string_view storage;
    int filters = 0;
};
Unfiltered without_filters(std::string_view specification);

// The backends of files and devices. If one were missing, two volumes on one file would not be recognized as
// the same storage, and path_of() would find no path.
inline constexpr std::string_view kFilePrefixes[] = {"aio:", "uring:", "pool:", "spawn:"};

// Returns the path of a file or device. It is empty if the storage is neither. `storage` has no filters.
std::string_view path_of(std::string_view storage);

// True if the storage has one owner at a time. Opening takes it from a dead owner, and with steal=true also
// from a live one.
bool has_owner(std::string_view specification);

// The identity of a storage, however it is accessed.
struct StorageName {
    std::string name;  // the same for each backend (aio:, uring:, pool:, spawn:) and path of a file
    std::string file;  // the file's identity in its file system, even under other names; empty: no file
    // Empty names never match: the storage is private (ram:) or unknown.
    bool is_same(const StorageName& other) const {
        return (!name.empty() && name == other.name) || (!file.empty() && file == other.file);
    }
    bool operator==(const StorageName&) const = default;
};
// The identity of a file. It contains the id of the file system rather than its device number (st_dev),
// because many file systems keep their id when the machine restarts. Some, such as NFS and FUSE, have none
// (0).
std::string file_identity(uint64_t file_system, uint64_t device, uint64_t inode);
// Calls the file system.
StorageName storage_name(std::string_view specification);

}  // namespace wss::io
