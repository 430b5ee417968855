// SPDX-License-Identifier: Apache-2.0
#include "target/http/assets.h"

#include <array>

#include "lib/base/embed.h"

// target/part.mk lists these files as prerequisites.
WSS_EMBED(wss_openapi, "Documentation/api/openapi.json");
WSS_EMBED(wss_page_index, "target/http/page/index.html");
WSS_EMBED(wss_page_css, "target/http/page/page.css");
WSS_EMBED(wss_page_page, "target/http/page/page.js");
WSS_EMBED(wss_page_poll, "target/http/page/poll.js");
WSS_EMBED(wss_page_figures, "target/http/page/figures.js");
WSS_EMBED(wss_page_growth, "target/http/page/growth.js");
WSS_EMBED(wss_page_graphs, "target/http/page/graphs.js");
WSS_EMBED(wss_page_tables, "target/http/page/tables.js");
WSS_EMBED(wss_page_problems, "target/http/page/problems.js");
WSS_EMBED(wss_uplot_js, "target/http/page/uplot/uPlot.iife.js");
WSS_EMBED(wss_uplot_css, "target/http/page/uplot/uPlot.min.css");
WSS_EMBED(wss_uplot_license, "Documentation/licenses/uPlot.txt");

namespace wss::http {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kCss = "text/css; charset=utf-8";
constexpr std::string_view kScript = "text/javascript; charset=utf-8";

std::span<const Asset> assets() {
#define WSS_ASSET(path, type, name)    \
    Asset {                            \
        path, type, WSS_EMBEDDED(name) \
    }
    static const std::array kAssets{
        WSS_ASSET("/api/v1/openapi.json", "application/json", wss_openapi),
        WSS_ASSET("/", kHtml, wss_page_index),
        WSS_ASSET("/page/page.css", kCss, wss_page_css),
        WSS_ASSET("/page/page.js", kScript, wss_page_page),
        WSS_ASSET("/page/poll.js", kScript, wss_page_poll),
        WSS_ASSET("/page/figures.js", kScript, wss_page_figures),
        WSS_ASSET("/page/growth.js", kScript, wss_page_growth),
        WSS_ASSET("/page/graphs.js", kScript, wss_page_graphs),
        WSS_ASSET("/page/tables.js", kScript, wss_page_tables),
        WSS_ASSET("/page/problems.js", kScript, wss_page_problems),
        WSS_ASSET("/page/uplot/uPlot.iife.js", kScript, wss_uplot_js),
        WSS_ASSET("/page/uplot/uPlot.min.css", kCss, wss_uplot_css),
        WSS_ASSET("/page/uplot/LICENSE", "text/plain; charset=utf-8", wss_uplot_license),
    };
#undef WSS_ASSET
    return kAssets;
}

}  // namespace wss::http
