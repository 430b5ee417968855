// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/maps_file.h"

#include <algorithm>
#include <sstream>

#include "lib/base/file.h"

namespace wss::wssctl {

// A longer file cannot be a list of volumes.
constexpr size_t kBytesMax = 1 << 20;
constexpr size_t kLinesMax = 4096;
constexpr size_t kLineBytesMax = 4096;

constexpr std::string_view kSecretKey = "secret-file=";

static Status parse(const std::string& line, Mapping& mapping) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (!(words >> mapping.target)) return Status::ok();  // the line contains at most a comment
    if (!(words >> mapping.volume)) return failure(Code::kInvalid, "the volume is missing: TARGET VOLUME");
    for (std::string word; words >> word;) {
        if (word.starts_with(kSecretKey))
            mapping.secret_file = word.substr(kSecretKey.size());
        else
            mapping.options.push_back(word);
    }
    return check(mapping);
}

Result<std::vector<MapsLine>> read_maps(const std::string& path) {
    auto all = read_file(path, kBytesMax);
    if (!all) return all.status();
    std::istringstream file(*all);
    std::vector<MapsLine> lines;
    std::string text;
    for (size_t number = 1; std::getline(file, text); ++number) {
        if (number > kLinesMax || text.size() > kLineBytesMax)
            return failure(Code::kInvalid, "{}:{}: more than {} lines, or a line of more than {} bytes", path,
                           number, kLinesMax, kLineBytesMax);
        MapsLine line{number, {}};
        if (Status status = parse(text, line.mapping); !status)
            return status.within(fmt::format("{}:{}", path, number));
        if (line.mapping.target.empty()) continue;
        const auto same = std::find_if(lines.begin(), lines.end(), [&](const MapsLine& other) {
            return is_same(other.mapping, line.mapping);
        });
        if (same != lines.end())
            return failure(Code::kInvalid, "{}:{}: {} {} is already in the file, on line {}", path, number,
                           line.mapping.target, line.mapping.volume, same->number);
        lines.push_back(std::move(line));
    }
    return lines;
}

}  // namespace wss::wssctl
