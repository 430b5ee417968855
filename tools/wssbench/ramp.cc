// SPDX-License-Identifier: Apache-2.0
// wssbench ramp: compares the key-value store's transports, by transaction size and by read share, with
// kvctl's YCSB runner. Reproduces figures 4 to 7 of paper A (Documentation/reproduction.md).
#include "tools/wssbench/ramp.h"

#include "tools/wssbench/kv_store.h"

namespace wss::wssbench {

namespace {

constexpr uint32_t kRecords = 1000, kThreads = 8, kPartitions = 4;
constexpr double kStartSeconds = 60;  // time for kvctl in addition to the measurement

// A system that the paper compares, with its options for kvctl and its native fabric.
struct System {
    const char* name;
    const char* fabric;
    std::vector<std::string> modes;
};

constexpr const char* kBase = "RAMP(GET,PUT)";
constexpr const char* kRings = "RAMP(GET+,PUT+)";
constexpr const char* kPaper = "RAMP(GET*,PUT+) paper";
constexpr const char* kOurs = "RAMP(GET*,PUT+) ours";

// The paper's sockets correspond to tcp.
std::vector<System> systems() {
    return {{"S2PL", "tcp", {"--algorithm", "2pl-sequential"}},
            {"S2PL parallel", "tcp", {"--algorithm", "2pl-parallel"}},
            {kBase, "tcp", {"--algorithm", "ramp-fast"}},
            {kRings, "shm", {"--transport", "ring"}},
            {kPaper, "shm", {"--one-sided", "paper", "--transport", "ring"}},
            {kOurs, "shm", {"--one-sided", "on", "--transport", "ring"}}};
}

std::vector<System> transports() {
    return {{"tcp messages", "tcp", {}},
            {"shm messages", "shm", {}},
            {"shm rings", "shm", {"--transport", "ring"}}};
}

// The paper states that GET+ and PUT+ also suit these algorithms, but measures only RAMP-Fast.
std::vector<System> algorithms() {
    return {{"RAMP-Fast", "shm", {"--algorithm", "ramp-fast", "--transport", "ring"}},
            {"RAMP-Small", "shm", {"--algorithm", "ramp-small", "--transport", "ring"}},
            {"RAMP-Hybrid", "shm", {"--algorithm", "ramp-hybrid", "--transport", "ring"}}};
}

std::vector<System> systems_of(const std::string& which) {
    if (which == "transports") return transports();
    return which == "algorithms" ? algorithms() : systems();
}

struct Load {
    uint32_t read_percent, operations, value_bytes;
};

KvProperties properties(const Load& load, double seconds) {
    double reads = load.read_percent / 100.0;
    return {{"recordcount", std::to_string(kRecords)},
            {"fieldcount", "1"},
            {"fieldlength", std::to_string(load.value_bytes)},
            {"txnlen", std::to_string(load.operations)},
            {"requestdistribution", "uniform"},
            {"readproportion", fmt::format("{}", reads)},
            {"updateproportion", fmt::format("{}", 1 - reads)},
            {"threadcount", std::to_string(kThreads)},
            {"operationcount", "0"},
            {"maxexecutiontime", std::to_string(whole_seconds(seconds))},
            {"warmup", std::to_string(kKvWarmUpSeconds)}};
}

// A store for each fabric, started when it is first used. An idle store uses no processor time.
class Stores {
  public:
    explicit Stores(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}
    Result<KvStore*> get(const std::string& fabric, uint32_t value_bytes) {
        auto& store = stores_[fabric];
        if (store) return store.get();
        auto started = KvStore::start(fabric, kPartitions, *storage_);
        if (!started) return started.status();
        auto loaded = (*started)->bench(properties({100, 1, value_bytes}, 1), "load", kStartSeconds);
        if (!loaded) return loaded.status();
        store = std::move(*started);
        return store.get();
    }

  private:
    const std::shared_ptr<Storage> storage_;
    std::map<std::string, std::unique_ptr<KvStore>> stores_;
};

Result<Sample> measure(Stores& stores, const System& system, const Load& load, double seconds) {
    auto store = stores.get(system.fabric, load.value_bytes);
    if (!store) return store.status();
    auto report = (*store)->bench(properties(load, seconds), "run", seconds + kStartSeconds, system.modes);
    if (!report) return report.status();
    auto sample = sample_of_report(*report);
    if (!sample) return sample;
    Json kv = report->value("KV", Json::object());
    sample->more = {{"fabric", system.fabric},
                    {"fallback_percent", kv.value("FallbackShare(%)", 0.0)},
                    {"one_sided", kv.value("OneSidedReads", uint64_t{0})},
                    {"by_message", kv.value("ReadsByMessage", uint64_t{0})}};
    return sample;
}

// One figure: the systems by number of operations in a transaction, or by read share.
struct Plan {
    const char* which;
    const char* paper;
    const char* title;
    Load load;
    std::vector<uint32_t> values, quick_values;
    RampComparison comparison;
};

std::vector<Plan> plans() {
    const std::vector<uint32_t> shares = {0, 25, 50, 75, 100}, few_shares = {0, 50, 100};
    auto against_base = [](const char* x, uint32_t at, double rings, double paper) -> RampComparison {
        return {x, at, kBase, {{kRings, rings}, {kPaper, paper}, {kOurs, std::nullopt}}};
    };
    return {
        {"transports",
         "A fig 4",
         "Transports: RAMP-Fast, 95 % reads, 8 operations in a transaction",
         {95, 8, 1000},
         {8},
         {8},
         {"operations", 8, "tcp messages", {{"shm messages", 2.39}, {"shm rings", 2.53}}}},
        {"size",
         "A fig 5",
         "Transaction size, 95 % reads",
         {95, 0, 1000},
         {1, 2, 4, 8, 16},
         {1, 4, 16},
         against_base("operations", 4, 2.07, 2.78)},
        {"mix",
         "A fig 6",
         "Read share, micro-benchmark of small values, 8 operations",
         {0, 8, 100},
         shares,
         few_shares,
         against_base("read_percent", 100, 1.94, 2.69)},
        {"ycsb",
         "A fig 7",
         "Read share, YCSB, 1 KB values, 1000 keys, uniform, 8 operations",
         {0, 8, 1000},
         shares,
         few_shares,
         against_base("read_percent", 100, 2.06, 2.67)},
        {"algorithms",
         "A, which leaves it open",
         "RAMP-Fast, RAMP-Small and RAMP-Hybrid over written rings, by the share of reads",
         {0, 8, 1000},
         shares,
         few_shares,
         {"read_percent", 100, "RAMP-Fast", {{"RAMP-Small", std::nullopt}, {"RAMP-Hybrid", std::nullopt}}}}};
}

Figure figure_of(const Plan& plan, const Settings& settings, std::shared_ptr<Stores> stores) {
    const std::string& x = plan.comparison.x;
    Figure figure{
        .name = std::string("ramp-") + plan.which,
        .paper = plan.paper,
        .title = plan.title,
        .unit = "transactions/s",
        .x = x,
        .series = {"system"},
        .add_ratio = [of = plan.comparison](Json& result) { compare(of, result); },
        .method = fmt::format(
            "seconds of this machine; {} s after {} s of warm-up, median of {} in turns; not pinned; "
            "tcp stands for sockets, shm for the network of rings and messages",
            whole_seconds(settings.seconds), kKvWarmUpSeconds, settings.repeats)};
    for (const System& system : systems_of(plan.which))
        for (uint32_t value : settings.quick ? plan.quick_values : plan.values) {
            Load load = plan.load;
            (x == "operations" ? load.operations : load.read_percent) = value;
            figure.points.push_back({{{"system", system.name}, {x, value}},
                                     [stores, system, load](const Window& window) {
                                         return measure(*stores, system, load, window.seconds);
                                     },
                                     1.5});
        }
    return figure;
}

void ramp(Context& context, const std::string& which) {
    auto storage = Storage::create(context.settings, "", 0);
    if (!storage) return context.fail(storage.status());
    auto stores = std::make_shared<Stores>(*storage);
    for (const Plan& plan : plans())
        if (which == plan.which) context.deliver(run(context, figure_of(plan, context.settings, stores)));
}

}  // namespace

void compare(const RampComparison& comparison, Json& figure) {
    auto row = [&](const std::string& system) {
        return row_of(figure["rows"], {{"system", system}, {comparison.x, comparison.at}});
    };
    const Json* base = row(comparison.base);
    Json bounds = Json::array();
    for (const auto& [system, paper] : comparison.systems) {
        const Json* ours = row(system);
        if (base == nullptr || ours == nullptr) return;
        Json bound = {{"system", system},
                      {comparison.x, comparison.at},
                      {"rate", (*ours)["rate"]},
                      {"base", comparison.base},
                      {"bound", paper ? Json(*paper) : Json(nullptr)}};
        bound.update(ratio_columns(ratios_of_turns(*ours, *base)));
        bounds.push_back(std::move(bound));
    }
    for (const Json& bound : bounds)
        if (!bound["bound"].is_null()) figure.update({{"bound", bound["bound"]}, {"ratio", bound["ratio"]}});
    figure["bounds"] = std::move(bounds);
    figure["bound_means"] = "the paper's ratio";
}

void add_ramp(CLI::App& app, Context& context) {
    static std::string which;
    CLI::App* command =
        app.add_subcommand("ramp", "RAMP: transports, size, mix, ycsb (A figs 4-7), algorithms");
    command->add_option("WHICH", which, "transports, size, mix, ycsb or algorithms")
        ->required()
        ->check(CLI::IsMember({"transports", "size", "mix", "ycsb", "algorithms"}));
    command->callback([&context] { ramp(context, which); });
}

}  // namespace wss::wssbench
