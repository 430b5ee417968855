// SPDX-License-Identifier: Apache-2.0
// wssbench report: computes the cards and the report of an earlier run of `wssbench all` again, from the
// output of its commands.
#include <fstream>

#include "tools/wssbench/card.h"
#include "tools/wssbench/report.h"

namespace wss::wssbench {

namespace {

void rewrite(Context& context, const std::string& directory) {
    std::string path = directory + "/figures.json";
    std::ifstream file(path);
    if (!file) return context.fail(Status::from_errno(errno, path));
    Json figures = Json::parse(file, nullptr, false);
    if (!figures.is_array())
        return context.fail(
            failure(Code::kInvalid, "{} is not a list of figures: `wssbench all --out` writes it", path));
    std::ofstream report(directory + "/report.html"), results(directory + "/results.json");
    auto list = figures.get<std::vector<Json>>();
    report << page(list, {"Computed again from figures.json."});
    results << all_cards(list).dump(1, ' ', false, Json::error_handler_t::replace) << "\n";
    if (!report.flush() || !results.flush())
        context.fail(failure(Code::kIo, "{}: the report cannot be written", directory));
}

}  // namespace

void add_report(CLI::App& app, Context& context) {
    static std::string directory;
    CLI::App* command = app.add_subcommand(
        "report", "Compute report.html and results.json of an earlier run again, from its figures.json");
    command->add_option("DIR", directory, "The directory that `wssbench all --out DIR` wrote")->required();
    command->callback([&context] { rewrite(context, directory); });
}

}  // namespace wss::wssbench
