// SPDX-License-Identifier: Apache-2.0
// kvctl put: one key, perhaps on a condition. kvctl put-all: several keys as one transaction. kvctl del:
// keys, as one transaction.
#include <cstdio>

#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

struct PutArguments {
    std::string key, value, file;
    bool if_absent = false;
    uint64_t if_timestamp = 0, ttl_ms = 0;
};

void print_written(Context& context, const kv::Request& request, kv::Timestamp timestamp) {
    if (context.json) return context.print({{"timestamp", timestamp.value}, {"rounds", request.rounds}});
}

void put_if(Context& context, const PutArguments& arguments) {
    kv::PutIf request;
    request.key = arguments.key;
    request.value = arguments.value;
    request.ttl_ms = arguments.ttl_ms;
    request.condition =
        arguments.if_absent ? kv::PutIf::Condition::kAbsent : kv::PutIf::Condition::kTimestamp;
    request.expected = {arguments.if_timestamp};
    if (context.run(request)) return print_written(context, request, request.timestamp);
    if (request.status.code() != Code::kRefused) return;
    std::fprintf(stderr, "kvctl: not written: the key is at timestamp %llu now\n",
                 static_cast<unsigned long long>(request.timestamp.value));
}

void put_one(Context& context, PutArguments arguments) {
    if (!arguments.file.empty()) {
        auto content = read_input(arguments.file, kv::kValueMax);
        if (!content) return context.fail(content.status());
        arguments.value = *content;
    }
    if (arguments.if_absent || arguments.if_timestamp != 0) return put_if(context, arguments);
    kv::PutAll request;
    request.items.push_back({arguments.key, arguments.value, false});
    request.ttl_ms = arguments.ttl_ms;
    if (context.run(request)) print_written(context, request, request.timestamp);
}

void put_all(Context& context, const std::vector<std::string>& pairs, uint64_t ttl_ms) {
    kv::PutAll request;
    request.ttl_ms = ttl_ms;
    for (const std::string& pair : pairs) {
        size_t equals = pair.find('=');
        if (equals == pair.npos || equals == 0)
            return context.fail_with(
                kUsage, fmt::format("'{}': write it as KEY=VALUE; for keys with '=' use kvctl txn", pair));
        request.items.push_back({pair.substr(0, equals), pair.substr(equals + 1), false});
    }
    if (context.run(request)) print_written(context, request, request.timestamp);
}

void del(Context& context, const std::vector<std::string>& keys) {
    kv::PutAll request;
    for (const std::string& key : keys) request.items.push_back({key, "", true});
    if (context.run(request)) print_written(context, request, request.timestamp);
}

}  // namespace

void add_put(CLI::App& app, Context& context) {
    auto arguments = std::make_shared<PutArguments>();
    CLI::App* command = app.add_subcommand("put", "Write a key");
    command->add_option("key", arguments->key)->required();
    CLI::Option* value = command->add_option("value", arguments->value);
    CLI::Option* file =
        command->add_option("--file", arguments->file, "Take the value from a file, '-' for standard input")
            ->excludes(value);
    CLI::Option* absent = command->add_flag("--if-absent", arguments->if_absent,
                                            "Only if the key is not there (exit status 5: it is)");
    command
        ->add_option("--if-timestamp", arguments->if_timestamp,
                     "Only if the key's latest version has this timestamp (get --json prints it)")
        ->excludes(absent);
    command->add_option("--ttl", arguments->ttl_ms, "Milliseconds after which the key is gone; 0: never");
    command->callback([&context, arguments, value, file] {
        if (value->count() + file->count() == 0)
            return context.fail_with(kUsage, "put: give a VALUE or --file");
        put_one(context, *arguments);
    });
}

void add_put_all(CLI::App& app, Context& context) {
    auto pairs = std::make_shared<std::vector<std::string>>();
    auto ttl = std::make_shared<uint64_t>(0);
    CLI::App* command =
        app.add_subcommand("put-all", "Write keys as one transaction: all become visible, or none");
    command->add_option("pairs", *pairs, "KEY=VALUE ...")->required();
    command->add_option("--ttl", *ttl, "Milliseconds after which all of them are gone together; 0: never");
    command->callback([&context, pairs, ttl] { put_all(context, *pairs, *ttl); });
}

void add_del(CLI::App& app, Context& context) {
    auto keys = std::make_shared<std::vector<std::string>>();
    CLI::App* command = app.add_subcommand("del", "Delete keys as one transaction");
    command->add_option("key", *keys)->required();
    command->callback([&context, keys] { del(context, *keys); });
}

}  // namespace wss::kvctl
