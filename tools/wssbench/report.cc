// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/report.h"

#include <ctime>

#include "kernel/uapi/wss_version.h"
#include "lib/base/embed.h"
#include "tools/wssbench/card.h"
#include "tools/wssbench/measure.h"
#include "tools/wssbench/program.h"
#include "tools/wssbench/source_tree.h"
#include "tools/wssbench/text.h"

// tools/part.mk lists these files as prerequisites.
WSS_EMBED(wss_report_page, "tools/wssbench/page/page.html");
WSS_EMBED(wss_report_style, "tools/wssbench/page/page.css");
WSS_EMBED(wss_report_scales, "tools/wssbench/page/scales.js");
WSS_EMBED(wss_report_chart, "tools/wssbench/page/chart.js");
WSS_EMBED(wss_report_models, "tools/wssbench/page/models.js");
WSS_EMBED(wss_report_cards, "tools/wssbench/page/cards.js");
WSS_EMBED(wss_report_measurements, "tools/wssbench/page/measurements.js");
WSS_EMBED(wss_report_start, "tools/wssbench/page/page.js");

namespace wss::wssbench {

namespace {

// The first line of a command's output.
std::string version_of(const std::vector<std::string>& command) {
    auto printed = output_of(command, 20, OnInterrupt::kIgnore);
    return printed ? printed->substr(0, printed->find('\n')) : "not installed";
}

Json versions() {
    return {{"WSS", WSS_VERSION},
            {"source", source_version()},
            {"compiler", __VERSION__},
            {"fio", version_of({"fio", "--version"})},
            {"QEMU", version_of({"qemu-system-x86_64", "--version"})}};
}

std::string time_now() {
    char text[64];
    time_t now = time(nullptr);
    tm local{};
    localtime_r(&now, &local);
    return {text, strftime(text, sizeof text, "%Y-%m-%d %H:%M %Z", &local)};
}

// Escapes the data for use in a <script> element, which "</script" and "<!--" would end or change.
std::string inside_script(const Json& data) {
    std::string text;
    for (char c : data.dump(-1, ' ', false, Json::error_handler_t::replace)) {
        if (c == '<')
            text += "\\u003c";
        else
            text += c;
    }
    return text;
}

// The page, with each "@name@" replaced by its content, in the order in which they appear.
std::string filled(std::string_view page,
                   const std::vector<std::pair<std::string_view, std::string>>& contents) {
    std::string text;
    for (const auto& [name, content] : contents) {
        size_t at = page.find(name);
        text.append(page.substr(0, at)).append(content);
        page.remove_prefix(at + name.size());
    }
    return text.append(page);
}

}  // namespace

std::string page(const std::vector<Json>& figures, const std::vector<std::string>& remarks) {
    Json with_doubts = Json::array();
    for (Json figure : figures) {
        figure["doubts"] = doubts(figure);
        with_doubts.push_back(std::move(figure));
    }
    Json data = {{"made", time_now()},          {"remarks", remarks},
                 {"machine", machine()},        {"versions", versions()},
                 {"cards", all_cards(figures)}, {"figures", std::move(with_doubts)}};
    std::string script;
    for (std::string_view part : {WSS_EMBEDDED(wss_report_scales), WSS_EMBEDDED(wss_report_chart),
                                  WSS_EMBEDDED(wss_report_models), WSS_EMBEDDED(wss_report_cards),
                                  WSS_EMBEDDED(wss_report_measurements), WSS_EMBEDDED(wss_report_start)})
        script.append(part);
    return filled(WSS_EMBEDDED(wss_report_page), {{"@style@", std::string(WSS_EMBEDDED(wss_report_style))},
                                                  {"@data@", inside_script(data)},
                                                  {"@script@", script}});
}

}  // namespace wss::wssbench
