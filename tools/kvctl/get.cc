// SPDX-License-Identifier: Apache-2.0
// kvctl get: one key. kvctl get-all: several keys as one transaction.
#include <cstdio>

#include "tools/kvctl/context.h"

namespace wss::kvctl {

static void get(Context& context, const std::string& key, bool ttl) {
    kv::GetAll request;
    request.items.emplace_back().key = key;
    if (!context.run(request)) return;
    const kv::GetAll::Item& item = request.items[0];
    if (!item.found) context.exit = kNotFound;
    if (context.json) return context.print(to_json(item));
    if (!item.found) return context.fail_with(kNotFound, fmt::format("key '{}' does not exist", key));
    std::string value = shown(context, item.value) + (ttl ? ttl_column(item.expires) : "");
    std::fwrite(value.data(), 1, value.size(), stdout);
    if (!context.raw) std::putchar('\n');
}

void add_get(CLI::App& app, Context& context) {
    auto key = std::make_shared<std::string>();
    auto ttl = std::make_shared<bool>(false);
    CLI::App* command = app.add_subcommand("get", "Print the value of a key (exit status 4: no such key)");
    command->add_option("key", *key)->required();
    command->add_flag("--ttl", *ttl, kTtlHelp);
    command->callback([&context, key, ttl] { get(context, *key, *ttl); });
}

static void get_all(Context& context, const std::vector<std::string>& keys, bool ttl) {
    kv::GetAll request;
    for (const std::string& key : keys) request.items.emplace_back().key = key;
    if (!context.run(request)) return;
    for (const kv::GetAll::Item& item : request.items)
        if (!item.found) context.exit = kNotFound;
    if (context.json) {
        Json items = Json::array();
        for (const kv::GetAll::Item& item : request.items) items.push_back(to_json(item));
        return context.print({{"items", items}, {"rounds", request.rounds}});
    }
    for (const kv::GetAll::Item& item : request.items) {
        std::string line = item.found ? shown(context, item.key) + "\t" + shown(context, item.value) +
                                            (ttl ? ttl_column(item.expires) : "")
                                      : shown(context, item.key) + " does not exist";
        std::fwrite(line.data(), 1, line.size(), item.found ? stdout : stderr);
        std::fputc('\n', item.found ? stdout : stderr);
    }
}

void add_get_all(CLI::App& app, Context& context) {
    auto keys = std::make_shared<std::vector<std::string>>();
    CLI::App* command = app.add_subcommand(
        "get-all", "Read keys as one transaction: what was written together is seen together, or not at all");
    auto ttl = std::make_shared<bool>(false);
    command->add_option("key", *keys)->required();
    command->add_flag("--ttl", *ttl, kTtlHelp);
    command->callback([&context, keys, ttl] { get_all(context, *keys, *ttl); });
}

}  // namespace wss::kvctl
