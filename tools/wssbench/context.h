// SPDX-License-Identifier: Apache-2.0
// What all sub-commands of wssbench share. One file of this folder is one sub-command.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lib/base/status.h"

namespace wss::wssbench {

using Json = nlohmann::ordered_json;

// Exit status.
constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kUsage = 2;

struct Context {
    bool json = false;
    int exit = kDone;

    void fail(const Status& status);
    void print(const Json& answer) const;
};

void add_cache_sim(CLI::App& app, Context& context);

}  // namespace wss::wssbench
