// SPDX-License-Identifier: Apache-2.0
// kvctl bench: a YCSB runner. Workloads are YCSB's property files. The report is YCSB's, with additional
// [KV], [SERVER] and [CHECK] lines. --verify checks every read and write while it runs.
#include <fmt/core.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "lib/base/suggest.h"
#include "tools/kvctl/bench_database.h"
#include "tools/kvctl/context.h"

namespace wss::kvctl {

namespace {

using ycsb::Phase;
using ycsb::Properties;
using ycsb::RunResult;
using ycsb::Workload;
using ycsb::WorkloadOptions;

struct Arguments {
    std::vector<std::string> files, properties;
    std::string workload, phase = "both", history, percentiles = "50,95,99";
    bool verify = false, status = false;
    uint64_t seed = 1;
    Mischief mischief;
};

std::atomic<bool> interrupted{false};
void on_signal(int) {
    interrupted = true;
}

Result<Properties> collect(const Arguments& arguments) {
    Properties properties;
    if (!arguments.workload.empty()) {
        std::string_view text =
            arguments.workload.size() == 1 ? ycsb::standard_workload(arguments.workload[0]) : "";
        if (text.empty())
            return failure(Code::kInvalid, "unknown workload '{}': use a to f, or -P FILE",
                           arguments.workload);
        WSS_TRY(properties.read_text(text, "workload " + arguments.workload));
    }
    for (const std::string& file : arguments.files) WSS_TRY(properties.read_file(file));
    for (const std::string& property : arguments.properties) WSS_TRY(properties.set(property));
    // Values that contain stamps have one field.
    if (arguments.verify) {
        auto plain = WorkloadOptions::from(properties);
        if (!plain) return plain.status();
        properties.set("fieldlength", std::to_string(plain->record_bytes()));
        properties.set("fieldcount", "1");
        if (plain->data_integrity)
            return Status(Code::kInvalid,
                          "--verify and dataintegrity exclude each other: both fill the values");
    }
    return properties;
}

Result<std::vector<double>> parse_percentiles(const std::string& text) {
    std::vector<double> percentiles;
    for (const std::string& word : CLI::detail::split(text, ',')) {
        double value = 0;
        if (!CLI::detail::lexical_cast(word, value) || value <= 0 || value > 100)
            return failure(Code::kInvalid, "invalid percentile '{}': write for example 50,95,99.9", word);
        percentiles.push_back(value);
    }
    return percentiles;
}

// ---- processor time

struct Cpu {
    double client_us = 0, server_us = 0;
};

double own_cpu_us() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    auto us = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_usec);
    };
    return us(usage.ru_utime) + us(usage.ru_stime);
}

// Partitions of one process report the same process, so count it once.
Cpu cpu_now(kv::Client& client) {
    Cpu cpu{own_cpu_us(), 0};
    std::map<uint64_t, double> by_process;
    for (uint32_t i = 0; i < client.partitions(); ++i) {
        kv::Info request;
        request.partition = i;
        client.run(request);
        if (!request.status) continue;
        Json info = Json::parse(request.json, nullptr, false);
        if (!info.is_object() || !info.contains("process")) continue;
        const Json& process = info["process"];
        by_process[process.value("pid", uint64_t{i})] = process.value("cpu_us", 0.0);
    }
    for (const auto& [pid, us] : by_process) cpu.server_us += us;
    return cpu;
}

// ---- the report

struct Phases {
    Cpu before, after;
};

double share(uint64_t part, uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

Json store_lines(const BenchShared& shared, const RunResult& result, const Phases& phases) {
    const kv::Statistics& s = shared.statistics;
    uint64_t fell_back =
        s.fallback_invalid + s.fallback_stale + s.fallback_torn + s.fallback_large + s.fallback_second_round;
    double operations = static_cast<double>(std::max<uint64_t>(result.measurements.operations(), 1));
    Json kv = {{"GetAll", s.get_all},
               {"PutAll", s.put_all},
               {"Failed", s.failed},
               {"SecondRounds", s.second_rounds},
               {"Restarts", s.restarts},
               {"LockConflicts", s.lock_conflicts},
               {"Messages", s.messages},
               {"Reconnects", s.reconnects},
               {"OneSidedReads", s.reads_one_sided},
               {"ReadsByMessage", s.reads_by_message},
               {"IndexReads", s.index_reads},
               {"WithoutServer(%)", share(s.reads_one_sided, s.reads_one_sided + s.reads_by_message)},
               {"FallbackNoAddress", s.fallback_no_address},
               {"FallbackInvalid", s.fallback_invalid},
               {"FallbackStale", s.fallback_stale},
               {"FallbackTorn", s.fallback_torn},
               {"FallbackLarge", s.fallback_large},
               {"FallbackSecondRound", s.fallback_second_round},
               {"FallbackShare(%)", share(fell_back, s.reads_one_sided + s.reads_by_message)},
               {"UnknownOutcomes", shared.unknown},
               {"HalfDoneWrites", shared.half_done},
               {"ConditionsWon", shared.conditions_won},
               {"ConditionsLost", shared.conditions_lost}};
    return {{"KV", kv},
            {"CLIENT",
             {{"CpuPerOperation(us)", (phases.after.client_us - phases.before.client_us) / operations}}},
            {"SERVER",
             {{"CpuPerOperation(us)", (phases.after.server_us - phases.before.server_us) / operations}}}};
}

void print_lines(const Json& sections) {
    for (const auto& [section, lines] : sections.items())
        for (const auto& [name, value] : lines.items())
            std::printf("[%s], %s, %s\n", section.c_str(), name.c_str(), value.dump().c_str());
}

Json measurement_json(const RunResult& result, const std::vector<double>& percentiles) {
    Json series = Json::object();
    for (const auto& [name, one] : result.measurements.series()) {
        Json row = {{"operations", one.latency.count()},
                    {"mean_ns", one.latency.mean()},
                    {"min_ns", one.latency.min()},
                    {"max_ns", one.latency.max()},
                    {"returns", one.returns}};
        for (double percent : percentiles)
            row[fmt::format("p{}_ns", percent)] = one.latency.percentile(percent);
        series[name] = row;
    }
    double seconds = static_cast<double>(result.run_time.count) / 1e9;
    return {
        {"run_time_ms", result.run_time.count / 1'000'000},
        {"operations", result.measurements.operations()},
        {"failed", result.measurements.failed()},
        {"throughput", seconds > 0 ? static_cast<double>(result.measurements.operations()) / seconds : 0.0},
        {"series", series}};
}

class Bench {
  public:
    Bench(Context& context, const Arguments& arguments, const WorkloadOptions& options,
          std::vector<double> percentiles)
        : context_(context),
          arguments_(arguments),
          workload_(options),
          percentiles_(std::move(percentiles)) {}

    Status run();

  private:
    Status prepare();
    Status phase(Phase which);
    void check_result(Phase which, const ycsb::Measurements& measured);
    void report(Phase which, const RunResult& result);
    Status finish();
    void report_check();

    Context& context_;
    const Arguments& arguments_;
    Workload workload_;
    const std::vector<double> percentiles_;
    BenchShared shared_;
    Phases phases_;
};

Status Bench::prepare() {
    shared_.options = context_.options;
    shared_.options.sessions = workload_.options().connections;
    shared_.mischief = arguments_.mischief;
    shared_.seed = arguments_.seed;
    if (!arguments_.verify) return Status::ok();
    kv::check::CheckerOptions options;
    options.atomic = context_.options.algorithm != kv::Algorithm::kNone;
    options.keys =
        static_cast<uint32_t>(std::clamp<uint64_t>(workload_.options().record_count * 4, 1 << 12, 1 << 24));
    shared_.checker = std::make_unique<kv::check::Checker>(options);
    if (arguments_.history.empty()) return Status::ok();
    auto file = kv::check::HistoryFile::create(arguments_.history);
    if (!file) return file.status();
    shared_.history = std::move(*file);
    return Status::ok();
}

Status Bench::phase(Phase which) {
    ycsb::RunOptions options;
    options.phase = which;
    shared_.is_loading = which == Phase::kLoad;
    options.seed = arguments_.seed;
    options.stop = &interrupted;
    options.open = [this](uint32_t thread) { return open_database(shared_, thread); };
    if (arguments_.status)
        options.status = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    kv::Client& client = *context_.connection;
    options.measuring = [&] { phases_.before = cpu_now(client); };
    shared_.statistics = {};
    auto result = ycsb::run(workload_, options);
    if (!result) return result.status();
    phases_.after = cpu_now(client);
    check_result(which, result->measurements);
    if (which == Phase::kRun || arguments_.phase == "load") report(which, *result);
    return Status::ok();
}

// Failed operations of a run are only counted. A load must succeed completely, because the run needs all its
// records.
void Bench::check_result(Phase which, const ycsb::Measurements& measured) {
    if (measured.failed() == 0) return;
    const bool on_purpose = shared_.mischief.fault_every != 0;
    const bool incomplete = which == Phase::kLoad && !on_purpose;
    if (incomplete)
        fmt::print(stderr, "kvctl: {} of {} records could not be written\n", measured.failed(),
                   measured.operations());
    if (incomplete || measured.failed() == measured.operations()) context_.exit = kFailed;
}

void Bench::report(Phase, const RunResult& result) {
    Json store = store_lines(shared_, result, phases_);
    if (context_.json) {
        Json all = measurement_json(result, percentiles_);
        for (const auto& [name, lines] : store.items()) all[name] = lines;
        if (shared_.checker != nullptr) {
            kv::check::Report checked = shared_.checker->report();
            all["CHECK"] = {{"Reads", checked.reads},
                            {"Writes", checked.writes},
                            {"Violations", checked.total()},
                            {"FracturedReads", shared_.checker->fractured()}};
        }
        return context_.print(all);
    }
    std::fputs(ycsb::report(result.measurements, result.run_time, percentiles_).c_str(), stdout);
    print_lines(store);
}

Status Bench::finish() {
    if (shared_.checker == nullptr) return Status::ok();
    // All acknowledged writes must still be present.
    uint64_t count = static_cast<uint64_t>(workload_.insertions().last() + 1);
    Status read = read_everything(shared_, workload_, count, false);
    Status settled = settle_history(shared_);
    report_check();
    WSS_TRY(read);
    return settled;
}

void Bench::report_check() {
    kv::check::Report checked = shared_.checker->report();
    if (checked.total() != 0) context_.exit = kViolation;
    if (!context_.json) {
        print_lines({{"CHECK",
                      {{"Reads", checked.reads},
                       {"Writes", checked.writes},
                       {"NotChecked", checked.unchecked},
                       {"FracturedReads", shared_.checker->fractured()},
                       {"Violations", checked.total()}}}});
    }
    if (checked.total() != 0 || !context_.json)
        std::fprintf(stderr, "kvctl: verified: %s\n", checked.to_string().c_str());
}

Status Bench::run() {
    if (context_.client() == nullptr) return Status::ok();  // the error was already reported
    WSS_TRY(prepare());
    if (arguments_.phase != "run") WSS_TRY(phase(Phase::kLoad));
    if (arguments_.phase == "run" && shared_.checker != nullptr)
        WSS_TRY(read_everything(shared_, workload_, workload_.options().record_count, true));
    if (arguments_.phase != "load" && !interrupted) WSS_TRY(phase(Phase::kRun));
    return finish();
}

void bench(Context& context, const Arguments& arguments) {
    auto percentiles = parse_percentiles(arguments.percentiles);
    if (!percentiles) return context.fail_with(kUsage, percentiles.status().to_string());
    auto properties = collect(arguments);
    if (!properties) return context.fail_with(kUsage, properties.status().to_string());
    auto options = WorkloadOptions::from(*properties);
    if (!options) return context.fail_with(kUsage, options.status().to_string());
    if (options->operation_count == 0 && options->seconds_max == 0)
        return context.fail_with(kUsage, "operationcount=0 never ends: give maxexecutiontime=SECONDS too");
    if (options->connections > 1 &&
        (arguments.verify || arguments.mischief.fault_every != 0 ||
         arguments.mischief.conditional_share > 0 || arguments.mischief.delete_share > 0))
        return context.fail_with(kUsage,
                                 "connectionsperthread > 1 cannot be combined with --verify, --fault-every, "
                                 "--conditional-share or --delete-share");
    if (arguments.verify && options->record_bytes() < kv::check::stamp_bytes(options->txn_length))
        return context.fail_with(
            kUsage,
            fmt::format(
                "--verify needs values of at least {} bytes for {} keys in a transaction: -p fieldlength={}",
                kv::check::stamp_bytes(options->txn_length), options->txn_length,
                kv::check::stamp_bytes(options->txn_length)));
    interrupted = false;
    struct sigaction action {
    }, before{};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, &before);
    Bench run(context, arguments, *options, *percentiles);
    if (Status status = run.run(); !status) context.fail(status);
    sigaction(SIGINT, &before, nullptr);
}

}  // namespace

void add_bench(CLI::App& app, Context& context) {
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command =
        app.add_subcommand("bench", "Run a YCSB workload: load the records, then run the operations");
    command->add_option("-P,--property-file", arguments->files,
                        "A property file in YCSB's format; repeatable");
    command
        ->add_option("-p,--property", arguments->properties,
                     "NAME=VALUE, overrides those of files; repeatable")
        ->allow_extra_args(false);
    command->add_option("--workload", arguments->workload, "One of YCSB's core workloads: a, b, c, d, e, f");
    command->add_option("--phase", arguments->phase, "load, run or both")
        ->check(CLI::IsMember({"load", "run", "both"}))
        ->capture_default_str();
    command->add_option("--seed", arguments->seed, "The same seed draws the same operations")
        ->capture_default_str();
    command->add_option("--percentiles", arguments->percentiles, "Percentiles of latency in the report")
        ->capture_default_str();
    command->add_flag("--status", arguments->status,
                      "Print a line every status.interval seconds, to standard error");
    CLI::Option* verify = command->add_flag("--verify", arguments->verify,
                                            "Check isolation while running (exit status 6: violated)");
    command
        ->add_option("--history", arguments->history,
                     "Record the operations of every session, for 'kvctl check' and other checkers")
        ->needs(verify);
    command->add_option("--fault-every", arguments->mischief.fault_every,
                        "Abandon every n-th write before it is complete, like a client that dies");
    command
        ->add_option(
            "--conditional-share", arguments->mischief.conditional_share,
            "Share of updates that read keys and write some of them on the condition that none has changed")
        ->check(CLI::Range(0.0, 1.0));
    command
        ->add_option("--delete-share", arguments->mischief.delete_share,
                     "Share of written keys that are deleted instead")
        ->check(CLI::Range(0.0, 1.0));
    command->footer(
        "Additional properties: txnlen=N (an operation is a transaction of N records), warmup=SECONDS.\n"
        "Example: kvctl bench --workload a -p threadcount=4 -p txnlen=8 -p operationcount=100000 --verify");
    command->callback([&context, arguments] { bench(context, *arguments); });
}

}  // namespace wss::kvctl
