// SPDX-License-Identifier: Apache-2.0
// What all sub-commands of kvctl share: the global options, the connection, the exit status, and the output
// of keys, values and answers.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/kv/client/client.h"

namespace wss::kvctl {

using Json = nlohmann::ordered_json;

// The exit statuses, which --help documents.
enum Exit : int {
    kDone = 0,
    kFailed = 1,        // any other error
    kUsage = 2,         // wrong command line
    kNotReachable = 3,  // a target did not answer
    kNotFound = 4,      // a requested key is absent
    kCondition = 5,     // a condition does not hold: nothing was written
    kViolation = 6,     // --verify found that isolation was broken
    kNotPermitted = 7,  // a partition refuses the request, because the client lacks a right
};

// The outcome of a write that failed but may have been carried out.
constexpr const char* kUnknownOutcome = "unknown: either the whole write becomes visible, or nothing";

struct Context {
    kv::Options options;
    std::string secret_file;
    uint32_t timeout_seconds = 10;
    bool json = false, raw = false;
    bool shell = false;  // commands come from the shell: no nested shell
    int exit = kDone;
    std::unique_ptr<kv::Client> connection;  // created when first needed

    // Returns the client, or nullptr after it has reported why there is none.
    kv::Client* client();
    // Runs the request. Returns false after it has reported an error.
    bool run(kv::Request& request);
    void report(const kv::Request& request);  // reports a request that failed
    // Prints `status` and sets the matching exit status. kNotFound is only for keys: a missing file or device
    // sets kFailed.
    void fail(const Status& status);
    // The same for an answer of a partition, which may report that the client lacks a right.
    void fail_request(const Status& status);
    void fail_with(int status, const std::string& text);
    void print(const Json& answer) const;
};

// Returns the bytes unchanged with --raw. Otherwise unprintable bytes are escaped, so that they cannot harm a
// terminal.
std::string shown(const Context& context, std::string_view bytes);
// Parses "KEY=TIMESTAMP" or "KEY=absent".
Result<kv::PutAll::Condition> parse_condition(const std::string& text);
// Adds the member NAME with the bytes as text, or NAME_base64 if they are not valid UTF-8. get_bytes() reads
// both.
void put_bytes(Json& object, const std::string& name, std::string_view bytes);
Result<std::string> get_bytes(const Json& object, const std::string& name);
constexpr const char* kTtlHelp =
    "Add a last column: the milliseconds until the key expires, '-' if it does not";
// Milliseconds until a key expires; 0 if it has already expired.
uint64_t left_ms(kv::Timestamp expires);
// A tab, then left_ms(), or "-" if the key does not expire.
std::string ttl_column(kv::Timestamp expires);
// {"key", "found", "timestamp", "ttl_ms", "value"}. "ttl_ms" is present if the key expires, "value" if it was
// found.
Json to_json(const kv::GetAll::Item& item);

std::string base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text);

// Reads all of standard input ("-") or of a file, at most `limit` bytes.
Result<std::string> read_input(const std::string& path, size_t limit);

// Parses and runs one command line (without the program's name).
void execute(Context& context, std::vector<std::string> words);
// The names of the commands, for completion.
std::vector<std::string> command_names();

// There is one per sub-command. A file may contain several: put.cc, get.cc, scan.cc, info.cc, explain.cc.
void add_get(CLI::App& app, Context& context);
void add_put(CLI::App& app, Context& context);
void add_del(CLI::App& app, Context& context);
void add_get_all(CLI::App& app, Context& context);
void add_put_all(CLI::App& app, Context& context);
void add_incr(CLI::App& app, Context& context);
void add_txn(CLI::App& app, Context& context);
void add_scan(CLI::App& app, Context& context);
void add_info(CLI::App& app, Context& context);
void add_watch_stats(CLI::App& app, Context& context);
void add_explain(CLI::App& app, Context& context);
void add_snapshot(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_bench(CLI::App& app, Context& context);
void add_check(CLI::App& app, Context& context);
void add_shell(CLI::App& app, Context& context);

}  // namespace wss::kvctl
