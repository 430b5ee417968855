// SPDX-License-Identifier: Apache-2.0
// wssctl trace: live times of requests, by stage (paper D, tables 3 and 4). The driver measures while this
// command runs, and afterwards returns to its former setting (Documentation/ABI/testing/debugfs-wss).
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tools/wssctl/driver.h"
#include "tools/wssctl/table.h"

namespace wss::wssctl {

namespace {

constexpr double kNanosecondsPerMicrosecond = 1000;
constexpr const char* kWhole = "total";

struct Arguments {
    double interval = 1;
    uint32_t count = 0;
    std::string session;
};

// One line of a session's table: `count` requests of a kind spent `ns` in a stage. Buckets are powers of two,
// in ns.
struct Row {
    std::string kind, stage;
    uint64_t count = 0, ns = 0;
    std::vector<uint64_t> buckets;
};

using Rows = std::vector<Row>;
using Sessions = std::vector<std::pair<std::string, Rows>>;

volatile std::sig_atomic_t stopped = 0;

std::filesystem::path folder_of(const Context& context) {
    return std::filesystem::path(context.sysfs) / "kernel/debug/wss";
}

Rows read_rows(const std::filesystem::path& path) {
    std::ifstream file(path);
    Rows rows;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Row row;
        if (!(words >> row.kind >> row.stage >> row.count >> row.ns)) continue;
        for (uint64_t bucket = 0; words >> bucket;) row.buckets.push_back(bucket);
        rows.push_back(std::move(row));
    }
    return rows;
}

Sessions read_sessions(const Context& context, const std::string& only) {
    Sessions sessions;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder_of(context), error), end; !error && entry != end;
         entry.increment(error)) {
        std::string name = entry->path().filename();
        if (!name.starts_with("session") || (!only.empty() && name != only)) continue;
        sessions.emplace_back(name, read_rows(entry->path() / "stages"));
    }
    std::sort(sessions.begin(), sessions.end(), [](auto& a, auto& b) { return a.first < b.first; });
    return sessions;
}

// The difference from `before`, or the whole row if the driver has reset the table.
Row since(const Row& now, const Rows& before) {
    for (const Row& old : before) {
        if (old.kind != now.kind || old.stage != now.stage || old.count > now.count ||
            old.buckets.size() != now.buckets.size())
            continue;
        Row row = now;
        row.count -= old.count;
        row.ns -= old.ns;
        for (size_t i = 0; i < row.buckets.size(); ++i) row.buckets[i] -= old.buckets[i];
        return row;
    }
    return now;
}

// Interpolates linearly within a bucket. The error is at most a factor of two.
double quantile_us(const Row& row, double share) {
    uint64_t all = 0;
    for (uint64_t bucket : row.buckets) all += bucket;
    double left = share * static_cast<double>(all);
    for (size_t i = 0; i < row.buckets.size(); ++i) {
        auto here = static_cast<double>(row.buckets[i]);
        if (here > 0 && left <= here) {
            auto low = static_cast<double>(uint64_t{1} << i);
            return (low + low * left / here) / kNanosecondsPerMicrosecond;
        }
        left -= here;
    }
    return 0;
}

double mean_us(const Row& row) {
    return row.count == 0
               ? 0
               : static_cast<double>(row.ns) / static_cast<double>(row.count) / kNanosecondsPerMicrosecond;
}

const Row* whole_of(const Rows& rows, const std::string& kind) {
    for (const Row& row : rows)
        if (row.kind == kind && row.stage == kWhole) return &row;
    return nullptr;
}

double share_of(const Row& row, const Rows& rows) {
    const Row* whole = whole_of(rows, row.kind);
    return whole == nullptr || whole->ns == 0 ? 0
                                              : static_cast<double>(row.ns) / static_cast<double>(whole->ns);
}

// The classes of table 3 of the paper, except copies, because the driver makes none.
const char* class_of(const std::string& stage) {
    if (stage == "remote") return "communication";
    if (stage == "block") return "kernel";
    return "WSS and SRP";
}

Json to_json(const Rows& rows, double seconds) {
    Json kinds = Json::object();
    for (const Row& row : rows) {
        if (row.count == 0) continue;
        Json& kind = kinds[row.kind];
        kind["requests"] = row.count;
        kind["stages"][row.stage] = {{"mean_us", mean_us(row)},
                                     {"share", share_of(row, rows)},
                                     {"p50_us", quantile_us(row, 0.5)},
                                     {"p99_us", quantile_us(row, 0.99)},
                                     {"ns", row.ns}};
        if (row.stage == kWhole) continue;
        Json& part = kind["classes"][class_of(row.stage)];
        part = (part.is_number() ? part.get<double>() : 0.0) + share_of(row, rows);
    }
    return {{"seconds", seconds}, {"kinds", kinds}};
}

std::string fixed(double value, int digits) {
    return fmt::format("{:.{}f}", value, digits);
}

void print_rows(const std::string& session, const Rows& rows, double seconds) {
    Table table({"KIND", "STAGE", "CLASS", "REQUESTS", "MEAN us", "SHARE %", "P50 us", "P99 us"});
    for (const Row& row : rows) {
        if (row.count == 0) continue;
        table.add({row.kind, row.stage, row.stage == kWhole ? "" : class_of(row.stage),
                   std::to_string(row.count), fixed(mean_us(row), 1), fixed(100 * share_of(row, rows), 1),
                   fixed(quantile_us(row, 0.5), 1), fixed(quantile_us(row, 0.99), 1)});
    }
    std::printf("%s, %.1f s\n", session.c_str(), seconds);
    if (table.empty())
        std::printf("  no request completed\n");
    else
        table.print();
}

void show(const Context& context, const Sessions& now, const Sessions& before, double seconds) {
    Json all = Json::object();
    for (const auto& [name, rows] : now) {
        Rows old;
        for (const auto& [old_name, old_rows] : before)
            if (old_name == name) old = old_rows;
        Rows fresh;
        for (const Row& row : rows) fresh.push_back(since(row, old));
        if (context.json)
            all[name] = to_json(fresh, seconds);
        else
            print_rows(name, fresh, seconds);
    }
    if (context.json) std::printf("%s\n", all.dump().c_str());  // one line for each interval
    std::fflush(stdout);
}

// Turns measuring on. The destructor restores the former setting.
class Measuring {
  public:
    explicit Measuring(std::filesystem::path file) : file_(std::move(file)) {
        std::ifstream(file_) >> before_;
        ok_ = set("1");
    }
    ~Measuring() { set(before_); }
    Measuring(const Measuring&) = delete;
    Measuring& operator=(const Measuring&) = delete;
    bool ok() const { return ok_; }

  private:
    bool set(const std::string& value) {
        std::ofstream file(file_);
        file << value << std::flush;
        return file.good();
    }
    std::filesystem::path file_;
    std::string before_ = "0";
    bool ok_ = false;
};

void pause_for(double seconds) {
    timespec left{
        .tv_sec = static_cast<time_t>(seconds),
        .tv_nsec = static_cast<long>((seconds - static_cast<double>(static_cast<time_t>(seconds))) * 1e9)};
    nanosleep(&left, nullptr);
}

void trace(Context& context, const Arguments& arguments) {
    if (Status loaded = check_loaded(context); !loaded) return context.fail(loaded);
    std::error_code error;
    std::filesystem::path file = folder_of(context) / "measure";
    if (!std::filesystem::exists(file, error))
        return context.fail(
            failure(Code::kRefused,
                    "cannot access {}: this needs root, and `mount -t debugfs debugfs {}/kernel/debug`",
                    file.string(), context.sysfs));
    Measuring measuring(file);
    if (!measuring.ok())
        return context.fail(failure(Code::kPermission, "{}: only root may do this", file.string()));
    struct sigaction stop {};
    stop.sa_handler = [](int) { stopped = 1; };
    sigaction(SIGINT, &stop, nullptr);
    sigaction(SIGTERM, &stop, nullptr);
    Sessions before = read_sessions(context, arguments.session);
    if (before.empty())
        return context.fail(
            Status(Code::kNotFound, arguments.session.empty() ? "no volume is mapped" : "no such session"));
    for (uint32_t shown = 0; !stopped && (arguments.count == 0 || shown < arguments.count); ++shown) {
        pause_for(arguments.interval);
        Sessions now = read_sessions(context, arguments.session);
        show(context, now, before, arguments.interval);
        before = std::move(now);
    }
}

}  // namespace

void add_trace(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command =
        app.add_subcommand("trace", "Show how long requests spend in each stage, live (driver)");
    command->add_option("--interval", arguments.interval, "seconds between two tables")
        ->capture_default_str()
        ->check(CLI::Range(0.05, 3600.0));
    command->add_option("--count", arguments.count, "tables to show; 0: until interrupted")
        ->capture_default_str();
    command->add_option("--session", arguments.session, "only this one, for example session0");
    command->callback([&context] { trace(context, arguments); });
}

}  // namespace wss::wssctl
