// SPDX-License-Identifier: Apache-2.0
// kvctl txn: transactions from arguments, or from JSON lines of a file or standard input, one transaction per
// line:
//   {"get": ["a", "b"]}
//   {"put": {"a": "1", "b": "2"}, "del": ["c"], "ttl_ms": 1000}
//   {"if": {"a": 5577006791947779410, "b": null}, "put": {"a": "1"}} if a has that timestamp and b is absent
//   {"put": [{"key_base64": "...", "value_base64": "..."}]}          for bytes that are not text
// The result of each transaction is one line. For a failed line it is {"error": ...}; the other lines are
// still executed.
#include <cstdio>
#include <fstream>
#include <iostream>

#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

constexpr size_t kLineMax = 64 << 20;

struct Transaction {
    std::vector<std::string> reads;
    std::vector<kv::PutAll::Item> writes;
    std::vector<kv::PutAll::Condition> conditions;
    uint64_t ttl_ms = 0;
};

Status take_keys(const Json& line, const char* name, std::vector<std::string>& keys) {
    auto list = line.find(name);
    if (list == line.end()) return Status::ok();
    if (!list->is_array()) return failure(Code::kInvalid, "'{}' is not a list of keys", name);
    for (const Json& key : *list) {
        if (key.is_string()) {
            keys.push_back(key.get<std::string>());
            continue;
        }
        auto bytes = key.is_object()
                         ? get_bytes(key, "key")
                         : Result<std::string>(failure(Code::kInvalid, "'{}' is not a list of keys", name));
        if (!bytes) return bytes.status();
        keys.push_back(*bytes);
    }
    return Status::ok();
}

Status take_puts(const Json& line, std::vector<kv::PutAll::Item>& items) {
    auto puts = line.find("put");
    if (puts == line.end()) return Status::ok();
    if (puts->is_object()) {
        for (const auto& [key, value] : puts->items()) {
            if (!value.is_string()) return failure(Code::kInvalid, "the value of '{}' is not a string", key);
            items.push_back({key, value.get<std::string>(), false});
        }
        return Status::ok();
    }
    if (!puts->is_array())
        return Status(Code::kInvalid, "'put' is neither {key: value} nor a list of {\"key\", \"value\"}");
    for (const Json& row : *puts) {
        if (!row.is_object()) return Status(Code::kInvalid, "'put' is not a list of {\"key\", \"value\"}");
        auto key = get_bytes(row, "key"), value = get_bytes(row, "value");
        if (!key) return key.status();
        if (!value) return value.status();
        items.push_back({*key, *value, false});
    }
    return Status::ok();
}

Status take_condition(const std::string& key, const Json& expected,
                      std::vector<kv::PutAll::Condition>& conditions) {
    if (!expected.is_null() && (!expected.is_number_unsigned() || expected.get<uint64_t>() == 0))
        return failure(Code::kInvalid, "'if' of '{}' is neither a timestamp nor null", key);
    conditions.push_back({key, {expected.is_null() ? 0 : expected.get<uint64_t>()}});
    return Status::ok();
}

Status take_conditions(const Json& line, std::vector<kv::PutAll::Condition>& conditions) {
    auto all = line.find("if");
    if (all == line.end()) return Status::ok();
    if (all->is_object()) {
        for (const auto& [key, expected] : all->items()) WSS_TRY(take_condition(key, expected, conditions));
        return Status::ok();
    }
    constexpr std::string_view kForms =
        "'if' is neither {key: timestamp or null} nor a list of {\"key\", \"timestamp\"}";
    if (!all->is_array()) return Status(Code::kInvalid, std::string(kForms));
    for (const Json& row : *all) {
        if (!row.is_object() || !row.contains("timestamp"))
            return Status(Code::kInvalid, std::string(kForms));
        auto key = get_bytes(row, "key");
        if (!key) return key.status();
        WSS_TRY(take_condition(*key, row["timestamp"], conditions));
    }
    return Status::ok();
}

Status check(const Transaction& txn) {
    const bool writes = !txn.writes.empty() || !txn.conditions.empty();
    if (txn.reads.empty() && !writes)
        return Status(Code::kInvalid, "an empty transaction: use 'get', 'put', 'del' or 'if'");
    if (!txn.reads.empty() && writes)
        return Status(Code::kInvalid,
                      "a transaction reads or writes, never both: to write values that depend on others, "
                      "read first, then write with 'if' and the timestamps that were read");
    return Status::ok();
}

Result<Transaction> parse(const std::string& text) {
    Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) return Status(Code::kInvalid, "this is not a JSON object");
    for (const auto& [name, value] : line.items())
        if (name != "get" && name != "put" && name != "del" && name != "if" && name != "ttl_ms")
            return failure(Code::kInvalid, "'{}' is none of get, put, del, if, ttl_ms", name);
    Transaction txn;
    WSS_TRY(take_keys(line, "get", txn.reads));
    WSS_TRY(take_puts(line, txn.writes));
    WSS_TRY(take_conditions(line, txn.conditions));
    std::vector<std::string> deleted;
    WSS_TRY(take_keys(line, "del", deleted));
    for (std::string& key : deleted) txn.writes.push_back({std::move(key), "", true});
    if (auto ttl = line.find("ttl_ms"); ttl != line.end()) {
        if (!ttl->is_number_unsigned())
            return Status(Code::kInvalid, "'ttl_ms' is not a number of milliseconds");
        txn.ttl_ms = ttl->get<uint64_t>();
    }
    WSS_TRY(check(txn));
    return txn;
}

// Parses "get A B" or "if A=123 D=absent put A=1 B=2 del C".
Result<Transaction> parse_words(const std::vector<std::string>& words) {
    Transaction txn;
    std::string verb;
    for (const std::string& word : words) {
        if (word == "get" || word == "put" || word == "del" || word == "if") {
            verb = word;
        } else if (verb == "if") {
            auto condition = parse_condition(word);
            if (!condition) return condition.status();
            txn.conditions.push_back(std::move(*condition));
        } else if (verb == "get") {
            txn.reads.push_back(word);
        } else if (verb == "del") {
            txn.writes.push_back({word, "", true});
        } else if (size_t equals = word.find('='); verb == "put" && equals != word.npos && equals != 0) {
            txn.writes.push_back({word.substr(0, equals), word.substr(equals + 1), false});
        } else {
            return failure(
                Code::kInvalid,
                "'{}': write 'get KEY ...' or 'if KEY=TIMESTAMP ... put KEY=VALUE ... del KEY ...'", word);
        }
    }
    WSS_TRY(check(txn));
    return txn;
}

// The answer for a failed request. The member "denied" means that the client lacks a right.
Json failed(const Status& status) {
    Json answer{{"error", status.to_string()}};
    if (status.code() == Code::kPermission) answer["denied"] = true;
    return answer;
}

// Returns one object, with `error` if the transaction failed, or null if there is no client, which was
// already reported.
Json run(Context& context, Transaction txn) {
    kv::Client* client = context.client();
    if (client == nullptr) return nullptr;
    Json answer = Json::object();
    if (!txn.reads.empty()) {
        kv::GetAll request;
        for (std::string& key : txn.reads) request.items.emplace_back().key = std::move(key);
        client->run(request);
        if (!request.status) return failed(request.status);
        answer["items"] = Json::array();
        for (const kv::GetAll::Item& item : request.items) answer["items"].push_back(to_json(item));
        return answer;
    }
    kv::PutAll request;
    request.items = std::move(txn.writes);
    request.conditions = std::move(txn.conditions);
    request.ttl_ms = txn.ttl_ms;
    client->run(request);
    if (!request.status) {
        answer = failed(request.status);
        if (request.outcome_unknown) answer["outcome"] = kUnknownOutcome;
        if (request.failed_condition) {
            Json& failed = answer["failed_if"] = Json::object();
            put_bytes(failed, "key", request.conditions[*request.failed_condition].key);
            failed["timestamp"] = request.present.is_none() ? Json() : Json(request.present.value);
        }
        return answer;
    }
    answer["timestamp"] = request.timestamp.value;
    return answer;
}

void run_lines(Context& context, std::istream& input) {
    std::string line;
    for (uint64_t number = 1; std::getline(input, line); ++number) {
        if (line.find_first_not_of(" \t\r") == line.npos) continue;
        Result<Transaction> txn = line.size() > kLineMax
                                      ? Result<Transaction>(Status(Code::kInvalid, "the line is too long"))
                                      : parse(line);
        Json answer = txn ? run(context, std::move(*txn)) : Json{{"error", txn.status().to_string()}};
        if (answer.is_null()) return;
        answer["line"] = number;
        if (answer.contains("error")) context.exit = answer.contains("denied") ? kNotPermitted : kFailed;
        context.print(answer);
        std::fflush(stdout);
    }
}

void txn(Context& context, const std::vector<std::string>& words, const std::string& file) {
    if (!words.empty()) {
        auto parsed = parse_words(words);
        if (!parsed) return context.fail_with(kUsage, parsed.status().to_string());
        Json answer = run(context, std::move(*parsed));
        if (answer.is_null()) return;
        if (answer.contains("error"))
            context.exit = answer.contains("failed_if") ? kCondition
                           : answer.contains("denied")  ? kNotPermitted
                                                        : kFailed;
        return context.print(answer);
    }
    if (file == "-") return run_lines(context, std::cin);
    std::ifstream input(file);
    if (!input) return context.fail(Status::from_errno(errno, file));
    run_lines(context, input);
}

}  // namespace

void add_txn(CLI::App& app, Context& context) {
    auto words = std::make_shared<std::vector<std::string>>();
    auto file = std::make_shared<std::string>("-");
    CLI::App* command =
        app.add_subcommand("txn", "Transactions from the arguments, a file or standard input (JSON lines)");
    command->add_option("words", *words,
                        "get KEY ... | if KEY=TIMESTAMP KEY=absent ... put KEY=VALUE ... del KEY ...");
    command->add_option("--file", *file, "JSON lines, one transaction each; '-' is standard input")
        ->capture_default_str();
    command->footer(
        "Lines:\n  {\"get\": [\"a\", \"b\"]}\n  {\"put\": {\"a\": \"1\"}, \"del\": [\"b\"], \"ttl_ms\": "
        "1000}\n"
        "  {\"if\": {\"a\": 5577006791947779410, \"b\": null}, \"put\": {\"a\": \"2\"}}   only if the latest "
        "version of a is that one and b is absent\n"
        "To write values that depend on others: get, then put if the timestamps are unchanged; otherwise "
        "(exit status 5) start again.\n"
        "Bytes that are not text: {\"put\": [{\"key_base64\": \"AA==\", \"value_base64\": \"/w==\"}]}");
    command->callback([&context, words, file] { txn(context, *words, *file); });
}

}  // namespace wss::kvctl
