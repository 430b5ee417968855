// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/lab.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tools/wssbench/card.h"
#include "tools/wssbench/source_tree.h"

namespace wss::wssbench {

namespace {

constexpr double kPartSeconds = 3600;  // time limit for a part, which includes the boot of its machine and
                                       // the build of its driver
constexpr double kStopSeconds = 60;    // time limit to shut the machine down

struct Kind {
    const char* name;
    const char* paper;
    const char* title;
    const char* what;
    const char* x;
    std::vector<std::string> series;
    const char* unit;
};

const std::vector<Kind>& kinds() {
    static const std::vector<Kind> all = {
        {"mlockv",
         "D fig 13",
         "Requests as one region each, against one region for each segment",
         "One region per request against one per segment, in the lab (D fig 13)",
         "bytes",
         {"kernel", "network", "registered", "operation", "depth"},
         "IOPS"},
        {"raw",
         "D fig 15",
         "Raw I/O (O_DIRECT) by record size",
         "Raw I/O by record size, in the lab (D fig 15)",
         "bytes",
         {"kernel", "network", "operation", "depth"},
         "IOPS"},
        {"block",
         "D fig 16",
         "Block I/O through the page cache by record size",
         "Block I/O through the page cache, in the lab (D fig 16)",
         "bytes",
         {"system", "operation", "where", "kernel", "network"},
         "IOPS"},
        {"breakdown",
         "D tables 3, 4",
         "Where the time of a 64 KiB raw request goes",
         "Where the time of a request goes, in the lab (D tables 3, 4)",
         "stage",
         {"kernel", "network", "operation"},
         "requests"}};
    return all;
}

bool on_host() {
    const char* lab = std::getenv("LAB");
    return lab != nullptr && std::string_view(lab) == "host";
}

std::string method_of(const LabOptions& options) {
    std::string method =
        on_host()
            ? "seconds of this machine"
            : "one virtual machine, one processor, soft RDMA, its clock counts instructions (2 ns each): "
              "it shows what the work costs, not how long it takes on hardware";
    method += "; fio, one run";
    for (const std::string& word : options.kernel_arguments) method += "; kernel argument " + word;
    return method;
}

void add_option(std::vector<std::string>& words, const char* option, const std::vector<std::string>& values) {
    if (values.empty()) return;
    words.emplace_back(option);
    words.insert(words.end(), values.begin(), values.end());
}

}  // namespace

size_t LabOptions::parts() const {
    return on_host() ? 1 : networks.size() * kernels.size();
}

std::vector<std::string> LabOptions::words() const {
    const LabOptions usual;
    std::vector<std::string> all;
    if (networks != usual.networks) add_option(all, "--rdma", networks);
    if (kernels != usual.kernels) add_option(all, "--kernel", kernels);
    for (const std::string& word : kernel_arguments) add_option(all, "--kernel-argument", {word});
    return all;
}

void add_lab_options(CLI::App& command, LabOptions& options) {
    command
        .add_option(
            "--rdma", options.networks,
            "The lab's networks, one after the other: rxe (soft RoCE), siw (soft iWARP, built once from "
            "the kernel's own sources)")
        ->check(CLI::IsMember({"rxe", "siw"}))
        ->capture_default_str();
    command
        .add_option(
            "--kernel", options.kernels,
            "The lab's kernels, one after the other: installed (the newest one that is installed), newer "
            "(that of Debian's backports, fetched once), newest (that of Debian's stable release and its "
            "backports, fetched once)")
        ->check(CLI::IsMember({"installed", "newer", "newest"}))
        ->capture_default_str();
    command
        .add_option(
            "--kernel-argument", options.kernel_arguments,
            "For the lab's kernels, for example init_on_alloc=0 (pages are not cleared when allocated)")
        ->type_name("WORD")
        ->allow_extra_args(false);
}

std::vector<std::string> driver_figures() {
    std::vector<std::string> names;
    for (const Kind& kind : kinds()) names.emplace_back(kind.name);
    return names;
}

void LabParts::take(const Json& part) {
    if (part.contains("figure") && part.contains("measured"))
        parts_[part["figure"].get<std::string>()].push_back(part);
}

Json LabParts::joined(const std::string& figure) const {
    auto found = parts_.find(figure);
    if (found == parts_.end()) return nullptr;
    Json all = found->second.front()["measured"];
    for (const char* key : {"rows", "bounds"}) all[key] = Json::array();
    for (const Json& part : found->second) {
        const Json& measured = part["measured"];
        if (measured.contains("error")) return measured;
        for (const char* key : {"rows", "bounds"})
            for (const Json& row : measured.value(key, Json::array())) {
                Json labelled = {{"kernel", part["kernel"]}, {"network", part["network"]}};
                labelled.update(row);
                all[key].push_back(std::move(labelled));
            }
    }
    if (found->second.size() < wanted_) all["interrupted"] = true;
    return all;
}

void DriverFigures::measure(const std::vector<std::string>& names, const Context& context) {
    std::vector<std::string> words = {"--figures"};
    words.insert(words.end(), names.begin(), names.end());
    add_option(words, "--rdma", options_.networks);
    add_option(words, "--kernel", options_.kernels);
    for (const std::string& word : options_.kernel_arguments) words.push_back("--kernel-argument=" + word);
    if (!options_.module.empty()) add_option(words, "--module", {std::filesystem::absolute(options_.module)});
    if (context.settings.quick) words.emplace_back("--quick");
    if (context.settings.no_progress) words.emplace_back("--no-progress");
    auto measurer = start_measurer("lab", words, {.shows_errors = true});
    if (!measurer) {
        failure_ = measurer.status();
        return;
    }
    for (;;) {
        auto part = next_object(**measurer, kPartSeconds);
        if (!part) {
            if (part.status().code() != Code::kClosed) failure_ = part.status();
            break;
        }
        parts_.take(*part);
    }
    Status ended = (*measurer)->wait(kStopSeconds);
    if (failure_) failure_ = ended;
    if (interrupted()) failure_ = Status(Code::kClosed, "interrupted before it was measured");
}

Result<Json> DriverFigures::figure(const std::string& name, const Context& context) const {
    Json measured = parts_.joined(name);
    if (measured.is_null())
        return failure_ ? Status(Code::kInternal, "the machine reported nothing about " + name) : failure_;
    if (measured.contains("error")) return Status(Code::kUnavailable, measured["error"].get<std::string>());
    const Kind& kind = *std::ranges::find(kinds(), name, &Kind::name);
    Json result = head_of(context, {.name = kind.name,
                                    .paper = kind.paper,
                                    .title = kind.title,
                                    .unit = kind.unit,
                                    .x = kind.x,
                                    .series = kind.series,
                                    .method = method_of(options_),
                                    .measured = on_host() ? "seconds" : "counted instructions"});
    for (const char* key : {"rows", "bounds", "bound", "ratio"}) result[key] = measured.value(key, Json());
    result["bound_means"] = measured.value("bound_means", "");
    result["bound_is_limit"] = name == "raw";  // for the network alone; the bounds of the others are models
                                               // or ratios
    for (Json& row : result["rows"])
        row["badge"] = badge_of(row.value("system", "") == "memory" ? "local" : "rdma", false, !on_host());
    result["cards"] = cards_of(result);
    if (measured.contains("interrupted")) result["interrupted"] = true;
    return result;
}

void add_driver_figures(CLI::App& app, Context& context) {
    static LabOptions options;
    for (const Kind& kind : kinds()) {
        CLI::App* command = app.add_subcommand(kind.name, kind.what);
        command
            ->add_option("--module", options.module,
                         "wss.ko for the installed kernel (default: the one of the build)")
            ->type_name("FILE");
        add_lab_options(*command, options);
        command->callback([&context, name = std::string(kind.name)] {
            DriverFigures figures(options);
            figures.measure({name}, context);
            auto figure = figures.figure(name, context);
            if (!figure) return context.fail(figure.status().within(name));
            context.deliver(*figure);
            if (!figures.failure_of_it() && !interrupted()) context.fail(figures.failure_of_it());
        });
    }
}

}  // namespace wss::wssbench
