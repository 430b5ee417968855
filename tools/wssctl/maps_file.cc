// SPDX-License-Identifier: Apache-2.0
#include "tools/wssctl/maps_file.h"

#include <cerrno>
#include <fstream>
#include <set>
#include <sstream>

namespace wss::wssctl {

// A file of more lines is not one of ours, and a device file would never end.
constexpr size_t kLinesMax = 4096;
constexpr size_t kLineBytesMax = 4096;

constexpr std::string_view kSecretKey = "secret-file=";

static Status parse(const std::string& line, Mapping& mapping) {
    std::istringstream words(line.substr(0, line.find('#')));
    if (!(words >> mapping.target)) return Status::ok();  // nothing but a comment
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
    std::ifstream file(path);
    if (!file) return Status::from_errno(errno, "cannot read " + path);
    std::vector<MapsLine> lines;
    std::set<std::pair<std::string, std::string>> seen;
    std::string text;
    for (size_t number = 1; std::getline(file, text); ++number) {
        if (number > kLinesMax || text.size() > kLineBytesMax)
            return failure(Code::kInvalid, "{}:{}: more than {} lines, or a line of more than {} bytes", path,
                           number, kLinesMax, kLineBytesMax);
        MapsLine line{number, {}};
        if (Status status = parse(text, line.mapping); !status)
            return status.within(fmt::format("{}:{}", path, number));
        if (line.mapping.target.empty()) continue;
        if (!seen.insert({line.mapping.target, line.mapping.volume}).second)
            return failure(Code::kInvalid, "{}:{}: {} {} is in the file already", path, number,
                           line.mapping.target, line.mapping.volume);
        lines.push_back(std::move(line));
    }
    if (file.bad()) return Status::from_errno(EIO, "cannot read " + path);
    return lines;
}

}  // namespace wss::wssctl
