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

// To open it may take the storage from an owner that is alive, and would lose it (steal=true).
bool may_take_storage(std::string_view specification);

// Which storage it is, however that is reached: the same for each way to a file (aio:, uring:, pool:, spawn:)
// and each of its names, as far as the file system shows them. Empty: nobody else has it (ram:), or it is not
// known.
std::string storage_name(std::string_view specification);

}  // namespace wss::io
