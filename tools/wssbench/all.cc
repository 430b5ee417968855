// SPDX-License-Identifier: Apache-2.0
// wssbench all: measures every figure of the papers and the scaling table, one after another, and writes them
// to a directory. results.json has a card for each figure of the papers (card.h). figures.json has the output
// of each command, with every turn. report.html has both. The files are written again after each figure. So
// an interruption keeps the finished figures, and --resume continues. A figure is the output of its own
// command; the figures of the driver share one boot of each kernel.
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tools/wssbench/card.h"
#include "tools/wssbench/lab.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/report.h"
#include "tools/wssbench/source_tree.h"

namespace wss::wssbench {

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr double kFigureSeconds = 86400;  // time limit for one figure, with many repeats
constexpr double kStopSeconds = 20;

// A figure, by its command. The words of a quick run select three points of each axis. The seconds are those
// of a machine with two processors. They give the first estimate of the remaining time.
struct Entry {
    std::string name;
    Words command, full, quick;
    double full_seconds, quick_seconds;
};

const std::vector<Entry>& commands() {
    static const std::vector<Entry> all = {
        {"local",
         {"local"},
         {"--threads", "1,4,16,64,128", "--operation", "read,write"},
         {"--threads", "1,16,64", "--size", "512,4K,64K", "--method", "static,aio", "--file-size", "64M"},
         410,
         12},
        {"echo",
         {"echo"},
         {"--operation", "read,write"},
         {"--connections", "1,4,8", "--size", "512,4K,64K"},
         453,
         24},
        {"remote",
         {"remote"},
         {"--pattern", "random,sequential"},
         {"--connections", "1,4,8", "--size", "512,4K,64K", "--method", "static,dynamic,aio", "--fabric",
          "shm", "--file-size", "64M"},
         1792,
         72},
        {"remote-threads",
         {"remote", "--no-bounds", "--method", "static", "--fabric", "shm", "--operation", "read", "--size",
          "512"},
         {"--connections", "8", "--threads", "1,2,4,8,16,32,64,128"},
         {"--connections", "4", "--threads", "4,16,64", "--file-size", "64M"},
         72,
         3},
        {"replay",
         {"replay"},
         {"--method", "static,aio"},
         {"--threads", "1,16,64", "--accesses", "1000", "--file-size", "64M"},
         93,
         24},
        {"affinity", {"affinity"}, {}, {"--quick"}, 180, 25},
        {"pollers", {"pollers"}, {}, {"--quick"}, 125, 9},
        {"net", {"net"}, {}, {"--size", "8,64,512,64K"}, 358, 16},
        {"mr", {"mr"}, {"--fabric", "shm,tcp"}, {"--size", "4K,64K,1M"}, 57, 4},
        {"burst", {"burst"}, {}, {"--size", "4K", "--fabric", "shm"}, 307, 5},
        {"scsi", {"scsi"}, {}, {"--size", "512,4K,64K", "--fabric", "shm"}, 335, 18},
        {"ramp-transports", {"ramp", "transports"}, {}, {"--quick"}, 18, 8},
        {"ramp-size", {"ramp", "size"}, {}, {"--quick"}, 140, 26},
        {"ramp-mix", {"ramp", "mix"}, {}, {"--quick"}, 133, 26},
        {"ramp-ycsb", {"ramp", "ycsb"}, {}, {"--quick"}, 148, 26},
        {"ramp-algorithms", {"ramp", "algorithms"}, {}, {"--quick"}, 150, 20},
        // DriverFigures measures these, once for each kernel and network.
        {"mlockv", {"mlockv"}, {}, {"--quick"}, 200, 25},
        {"raw", {"raw"}, {}, {"--quick"}, 350, 60},
        {"block", {"block"}, {}, {"--quick"}, 200, 30},
        {"breakdown", {"breakdown"}, {}, {"--quick"}, 90, 8},
        {"scaling", {"scaling"}, {}, {"--quick"}, 417, 40}};
    return all;
}

bool is_of_driver(const std::string& name) {
    return std::ranges::count(driver_figures(), name) > 0;
}

struct Arguments {
    std::string out;
    std::vector<std::string> only;
    bool no_lab = false, resume = false;
    LabOptions lab;
};

class Run {
  public:
    Run(Context& context, const Arguments& arguments)
        : context_(context), arguments_(arguments), driver_(arguments.lab) {}

    void all() {
        if (Status status = choose(); !status) return context_.fail(status.within("all"));
        if (!prepare()) return;
        if (arguments_.resume) read_finished();
        for (size_t i = 0; i < chosen_.size() && !interrupted(); ++i) {
            progress(fmt::format("{}, {} of {}, about {:.1f} min left", chosen_[i]->name, i + 1,
                                 chosen_.size(), minutes_left(i)));
            measure(*chosen_[i]);
            if (interrupted()) add_rest();
            save(i + 1 < chosen_.size() || interrupted());
        }
        if (interrupted()) {
            context_.exit = kFailed;
            progress("interrupted; finished figures are kept");
        }
        std::printf("%s/report.html, results.json and figures.json: %zu of %zu figures in %.1f min\n",
                    arguments_.out.c_str(), results_.size(), chosen_.size(), (seconds_now() - begun_) / 60);
    }

  private:
    void progress(const std::string& text) const {
        if (!context_.settings.no_progress) std::fprintf(stderr, "wssbench: all: %s\n", text.c_str());
    }

    // Without the source tree, the driver's figures are left out, unless the user has chosen one.
    Status choose() {
        auto tree = source_tree();
        Words left_out;
        for (const Entry& entry : commands()) {
            bool wanted = arguments_.only.empty() || std::ranges::count(arguments_.only, entry.name) > 0;
            if (!wanted || (arguments_.no_lab && is_of_driver(entry.name))) continue;
            if (is_of_driver(entry.name) && !tree) {
                if (!arguments_.only.empty()) return tree.status().within(entry.name);
                left_out.push_back(entry.name);
                continue;
            }
            chosen_.push_back(&entry);
        }
        if (left_out.empty()) return Status::ok();
        remarks_.push_back(fmt::format("left out: {}: {}", fmt::join(left_out, ", "), tree.status().text()));
        std::fprintf(stderr, "wssbench: all: %s\n", remarks_.back().c_str());
        return Status::ok();
    }

    bool prepare() {
        std::error_code error;
        fs::create_directories(arguments_.out, error);
        if (error) context_.fail(Status::from_errno(error.value(), arguments_.out));
        return !error;
    }

    // Reads the complete figures of an earlier run of the same sources on the same machine.
    void read_finished() {
        std::ifstream file(arguments_.out + "/figures.json");
        Json earlier = Json::parse(file, nullptr, false), here = machine();
        if (!earlier.is_array()) return;
        for (Json& figure : earlier) {
            bool complete = !figure.contains("error") && !figure.contains("interrupted");
            bool same = figure.value("source", "") == source_;
            for (const char* key : {"processors", "model", "kernel"})
                same =
                    same && figure.contains("machine") && figure["machine"].value(key, Json()) == here[key];
            if (complete && same) finished_.push_back(std::move(figure));
        }
    }

    const Json* finished(const Entry& entry) const {
        std::string command = text_of(entry);
        auto found = std::ranges::find_if(
            finished_, [&](const Json& figure) { return figure.value("command", "") == command; });
        return found == finished_.end() ? nullptr : &*found;
    }

    void measure(const Entry& entry) {
        if (const Json* earlier = finished(entry)) return results_.push_back(*earlier);
        auto figure = is_of_driver(entry.name) ? of_driver(entry) : of_command(entry);
        if (figure) return results_.push_back(std::move(*figure));
        if (interrupted()) return;
        context_.fail(figure.status().within("all: " + entry.name));
        results_.push_back({{"figure", entry.name},
                            {"title", entry.name},
                            {"paper", ""},
                            {"rows", Json::array()},
                            {"bound", nullptr},
                            {"ratio", nullptr},
                            {"error", figure.status().to_string()}});
    }

    // Runs the figure's command. If it is interrupted, it prints its finished points.
    Result<Json> of_command(const Entry& entry) {
        Words words = command_of(entry), call = words;
        call.emplace_back("--json");
        if (context_.settings.no_progress) call.emplace_back("--no-progress");
        auto child = Child::start(call, {.on_interrupt = OnInterrupt::kPassOn, .shows_errors = true});
        if (!child) return child.status();
        std::string printed;
        for (;;) {
            auto line = (*child)->line(kFigureSeconds);
            if (!line) break;
            printed += *line + "\n";
        }
        Status ended = (*child)->wait(kStopSeconds);
        if (!ended) context_.exit = kFailed;
        Json figure = Json::parse(printed, nullptr, false);
        if (!figure.is_object())
            return ended ? Status(Code::kInternal, "the command printed no figure") : ended;
        figure["command"] = text_of(entry);
        return completed(std::move(figure));
    }

    std::string text_of(const Entry& entry) const {
        return fmt::format("{}", fmt::join(command_of(entry), " "));
    }

    Words command_of(const Entry& entry) const {
        const Settings& settings = context_.settings;
        Words words = {"wssbench"};
        for (const Words& more : {entry.command, settings.quick ? entry.quick : entry.full})
            words.insert(words.end(), more.begin(), more.end());
        if (is_of_driver(entry.name)) {
            Words lab = arguments_.lab.words();
            words.insert(words.end(), lab.begin(), lab.end());
            return words;
        }
        words.insert(words.end(),
                     {"--seconds", fmt::format("{}", settings.seconds), "--warm-up",
                      fmt::format("{}", settings.warm_up), "--repeats", std::to_string(settings.repeats)});
        if (!settings.pin) words.emplace_back("--no-pin");
        if (!settings.address.empty()) words.insert(words.end(), {"--address", settings.address});
        if (!settings.directory.empty()) words.insert(words.end(), {"--directory", settings.directory});
        return words;
    }

    Result<Json> of_driver(const Entry& entry) {
        if (!driver_measured_) {
            Words names;
            for (const Entry* one : chosen_)
                if (is_of_driver(one->name) && finished(*one) == nullptr) names.push_back(one->name);
            driver_measured_ = true;
            driver_.measure(names, context_);
            if (!driver_.failure_of_it()) context_.fail(driver_.failure_of_it().within("all: lab"));
        }
        auto figure = driver_.figure(entry.name, context_);
        if (!figure) return figure;
        (*figure)["command"] = text_of(entry);
        return completed(std::move(*figure));
    }

    // Called after an interruption: adds the figures that an earlier run or the machine had measured and that
    // the report lacks.
    void add_rest() {
        for (const Entry* entry : chosen_) {
            std::string command = text_of(*entry);
            auto is_this = [&](const Json& figure) { return figure.value("command", "") == command; };
            if (std::ranges::any_of(results_, is_this)) continue;
            if (const Json* earlier = finished(*entry)) {
                results_.push_back(*earlier);
            } else if (driver_measured_ && is_of_driver(entry->name)) {
                if (auto figure = of_driver(*entry)) results_.push_back(std::move(*figure));
            }
        }
    }

    // all_cards() computes the cards again, for all figures.
    Json completed(Json figure) const {
        figure.erase("cards");
        figure["source"] = source_;
        return figure;
    }

    // Estimates the remaining time from the entries' seconds, corrected by this machine's speed so far.
    double minutes_left(size_t done) const {
        double before = 0, after = 0;
        for (size_t i = 0; i < chosen_.size(); ++i) {
            const Entry& entry = *chosen_[i];
            if (finished(entry) != nullptr) continue;
            double seconds = context_.settings.quick ? entry.quick_seconds : entry.full_seconds;
            if (is_of_driver(entry.name)) seconds *= static_cast<double>(arguments_.lab.parts());
            (i < done ? before : after) += seconds;
        }
        double factor = before > 0 ? (seconds_now() - begun_) / before : 1;
        return after * factor / 60;
    }

    void save(bool unfinished) {
        std::vector<std::string> remarks = remarks_;
        if (unfinished) remarks.emplace_back("This run was not finished.");
        std::ofstream report(arguments_.out + "/report.html");
        report << page(results_, remarks);
        bool written = write("figures.json", results_) && write("results.json", all_cards(results_));
        if (!written || !report.flush())
            context_.fail(failure(Code::kIo, "{}: the results cannot be written", arguments_.out));
    }

    bool write(const std::string& name, const Json& content) const {
        std::string path = arguments_.out + "/" + name;
        std::ofstream file(path + ".new");
        file << content.dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
        std::error_code error;
        if (file.flush()) fs::rename(path + ".new", path, error);
        return file && !error;
    }

    Context& context_;
    const Arguments& arguments_;
    std::vector<const Entry*> chosen_;
    std::vector<Json> results_, finished_;
    std::vector<std::string> remarks_;
    DriverFigures driver_;
    bool driver_measured_ = false;
    const std::string source_ = source_version();
    const double begun_ = seconds_now();
};

}  // namespace

void add_all(CLI::App& app, Context& context) {
    static Arguments arguments;
    Words names;
    for (const Entry& entry : commands()) names.push_back(entry.name);
    CLI::App* command = app.add_subcommand("all", "Measure everything, into an HTML report and results.json");
    command->add_option("--out", arguments.out, "Directory for report.html, results.json and figures.json")
        ->required()
        ->type_name("DIR");
    command
        ->add_option("--only", arguments.only,
                     fmt::format("Only these figures, of {}", fmt::join(names, ", ")))
        ->check(CLI::IsMember(names))
        ->type_name("FIGURE");
    command->add_flag("--no-lab", arguments.no_lab, "Skip the figures that need the lab and the source tree");
    command->add_flag(
        "--resume", arguments.resume,
        "Keep the figures that an earlier run into DIR finished, if its sources and machine were the same");
    add_lab_options(*command, arguments.lab);
    command->callback([&context] { Run(context, arguments).all(); });
}

}  // namespace wss::wssbench
