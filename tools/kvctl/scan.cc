// SPDX-License-Identifier: Apache-2.0
// kvctl scan: lists keys by prefix. kvctl export and import: all keys, as JSON lines that the "put" of kvctl
// txn accepts, one key per line. A key that expires has "expires", in milliseconds since 1970.
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>

#include "lib/kv/hlc.h"
#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

constexpr uint32_t kPageKeys = 256;
constexpr uint32_t kImportKeysMax = kv::kItemsMax;
// Maximum size of one transaction of an import, in bytes. A partition accepts at most kTransactionBytesMax.
constexpr size_t kImportBytesMax = 4u << 20;

constexpr uint64_t kExpiresMax_ms = (kv::kTicksMax + kv::kTicksEpoch_us) / 1000;

struct ScanArguments {
    std::string prefix, cursor, file = "-";
    uint64_t limit = 0;
    bool values = false, ttl = false;
};

// Calls `visit` for each row until it returns false. Returns false after it has reported an error.
bool for_each_row(Context& context, kv::Scan& request,
                  const std::function<bool(const kv::Scan::Row&)>& visit) {
    do {
        if (!context.run(request)) return false;
        for (const kv::Scan::Row& row : request.rows)
            if (!visit(row)) return true;
    } while (!request.cursor.empty());
    return true;
}

Json row_json(const kv::Scan::Row& row, bool values) {
    Json json;
    put_bytes(json, "key", row.key);
    json["timestamp"] = row.timestamp.value;
    if (!row.expires.is_none()) json["expires"] = (row.expires.ticks() + kv::kTicksEpoch_us) / 1000;
    if (values) put_bytes(json, "value", row.value);
    return json;
}

void scan(Context& context, const ScanArguments& arguments) {
    kv::Scan request;
    request.prefix = arguments.prefix;
    request.with_values = arguments.values;
    uint64_t left = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
    request.limit = static_cast<uint32_t>(std::min<uint64_t>(left, kPageKeys));
    for_each_row(context, request, [&](const kv::Scan::Row& row) {
        if (context.json) {
            Json json = row_json(row, arguments.values);
            if (!row.expires.is_none()) json["ttl_ms"] = left_ms(row.expires);
            context.print(json);
        } else {
            std::printf("%s%s%s\n", shown(context, row.key).c_str(),
                        arguments.values ? ("\t" + shown(context, row.value)).c_str() : "",
                        arguments.ttl ? ttl_column(row.expires).c_str() : "");
        }
        return --left > 0;
    });
}

void export_rows(Context& context, const ScanArguments& arguments) {
    std::FILE* file = arguments.file == "-" ? stdout : std::fopen(arguments.file.c_str(), "we");
    if (file == nullptr) return context.fail(Status::from_errno(errno, arguments.file));
    kv::Scan request;
    request.prefix = arguments.prefix;
    request.with_values = true;
    request.limit = kPageKeys;
    uint64_t rows = 0;
    bool done = for_each_row(context, request, [&](const kv::Scan::Row& row) {
        ++rows;
        return std::fprintf(file, "%s\n", row_json(row, true).dump().c_str()) > 0;
    });
    bool written = std::fflush(file) == 0 && std::ferror(file) == 0;
    if (file != stdout) written = std::fclose(file) == 0 && written;
    if (!written) return context.fail(Status::from_errno(errno, arguments.file));
    if (done) std::fprintf(stderr, "kvctl: %llu keys exported\n", static_cast<unsigned long long>(rows));
}

struct ImportedRow {
    kv::PutAll::Item item;
    uint64_t expires_ms = 0;  // since 1970; 0: never
};

// Parses one row of an export.
Result<ImportedRow> parse_row(const std::string& line) {
    Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) return Status(Code::kInvalid, "this is not a JSON object");
    auto key = get_bytes(row, "key"), value = get_bytes(row, "value");
    if (!key) return key.status();
    if (!value) return value.status();
    ImportedRow imported{{*key, *value, false}};
    if (auto expires = row.find("expires"); expires != row.end()) {
        if (!expires->is_number_unsigned() || *expires == 0 || *expires > kExpiresMax_ms)
            return Status(Code::kInvalid, "\"expires\" is milliseconds since 1970");
        imported.expires_ms = *expires;
    }
    return imported;
}

// The time when a key expires. `unix_ms` 0 means never. A time before the epoch of timestamps is replaced by
// the epoch.
kv::Timestamp moment_of(uint64_t unix_ms) {
    if (unix_ms == 0) return {};
    const uint64_t unix_us = unix_ms * 1000;
    return kv::Timestamp::make(unix_us > kv::kTicksEpoch_us ? unix_us - kv::kTicksEpoch_us : 1, 0);
}

// Writes rows in transactions of at most `keys` keys. Keys of a transaction expire together, at the time in
// the export.
class Importer {
  public:
    Importer(Context& context, uint32_t keys) : context_(context), keys_(keys) {}
    bool add(ImportedRow row) {
        const size_t bytes = row.item.key.size() + row.item.value.size();
        if ((row.expires_ms != expires_ms_ || bytes_ + bytes > kImportBytesMax) && !flush()) return false;
        expires_ms_ = row.expires_ms;
        bytes_ += bytes;
        request_.items.push_back(std::move(row.item));
        return request_.items.size() < keys_ || flush();
    }
    bool flush() {
        if (request_.items.empty()) return true;
        request_.expires = moment_of(expires_ms_);
        kv::Client* client = context_.client();
        if (client == nullptr) return false;
        client->run(request_);
        const bool expired = request_.is_over;
        if (!request_.status && !expired) {
            context_.report(request_);
            return false;
        }
        (expired ? expired_ : written_) += request_.items.size();
        request_.items.clear();
        bytes_ = 0;
        return true;
    }
    uint64_t written() const { return written_; }
    uint64_t expired() const { return expired_; }

  private:
    Context& context_;
    const uint32_t keys_;
    kv::PutAll request_;
    uint64_t expires_ms_ = 0;
    size_t bytes_ = 0;  // size of the next transaction
    uint64_t written_ = 0, expired_ = 0;
};

void import_rows(Context& context, const std::string& path, uint32_t keys) {
    std::ifstream opened;
    if (path != "-") opened.open(path);
    std::istream& input = path == "-" ? std::cin : opened;
    if (!input) return context.fail(Status::from_errno(errno, path));
    Importer importer(context, keys);
    std::string line;
    for (uint64_t number = 1; std::getline(input, line); ++number) {
        if (line.empty()) continue;
        auto row = parse_row(line);
        if (!row)
            return context.fail_with(kFailed,
                                     fmt::format("{}:{}: {} ({} keys before it were written)", path, number,
                                                 row.status().to_string(), importer.written()));
        if (!importer.add(std::move(*row))) return;
    }
    if (!importer.flush()) return;
    std::fprintf(stderr, "kvctl: %llu keys imported\n", static_cast<unsigned long long>(importer.written()));
    if (importer.expired() > 0)
        std::fprintf(stderr, "kvctl: %llu keys skipped: they have expired since the export\n",
                     static_cast<unsigned long long>(importer.expired()));
}

}  // namespace

void add_scan(CLI::App& app, Context& context) {
    auto arguments = std::make_shared<ScanArguments>();
    CLI::App* command = app.add_subcommand(
        "scan", "List keys by prefix, partition by partition (pages are not one transaction)");
    command->add_option("prefix", arguments->prefix);
    command->add_option("--limit", arguments->limit, "Maximum number of keys; 0: all");
    command->add_flag("--values", arguments->values, "Print their values, too");
    command->add_flag("--ttl", arguments->ttl, kTtlHelp);
    command->callback([&context, arguments] { scan(context, *arguments); });
}

void add_export(CLI::App& app, Context& context) {
    auto arguments = std::make_shared<ScanArguments>();
    CLI::App* command =
        app.add_subcommand("export", "Write all keys as JSON lines (for a read-atomic state see snapshot)");
    command->add_option("file", arguments->file, "'-' is standard output")->capture_default_str();
    command->add_option("--prefix", arguments->prefix, "Only keys with this prefix");
    command->callback([&context, arguments] { export_rows(context, *arguments); });
}

void add_import(CLI::App& app, Context& context) {
    auto file = std::make_shared<std::string>("-");
    auto keys = std::make_shared<uint32_t>(64);
    CLI::App* command = app.add_subcommand("import", "Write the keys of an export");
    command->add_option("file", *file, "'-' is standard input")->capture_default_str();
    command->add_option("--keys", *keys, "Keys per transaction")
        ->capture_default_str()
        ->check(CLI::Range(1u, kImportKeysMax));
    command->callback([&context, file, keys] { import_rows(context, *file, *keys); });
}

}  // namespace wss::kvctl
