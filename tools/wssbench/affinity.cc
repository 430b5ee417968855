// SPDX-License-Identifier: Apache-2.0
// wssbench affinity: a query whose blocks lie on the storage of several nodes. Its operators run on random
// nodes, all where their blocks are, all elsewhere, or where lib/affinity places them. Paper C leaves this
// placement open.
//
// Each operator of the trace has a home, as if the tables were partitioned by customer. The more homes are on
// one node, the longer that node works alone if no node reads remotely. Each turn first measures the rates of
// local and remote reads. Our placement uses the medians of the rates that were measured so far. The bound is
// computed from the rates of the same turn.
#include "tools/wssbench/affinity.h"

#include <algorithm>
#include <map>
#include <optional>

#include "lib/base/size.h"
#include "lib/base/summary.h"
#include "tools/wssbench/affinity_cluster.h"

namespace wss::wssbench {

namespace {

using affinity::Policy;

constexpr const char* kOurs = "ours";
constexpr std::pair<const char*, std::optional<Policy>> kPlacements[] = {{"random", Policy::kRandom},
                                                                         {"local", Policy::kLocal},
                                                                         {"remote", Policy::kRemote},
                                                                         {kOurs, std::nullopt}};
// What the capacity rows measure: each node reads its own storage, each reads the storage of the others, or
// all read the storage of node 0.
constexpr const char* kCapacities[] = {"local", "remote", "one storage"};

const std::vector<uint32_t> kHot = {25, 40, 55, 70, 85, 100}, kQuickHot = {25, 55, 85};

struct Arguments {
    std::string trace, size = "16K", file_size = "64M";
    std::vector<std::string> fabrics = {"tcp"}, paths;
    std::vector<uint32_t> hot;  // percentages of blocks on node 0; empty: kHot, or kQuickHot
    uint32_t nodes = 4, workers = 2, length = 16, stray = 0, accesses = 8000, delay_us = 1000;
    uint64_t seed = 1;
};

std::string name_of(Policy policy) {
    return policy == Policy::kAffinity ? "affinity" : policy == Policy::kLocal ? "local" : "remote";
}

// What the points of one fabric share. The targets start when the first point is measured.
class Group {
  public:
    Group(Context& context, const Arguments& arguments, std::shared_ptr<Storage> storage, std::string fabric,
          uint32_t bytes)
        : settings_(context.settings),
          arguments_(arguments),
          storage_(std::move(storage)),
          options_{.nodes = arguments.nodes,
                   .workers = arguments.workers,
                   .bytes = bytes,
                   .fabric = std::move(fabric)} {
        for (uint32_t node = 0; node < arguments.nodes; ++node) options_.backends.push_back(backend(node));
    }

    Result<Sample> capacity(const std::string& kind, const Window& window) {
        WSS_TRY(prepare());
        RepeatedWork work(reads(kind));
        auto sample = cluster_->run(work, window, settings_);
        if (!sample) return sample;
        measured_[kind].push_back(sample->rate);
        return sample;
    }

    Result<Sample> query(const PlacedQuery& query, std::optional<Policy> policy) {
        WSS_TRY(prepare());
        if (measured_.size() < std::size(kCapacities))
            return Status(Code::kUnavailable, "the rates of local and remote reads were not measured");
        affinity::Cluster cluster{arguments_.nodes, arguments_.workers, rates()};
        Policy chosen = policy ? *policy : affinity::choose(cluster, query.operators);
        // Each turn uses another seed, so that the median is not that of a single random placement.
        QueryWork work(query.accesses, affinity::Schedule(cluster, query.operators, chosen, ++runs_),
                       options_);
        auto sample = cluster_->run(work, {.warm_up = 0, .seconds = 0}, settings_);
        if (!sample) return sample;
        sample->more["run_seconds"] = all_accesses(query) / sample->rate;
        if (!policy) sample->more["policy"] = name_of(chosen);
        return sample;
    }

  private:
    // The medians of the rates measured so far.
    affinity::Rates rates() const {
        auto rate = [&](const char* kind) { return summarise(measured_.at(kind)).median; };
        double local = rate("local") / arguments_.nodes, remote = rate("remote") / arguments_.nodes;
        // A remote read includes a local read on the other node. A higher remote rate is noise.
        return {local, std::min(remote, local), rate("one storage")};
    }

    static double all_accesses(const PlacedQuery& query) {
        double all = 0;
        for (const auto& accesses : query.accesses) all += static_cast<double>(accesses.size());
        return all;
    }

    std::string backend(uint32_t node) const {
        if (!arguments_.paths.empty()) return "aio:" + arguments_.paths[node];
        std::string memory = fmt::format("ram:{}", storage_->bytes());
        return arguments_.delay_us > 0 ? fmt::format("delay:us={}:{}", arguments_.delay_us, memory) : memory;
    }

    Status prepare() {
        if (cluster_) return Status::ok();
        auto started = NodeCluster::start(options_, settings_, *storage_);
        if (started) cluster_ = std::move(*started);
        return started.status();
    }

    // Makes random reads for each node.
    std::vector<std::vector<NodeAccess>> reads(const std::string& kind) const {
        constexpr size_t kReads = 4096;
        std::vector<std::vector<NodeAccess>> all(options_.nodes);
        for (uint32_t node = 0; node < options_.nodes; ++node) {
            RandomAccesses random({.bytes = options_.bytes, .span = storage_->bytes()}, node + 1);
            for (size_t i = 0; i < kReads; ++i) {
                auto other = static_cast<uint32_t>((node + 1 + i % (options_.nodes - 1)) % options_.nodes);
                NodeAccess read{kind == "local" ? node : kind == "remote" ? other : 0, {}};
                random.next(read.access);
                all[node].push_back(read);
            }
        }
        return all;
    }

    const Settings& settings_;
    const Arguments& arguments_;
    const std::shared_ptr<Storage> storage_;
    ClusterOptions options_;
    std::unique_ptr<NodeCluster> cluster_;
    std::map<std::string, std::vector<double>> measured_;  // accesses per second of all nodes together
    uint64_t runs_ = 0;
};

void add_points(Figure& figure, const std::string& fabric, const std::shared_ptr<Group>& group,
                const std::shared_ptr<std::vector<PlacedQuery>>& queries) {
    for (const char* kind : kCapacities)
        figure.points.push_back(
            {{{"what", "capacity"}, {"fabric", fabric}, {"placement", kind}},
             [group, kind](const Window& window) { return group->capacity(kind, window); }});
    for (const PlacedQuery& query : *queries)
        for (const auto& [name, policy] : kPlacements)
            figure.points.push_back(
                {{{"what", "query"},
                  {"fabric", fabric},
                  {"placement", name},
                  {"hot_percent", query.hot_percent}},
                 [group, queries, &query, its = policy](const Window&) { return group->query(query, its); }});
}

Result<IoTrace> trace_of(const Arguments& arguments, uint64_t span) {
    if (!arguments.trace.empty()) return read_io_trace(arguments.trace, span);
    auto sizes = sizes_of({arguments.size});
    if (!sizes) return sizes.status();
    return make_q3_trace(sizes->front(), span, arguments.accesses, arguments.seed);
}

// Number of bytes of each node's storage.
Result<std::shared_ptr<Storage>> storage_of(const Context& context, const Arguments& arguments) {
    auto bytes = parse_size(arguments.file_size);
    if (!bytes) return bytes.status();
    if (!arguments.paths.empty() && arguments.paths.size() != arguments.nodes)
        return failure(Code::kInvalid, "--path has {} devices for {} nodes: name one for each",
                       arguments.paths.size(), arguments.nodes);
    for (const std::string& path : arguments.paths) {
        auto device = Storage::create(context.settings, path, *bytes);
        if (!device) return device;
        *bytes = (*device)->bytes();
    }
    return Storage::create(context.settings, "", *bytes);
}

std::string conditions_of(const Arguments& arguments) {
    std::string storage = !arguments.paths.empty()
                              ? "a device of its own"
                              : fmt::format("memory that answers after {} us", arguments.delay_us);
    return fmt::format(
        "{} nodes on this machine, each with {} workers, a wss-target and {}; a node reads its own storage "
        "over shm and that of the others over the fabric of the row; a query runs from its beginning to its "
        "end, without warm-up; its operators are placed by medians of the rates that were measured before it",
        arguments.nodes, arguments.workers, storage);
}

void affinity_figure(Context& context, const Arguments& arguments) {
    auto storage = storage_of(context, arguments);
    if (!storage) return context.fail(storage.status());
    auto trace = trace_of(arguments, (*storage)->bytes());
    if (!trace) return context.fail(trace.status());
    auto queries = std::make_shared<std::vector<PlacedQuery>>();
    const std::vector<uint32_t>& shares = !arguments.hot.empty()   ? arguments.hot
                                          : context.settings.quick ? kQuickHot
                                                                   : kHot;
    for (uint32_t hot : shares)
        queries->push_back(place_trace(*trace, arguments.nodes, arguments.length, hot, arguments.stray));
    Figure figure{
        .name = "affinity",
        .paper = "C, which leaves it unsolved",
        .title = "A query by the placement of its operators, and by the share of its blocks on one node",
        .unit = "IOPS",
        .x = "hot_percent",
        .series = {"placement", "fabric"},
        .add_ratio = [&](Json& its) {
            add_affinity_bounds(its, {.nodes = arguments.nodes, .workers = arguments.workers}, *queries);
        }};
    for (const std::string& fabric : arguments.fabrics)
        add_points(figure, fabric,
                   std::make_shared<Group>(context, arguments, *storage, fabric, trace->bytes_max), queries);
    Json result = run(context, figure);
    result["method"] = result["method"].get<std::string>() + "; " + conditions_of(arguments);
    context.deliver(result);
}

// The bounds of the turns, in accesses per second. There are fewer if a rate is missing.
std::vector<double> bounds_of_turns(const Json& rows, const std::string& fabric, affinity::Cluster cluster,
                                    const affinity::Operators& operators) {
    std::vector<double> rates[std::size(kCapacities)], bounds;
    for (size_t i = 0; i < std::size(kCapacities); ++i)
        if (const Json* row =
                row_of(rows, {{"what", "capacity"}, {"fabric", fabric}, {"placement", kCapacities[i]}}))
            rates[i] = turns_of(*row, "rate");
    double accesses = 0;
    for (const affinity::Operator& one : operators)
        for (uint32_t count : one.accesses) accesses += count;
    auto& [local, remote, storage] = rates;
    for (size_t turn = 0; turn < std::min({local.size(), remote.size(), storage.size()}); ++turn) {
        cluster.rates = {local[turn] / cluster.nodes, remote[turn] / cluster.nodes, storage[turn]};
        bounds.push_back(accesses / affinity::bound_seconds(cluster, operators));
    }
    return bounds;
}

// The row of one fabric and query, or null if a placement or a rate is missing.
Json bound_of(const Json& rows, const std::string& fabric, const affinity::Cluster& cluster,
              const PlacedQuery& query) {
    Json bound = {{"of", fmt::format("{} % on one node", query.hot_percent)},
                  {"fabric", fabric},
                  {"hot_percent", query.hot_percent}};
    std::vector<double> ours, ours_seconds;
    std::vector<std::vector<double>> others_seconds;
    for (const auto& [name, policy] : kPlacements) {
        const Json* row = row_of(
            rows,
            {{"what", "query"}, {"fabric", fabric}, {"placement", name}, {"hot_percent", query.hot_percent}});
        if (row == nullptr) return nullptr;
        bound[name] = (*row)["rate"];
        if (policy)
            others_seconds.push_back(turns_of(*row, "run_seconds"));
        else
            ours_seconds = turns_of(*row, "run_seconds"), ours = turns_of(*row, "rate");
    }
    std::vector<double> bounds = bounds_of_turns(rows, fabric, cluster, query.operators);
    if (bounds.empty()) return nullptr;
    bound["bound"] = rounded(summarise(bounds).median);
    bound.update(ratio_columns(ratios_in_turns(ours, {bounds})));
    std::vector<double> gains = ratios_in_turns(ours_seconds, others_seconds);
    for (double& gain : gains) gain = 1 / gain;
    Interval interval = interval_of_median(gains);
    bound.update(
        {{"gain", summarise(gains).median}, {"gain_low", interval.low}, {"gain_high", interval.high}});
    return bound;
}

}  // namespace

PlacedQuery place_trace(const IoTrace& trace, uint32_t nodes, uint32_t length, uint32_t hot_percent,
                        uint32_t stray_percent) {
    PlacedQuery query{.hot_percent = hot_percent};
    Random random(1);
    std::vector<double> share(nodes, (100.0 - hot_percent) / 100 / (nodes - 1)), count(nodes);
    share[0] = hot_percent / 100.0;
    for (size_t first = 0; first < trace.accesses.size(); first += length) {
        // The node that is furthest below its share.
        auto all = static_cast<double>(query.operators.size() + 1);
        uint32_t home = 0;
        for (uint32_t node = 1; node < nodes; ++node)
            if (share[node] * all - count[node] > share[home] * all - count[home]) home = node;
        ++count[home];
        std::vector<NodeAccess> accesses;
        affinity::Operator one{std::vector<uint32_t>(nodes)};
        for (size_t i = first; i < std::min<size_t>(first + length, trace.accesses.size()); ++i) {
            auto away =
                static_cast<uint32_t>(random.below(100) < stray_percent ? 1 + random.below(nodes - 1) : 0);
            accesses.push_back({(home + away) % nodes, trace.accesses[i]});
            ++one.accesses[accesses.back().node];
        }
        query.accesses.push_back(std::move(accesses));
        query.operators.push_back(std::move(one));
    }
    return query;
}

void add_affinity_bounds(Json& figure, affinity::Cluster cluster, const std::vector<PlacedQuery>& queries) {
    Json bounds = Json::array();
    std::vector<std::string> fabrics;
    for (const Json& row : figure["rows"])
        if (std::ranges::find(fabrics, row["fabric"].get<std::string>()) == fabrics.end())
            fabrics.push_back(row["fabric"]);
    for (const std::string& fabric : fabrics)
        for (const PlacedQuery& query : queries) {
            Json bound = bound_of(figure["rows"], fabric, cluster, query);
            if (bound.is_null()) continue;
            if (figure["ratio"].is_null() || bound["ratio"] < figure["ratio"])
                for (const char* key : {"bound", "ratio", "ratio_low", "ratio_high"})
                    figure[key] = bound[key];
            bounds.push_back(std::move(bound));
        }
    figure["bound_means"] = "what local and remote capacity allow together, by the rates of the same turn";
    figure["bound_is_limit"] = true;
    figure["bounds"] = std::move(bounds);
}

void add_affinity(CLI::App& app, Context& context) {
    static Arguments arguments;
    CLI::App* command = app.add_subcommand(
        "affinity", "Where the operators of a query run: random, local, remote, or placed (C, unsolved)");
    command->add_option("TRACE", arguments.trace,
                        "As for replay (default: a generated trace like that of TPC-H Q3)");
    command->add_option("--nodes", arguments.nodes, "Nodes, each with storage of its own")
        ->check(CLI::Range(2u, 16u))
        ->capture_default_str();
    command->add_option("--workers", arguments.workers, "Operators that a node runs at a time")
        ->check(CLI::Range(1u, 64u))
        ->capture_default_str();
    command->add_option("--operator", arguments.length, "Accesses of an operator")
        ->check(CLI::Range(1u, 100000u))
        ->capture_default_str();
    command
        ->add_option(
            "--hot", arguments.hot,
            "Percent of the blocks on the first node; the others share the rest (default: six shares "
            "from 25 to 100; with --quick three)")
        ->delimiter(',')
        ->check(CLI::Range(0u, 100u));
    command
        ->add_option("--stray", arguments.stray, "Percent of an operator's blocks that are not at its home")
        ->check(CLI::Range(0u, 100u))
        ->capture_default_str();
    add_fabric_option(*command, arguments.fabrics);
    command->add_option("--size", arguments.size, "Page size of the generated trace")->capture_default_str();
    command->add_option("--accesses", arguments.accesses, "Accesses of the generated trace")
        ->check(CLI::Range(100u, 10000000u))
        ->capture_default_str();
    command->add_option("--seed", arguments.seed, "Seed of the generated trace")->capture_default_str();
    command->add_option("--delay", arguments.delay_us, "Microseconds after which a node's storage answers")
        ->check(CLI::Range(0u, 1000000u))
        ->capture_default_str();
    command
        ->add_option("--path", arguments.paths,
                     "Devices instead, one for each node: FILE,FILE,…; writes destroy their contents")
        ->delimiter(',');
    command->add_option("--file-size", arguments.file_size, "Bytes of each node's storage")
        ->capture_default_str();
    command->callback([&context] { affinity_figure(context, arguments); });
}

}  // namespace wss::wssbench
