// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/figure.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "lib/base/summary.h"
#include "tools/wssbench/card.h"

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
        // As more points are done, the estimate moves from the planned time to the extrapolated time.
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

std::string fabric_of(const Json& row, const Figure& figure) {
    if (!figure.fabric.empty()) return figure.fabric;
    if (row.value("what", "") == "local") return "local";
    return row.value("fabric", row.value("where", "local"));
}

Json rows_of(Context& context, const Figure& figure, const std::vector<Taken>& taken) {
    Json rows = Json::array();
    for (size_t i = 0; i < taken.size(); ++i) {
        if (taken[i].samples.empty() && taken[i].failure) continue;  // it was interrupted before its turn
        Json row = figure.points[i].labels;
        if (!taken[i].samples.empty()) row.update(summary(taken[i].samples));
        if (row.contains("rate")) row["badge"] = badge_of(fabric_of(row, figure), figure.elsewhere, false);
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

}  // namespace

std::string method_of(const Settings& settings, const std::string& window) {
    return fmt::format(
        "seconds of this machine; {}, median of {} in turns; {}",
        window.empty() ? fmt::format("{} s after {} s of warm-up", settings.seconds, settings.warm_up)
                       : window,
        settings.repeats,
        settings.pin ? "clients pinned to the first half of the processors, servers to the second"
                     : "not pinned");
}

Json head_of(const Context& context, const Figure& figure) {
    return {{"figure", figure.name},
            {"paper", figure.paper},
            {"title", figure.title},
            {"unit", figure.unit},
            {"x", figure.x},
            {"series", figure.series},
            {"command", context.command},
            {"measured", figure.measured},
            {"method", figure.method.empty() ? method_of(context.settings) : figure.method},
            {"machine", machine()}};
}

Json run(Context& context, const Figure& figure) {
    double begun = seconds_now();
    Json result = head_of(context, figure);
    std::vector<Taken> taken = measure_in_turns(context, figure);
    result["rows"] = rows_of(context, figure, taken);
    result["bound"] = nullptr;
    result["ratio"] = nullptr;
    if (figure.add_ratio && !result["rows"].empty()) figure.add_ratio(result);
    result["cards"] = cards_of(result);
    result["seconds_taken"] = rounded(seconds_now() - begun);
    if (interrupted()) result["interrupted"] = true;
    return result;
}

Json labels_of(const Json& row) {
    Json labels = Json::object();
    for (const auto& [name, value] : row.items()) {
        if (name == "rate") break;
        labels[name] = value;
    }
    return labels;
}

bool has_labels(const Json& row, const Json& labels) {
    return std::ranges::all_of(labels.items(), [&](const auto& label) {
        return row.contains(label.key()) && row[label.key()] == label.value();
    });
}

const Json* row_of(const Json& rows, const Json& labels) {
    for (const Json& row : rows)
        if (row.contains("rate") && has_labels(row, labels)) return &row;
    return nullptr;
}

std::vector<double> turns_of(const Json& row, const std::string& column) {
    if (!row.contains("turns") || !row["turns"].contains(column)) return {};
    return row["turns"][column].get<std::vector<double>>();
}

std::vector<double> ratios_of_turns(const Json& row, const Json& bound, const std::string& column) {
    return ratios_in_turns(turns_of(row, column), {turns_of(bound, column)});
}

Json ratio_columns(const std::vector<double>& ratios) {
    Interval interval = interval_of_median(ratios);
    return {{"ratio", summarise(ratios).median}, {"ratio_low", interval.low}, {"ratio_high", interval.high}};
}

}  // namespace wss::wssbench
