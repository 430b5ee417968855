// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/figure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/wssbench/paper.h"

namespace wss::wssbench {

namespace {

class Progress {
  public:
    Progress(const Context& context, const Figure& figure, double per_round, size_t all)
        : name_(figure.name),
          all_(all),
          expected_(per_round * context.settings.repeats),
          shown_(!context.settings.no_progress),
          terminal_(isatty(STDERR_FILENO) == 1) {}
    ~Progress() {
        if (shown_ && terminal_) std::fprintf(stderr, "\r\033[K");
    }
    void show(size_t done, const Json& labels) {
        if (!shown_) return;
        double passed = seconds_now() - start_;
        // The estimate moves from the planned time to the extrapolated one as more points are done.
        double share = static_cast<double>(done) / static_cast<double>(all_);
        double whole = done == 0 ? expected_ : (1 - share) * expected_ + share * passed / share;
        std::string text = fmt::format("wssbench: {}: {} of {}, about {:.0f} s left: {}", name_, done + 1,
                                       all_, std::max(whole - passed, 0.0), labels.dump());
        if (terminal_)
            std::fprintf(stderr, "\r\033[K%.150s", text.c_str());
        else if (done == 0 || seconds_now() - said_ > kQuiet) {
            std::fprintf(stderr, "%s\n", text.c_str());
            said_ = seconds_now();
        }
        std::fflush(stderr);
    }

  private:
    static constexpr double kQuiet = 10;  // seconds between two lines in a log
    const std::string name_;
    const size_t all_;
    const double expected_;
    const bool shown_, terminal_;
    const double start_ = seconds_now();
    double said_ = 0;
};

struct Taken {
    std::vector<Sample> samples;
    Status failure;
};

std::vector<Taken> measure_in_turns(const Context& context, const Figure& figure) {
    const Settings& settings = context.settings;
    Window window{settings.warm_up, settings.seconds};
    double per_round = 0;
    for (const Point& point : figure.points)
        per_round += window.warm_up + window.seconds + point.extra_seconds;
    std::vector<Taken> taken(figure.points.size());
    Progress progress(context, figure, per_round, figure.points.size() * settings.repeats);
    for (uint32_t round = 0; round < settings.repeats; ++round) {
        for (size_t i = 0; i < figure.points.size(); ++i) {
            if (interrupted()) return taken;
            if (!taken[i].failure) continue;
            progress.show(round * figure.points.size() + i, figure.points[i].labels);
            auto sample = figure.points[i].measure(window);
            if (interrupted()) return taken;  // an incomplete measurement is discarded
            if (sample)
                taken[i].samples.push_back(std::move(*sample));
            else
                taken[i].failure = sample.status();
        }
    }
    return taken;
}

Json rows_of(Context& context, const Figure& figure, const std::vector<Taken>& taken) {
    Json rows = Json::array();
    for (size_t i = 0; i < taken.size(); ++i) {
        if (taken[i].samples.empty() && taken[i].failure) continue;  // interrupted before its turn
        Json row = figure.points[i].labels;
        if (!taken[i].samples.empty()) row.update(summary(taken[i].samples));
        if (row.contains("bytes") && row.contains("rate"))
            row["mb_per_s"] = std::round(row["rate"].get<double>() * row["bytes"].get<double>() / 1e4) / 100;
        if (!taken[i].failure) {
            row["error"] = taken[i].failure.to_string();
            context.fail(taken[i].failure.within(figure.name + " " + figure.points[i].labels.dump()));
        }
        rows.push_back(std::move(row));
    }
    return rows;
}

std::string cell(const Json& value) {
    if (value.is_null()) return "";
    if (value.is_string()) return value.get<std::string>();
    if (!value.is_number_float()) return value.dump();
    double number = value.get<double>();
    return fmt::format("{:.{}f}", number, number >= 1000 ? 0 : number >= 10 ? 1 : 3);
}

}  // namespace

Json run(Context& context, const Figure& figure) {
    const Settings& settings = context.settings;
    Json result = {
        {"figure", figure.name},
        {"paper", figure.paper},
        {"title", figure.title},
        {"unit", figure.unit},
        {"x", figure.x},
        {"series", figure.series},
        {"command", context.command},
        {"measured", "seconds"},
        {"method",
         fmt::format("seconds of this machine; {} s after {} s of warm-up, median of {} in turns; {}",
                     settings.seconds, settings.warm_up, settings.repeats,
                     settings.pin ? "clients pinned to the first half of the processors, servers to "
                                    "the second"
                                  : "not pinned")},
        {"machine", machine()}};
    std::vector<Taken> taken = measure_in_turns(context, figure);
    result["rows"] = rows_of(context, figure, taken);
    result["bound"] = nullptr;
    result["ratio"] = nullptr;
    if (figure.judge && !result["rows"].empty()) figure.judge(result);
    result["paper_values"] = paper_values(figure.name);
    if (interrupted()) result["interrupted"] = true;
    return result;
}

std::string table(const Json& rows) {
    std::vector<std::string> columns;
    for (const Json& row : rows)
        for (const auto& [key, value] : row.items())
            // An error was reported already, and is too long for a column.
            if (!value.is_structured() && key != "error" &&
                std::find(columns.begin(), columns.end(), key) == columns.end())
                columns.push_back(key);
    std::vector<size_t> widths;
    for (const std::string& column : columns) {
        size_t width = column.size();
        for (const Json& row : rows)
            if (row.contains(column)) width = std::max(width, cell(row[column]).size());
        widths.push_back(width);
    }
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) text += fmt::format("{:>{}}  ", columns[i], widths[i]);
    text += "\n";
    for (const Json& row : rows) {
        for (size_t i = 0; i < columns.size(); ++i)
            text += fmt::format("{:>{}}  ", row.contains(columns[i]) ? cell(row[columns[i]]) : "", widths[i]);
        text += "\n";
    }
    return text;
}

std::string notes(const Json& figure) {
    std::string text = fmt::format("Measured: {}\n", figure.value("method", ""));
    if (figure.contains("bounds") && !figure["bounds"].empty())
        text += "Against its bound:\n" + table(figure["bounds"]);
    else if (figure["ratio"].is_number())
        text += fmt::format("Bound: {}, ratio: {}\n", cell(figure["bound"]), cell(figure["ratio"]));
    if (figure.contains("paper_values"))
        for (const Json& value : figure["paper_values"])
            text += fmt::format("The paper: {}\n", value.value("text", value.dump()));
    if (figure.value("interrupted", false)) text += "Interrupted: these are the points that were done.\n";
    return text;
}

void Context::fail(const Status& status) {
    std::fprintf(stderr, "wssbench: %s\n", status.to_string().c_str());
    exit = kFailed;
}

void Context::print(const Json& answer) const {
    std::printf("%s\n", answer.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

void Context::deliver(Json figure) {
    if (figure.value("interrupted", false)) exit = kFailed;
    if (collect) return collect(std::move(figure));
    if (json) return print(figure);
    std::printf("%s (%s)\n%s%s", figure["title"].get<std::string>().c_str(),
                figure["paper"].get<std::string>().c_str(), table(figure["rows"]).c_str(),
                notes(figure).c_str());
}

}  // namespace wss::wssbench
