// SPDX-License-Identifier: Apache-2.0
// kvctl explain: shows how a read obtained its values. Also kvctl snapshot and kvctl check.
#include <cstdio>

#include "lib/kv/check/history.h"
#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

Json explained(const kv::GetAll::Item& item, uint32_t partition) {
    Json row = to_json(item);
    row.erase("value");
    row.erase("value_base64");
    row["partition"] = partition;
    row["path"] = kv::to_string(item.explain.path);
    row["rounds"] = item.explain.rounds;
    row["bytes"] = item.explain.bytes;
    row["siblings"] = item.siblings.size();
    return row;
}

void print_explained(Context& context, kv::Client& client, const kv::GetAll& request) {
    Json rows = Json::array();
    for (const kv::GetAll::Item& item : request.items)
        rows.push_back(explained(item, client.partition_of(item.key)));
    if (context.json)
        return context.print({{"rounds", request.rounds}, {"retries", request.retries}, {"items", rows}});
    std::printf("%-24s %9s %-10s %6s %20s %8s %8s\n", "KEY", "PARTITION", "PATH", "ROUNDS", "TIMESTAMP",
                "BYTES", "SIBLINGS");
    for (size_t i = 0; i < request.items.size(); ++i) {
        const kv::GetAll::Item& item = request.items[i];
        std::printf("%-24s %9u %-10s %6u %20llu %8llu %8zu%s\n", shown(context, item.key).c_str(),
                    client.partition_of(item.key), std::string(kv::to_string(item.explain.path)).c_str(),
                    item.explain.rounds, static_cast<unsigned long long>(item.timestamp.value),
                    static_cast<unsigned long long>(item.explain.bytes), item.siblings.size(),
                    item.found ? "" : "  (absent)");
    }
    std::printf("%u round%s, %u retr%s\n", request.rounds, request.rounds == 1 ? "" : "s", request.retries,
                request.retries == 1 ? "y" : "ies");
}

void explain(Context& context, const std::vector<std::string>& words, uint32_t repeat) {
    if (words.size() < 2 || words[0] != "get")
        return context.fail_with(kUsage, "explain: write 'kvctl explain get KEY ...'");
    kv::GetAll request;
    for (size_t i = 1; i < words.size(); ++i) request.items.emplace_back().key = words[i];
    for (uint32_t i = 0; i < repeat; ++i) {
        if (!context.run(request)) return;
        print_explained(context, *context.client(), request);
    }
}

void snapshot(Context& context, const std::string& directory) {
    kv::Snapshot request;
    request.directory = directory;
    if (!context.run(request)) return;
    if (context.json)
        return context.print({{"directory", directory}, {"timestamp", request.timestamp.value}});
    std::printf("snapshot in %s on every partition's machine: all transactions up to timestamp %llu\n",
                directory.c_str(), static_cast<unsigned long long>(request.timestamp.value));
}

void check(Context& context, const std::vector<std::string>& paths, bool conditions) {
    std::vector<kv::check::History> histories;
    for (const std::string& path : paths) {
        auto history = kv::check::read_history(path);
        if (!history) return context.fail(history.status());
        if (history->operations.empty())
            return context.fail_with(kFailed,
                                     fmt::format("{} contains no operations: nothing was checked", path));
        histories.push_back(std::move(*history));
    }
    const kv::check::History history = kv::check::merge_histories(std::move(histories));
    kv::check::CheckResult result = kv::check::check_history(history, conditions);
    if (!result.violations.empty()) context.exit = kViolation;
    if (context.json)
        return context.print({{"transactions", result.transactions},
                              {"operations", result.operations},
                              {"partial", history.is_partial},
                              {"unexplained", result.unexplained},
                              {"violations", result.violations}});
    std::printf("%llu operations in %llu transactions: %s\n",
                static_cast<unsigned long long>(result.operations),
                static_cast<unsigned long long>(result.transactions),
                !result.violations.empty() ? "NOT Read Atomic, or a condition was broken"
                : conditions               ? "Read Atomic, and every condition held"
                                           : "Read Atomic");
    if (history.is_partial)
        std::printf(
            "  the history is incomplete, because its writer was killed: %llu reads returned writes that the "
            "history does not contain\n",
            static_cast<unsigned long long>(result.unexplained));
    for (const std::string& violation : result.violations) std::printf("  %s\n", violation.c_str());
}

}  // namespace

void add_explain(CLI::App& app, Context& context) {
    auto words = std::make_shared<std::vector<std::string>>();
    auto repeat = std::make_shared<uint32_t>(1);
    CLI::App* command = app.add_subcommand(
        "explain", "Show for each key how a read obtained it: path, rounds, timestamp, bytes");
    command->add_option("words", *words, "get KEY ...")->required();
    command->add_option("--repeat", *repeat, "Number of reads: the first read of a key looks up its address")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command->callback([&context, words, repeat] { explain(context, *words, *repeat); });
}

void add_snapshot(CLI::App& app, Context& context) {
    auto directory = std::make_shared<std::string>();
    CLI::App* command = app.add_subcommand(
        "snapshot", "Have every partition write a read-atomic snapshot to a directory on its machine");
    command->add_option("directory", *directory)->required();
    command->callback([&context, directory] { snapshot(context, *directory); });
}

void add_check(CLI::App& app, Context& context) {
    auto paths = std::make_shared<std::vector<std::string>>();
    CLI::App* command = app.add_subcommand(
        "check", "Check histories that 'bench --history' wrote (exit status 6: not Read Atomic)");
    command
        ->add_option("files", *paths, "The histories of all processes that wrote these keys at the same time")
        ->required();
    auto conditions = std::make_shared<bool>(false);
    command->add_flag(
        "--conditions", *conditions,
        "Also check that all transactions with conditions, such as those of 'bench --conditional-share', "
        "can have run one after the other");
    command->callback([&context, paths, conditions] { check(context, *paths, *conditions); });
}

}  // namespace wss::kvctl
