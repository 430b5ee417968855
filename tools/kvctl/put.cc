// SPDX-License-Identifier: Apache-2.0
// kvctl put: writes one key, optionally with a condition. kvctl put-all: writes several keys as one
// transaction, optionally with conditions. kvctl del: deletes keys as one transaction. kvctl incr: increments
// a counter.
#include <cstdio>

#include "lib/kv/client/counter.h"
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

// Reports that `key` failed a condition.
void print_present(const std::string& key, kv::Timestamp present) {
    if (present.is_none())
        std::fprintf(stderr, "kvctl: not written: %s is now absent\n", key.c_str());
    else
        std::fprintf(stderr, "kvctl: not written: %s now has timestamp %llu\n", key.c_str(),
                     static_cast<unsigned long long>(present.value));
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
    if (request.status.code() == Code::kRefused) print_present("the key", request.timestamp);
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

struct PutAllArguments {
    std::vector<std::string> pairs, conditions;
    uint64_t ttl_ms = 0;
};

void put_all(Context& context, const PutAllArguments& arguments) {
    kv::PutAll request;
    request.ttl_ms = arguments.ttl_ms;
    for (const std::string& text : arguments.conditions) {
        auto condition = parse_condition(text);
        if (!condition) return context.fail_with(kUsage, condition.status().to_string());
        request.conditions.push_back(std::move(*condition));
    }
    for (const std::string& pair : arguments.pairs) {
        size_t equals = pair.find('=');
        if (equals == pair.npos || equals == 0)
            return context.fail_with(
                kUsage, fmt::format("'{}': write it as KEY=VALUE; for keys with '=' use kvctl txn", pair));
        request.items.push_back({pair.substr(0, equals), pair.substr(equals + 1), false});
    }
    if (context.run(request)) return print_written(context, request, request.timestamp);
    if (!request.failed_condition) return;
    print_present(shown(context, request.conditions[*request.failed_condition].key), request.present);
}

void increment(Context& context, kv::Increment& request) {
    kv::Client* client = context.client();
    if (client == nullptr) return;
    request.timeout = context.options.timeout;
    kv::run(*client, request);
    if (!request.status) {
        context.fail_request(request.status);
        if (request.outcome_unknown) std::fprintf(stderr, "kvctl: outcome %s\n", kUnknownOutcome);
        return;
    }
    if (context.json)
        return context.print({{"value", request.value}, {"timestamp", request.timestamp.value}});
    std::printf("%lld\n", static_cast<long long>(request.value));
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
        command->add_option("--file", arguments->file, "Read the value from a file, '-' for standard input")
            ->excludes(value);
    CLI::Option* absent = command->add_flag("--if-absent", arguments->if_absent,
                                            "Only if the key does not exist (exit status 5: it does)");
    command
        ->add_option("--if-timestamp", arguments->if_timestamp,
                     "Only if the key's latest version has this timestamp (get --json prints it)")
        ->check(CLI::PositiveNumber)
        ->excludes(absent);
    command->add_option("--ttl", arguments->ttl_ms, "Milliseconds after which the key expires; 0: never");
    command->callback([&context, arguments, value, file] {
        if (value->count() + file->count() == 0)
            return context.fail_with(kUsage, "put: give a VALUE or --file");
        put_one(context, *arguments);
    });
}

void add_put_all(CLI::App& app, Context& context) {
    auto arguments = std::make_shared<PutAllArguments>();
    CLI::App* command =
        app.add_subcommand("put-all", "Write keys as one transaction: all become visible, or none");
    command->add_option("pairs", arguments->pairs, "KEY=VALUE ...")->required();
    command
        ->add_option("--if", arguments->conditions,
                     "KEY=TIMESTAMP or KEY=absent: only if the key's latest version has that timestamp "
                     "(get-all --json prints it), or the key is absent; repeatable, also for keys that are "
                     "not written (exit status 5: a condition does not hold, nothing was written)")
        ->allow_extra_args(false);
    command->add_option("--ttl", arguments->ttl_ms,
                        "Milliseconds after which all of them expire together; 0: never");
    command->callback([&context, arguments] { put_all(context, *arguments); });
}

void add_incr(CLI::App& app, Context& context) {
    auto request = std::make_shared<kv::Increment>();
    CLI::App* command = app.add_subcommand(
        "incr", "Add to a counter, a key whose value is a decimal number, and print the sum");
    command->add_option("key", request->key, "The counter; 0 if it is absent")->required();
    command->add_option("--by", request->delta, "The number to add; may be negative")->capture_default_str();
    command->add_option("--ttl", request->ttl_ms, "Milliseconds after which the key expires; 0: unchanged");
    command->callback([&context, request] { increment(context, *request); });
}

void add_del(CLI::App& app, Context& context) {
    auto keys = std::make_shared<std::vector<std::string>>();
    CLI::App* command = app.add_subcommand("del", "Delete keys as one transaction");
    command->add_option("key", *keys)->required();
    command->callback([&context, keys] { del(context, *keys); });
}

}  // namespace wss::kvctl
