// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/io_trace.h"

#include <fstream>
#include <map>
#include <sstream>

namespace wss::wssbench {

namespace {

constexpr uint32_t kSector = 512;
constexpr uint32_t kBytesMax = 1 << 20;

struct Line {
    Access access;
    uint32_t volume = 0;
};

Result<Line> parse(const std::string& text) {
    std::istringstream words(text);
    std::string kind, more;
    uint64_t length = 0;
    Line line;
    if (!(words >> kind >> line.volume >> line.access.offset >> length) || (words >> more) ||
        (kind != "R" && kind != "W"))
        return failure(Code::kInvalid, "'{}' is not \"R|W VOLUME OFFSET LENGTH\"", text);
    if (length == 0 || length > kBytesMax || length % kSector != 0 || line.access.offset % kSector != 0 ||
        line.access.offset > uint64_t{1} << 62)
        return failure(Code::kInvalid,
                       "'{}': offset and length are multiples of 512, the length at most 1 MiB", text);
    line.access.write = kind == "W";
    line.access.length = static_cast<uint32_t>(length);
    return line;
}

// The start of each volume if all are placed one after another.
std::map<uint32_t, uint64_t> lay_out(const std::vector<Line>& lines) {
    std::map<uint32_t, uint64_t> places;
    for (const Line& line : lines)
        places[line.volume] = std::max(places[line.volume], line.access.offset + line.access.length);
    uint64_t at = 0;
    for (auto& [volume, place] : places) at += std::exchange(place, at);
    return places;
}

}  // namespace

Result<IoTrace> read_io_trace(const std::string& path, uint64_t span) {
    std::ifstream file(path);
    if (!file) return failure(Code::kNotFound, "{}: cannot be read", path);
    std::vector<Line> lines;
    std::string text;
    for (uint64_t number = 1; std::getline(file, text); ++number) {
        text.resize(std::min(text.size(), text.find('#')));
        if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
        auto line = parse(text);
        if (!line) return line.status().within(fmt::format("{}, line {}", path, number));
        lines.push_back(*line);
    }
    if (lines.empty()) return failure(Code::kInvalid, "{}: contains no accesses", path);
    auto places = lay_out(lines);
    IoTrace trace{.name = path, .volumes = static_cast<uint32_t>(places.size())};
    for (const Line& line : lines) {
        Access access = line.access;
        if (access.length > span)
            return failure(Code::kInvalid, "{}: an access of {} bytes exceeds the storage of {} bytes", path,
                           access.length, span);
        access.offset = (places[line.volume] + access.offset) % (span - access.length + kSector);
        trace.bytes_max = std::max(trace.bytes_max, access.length);
        trace.accesses.push_back(access);
    }
    return trace;
}

Result<IoTrace> make_q3_trace(uint32_t bytes, uint64_t span, size_t accesses, uint64_t seed) {
    constexpr uint32_t kReaders = 8;  // number of readers of the scan
    constexpr uint64_t kPagesMin = 64;
    const uint64_t pages = span / bytes;
    if (pages < kPagesMin)
        return failure(Code::kInvalid, "the storage has {} pages of {} bytes; a generated trace needs {}",
                       pages, bytes, kPagesMin);
    IoTrace trace{.name = "q3", .bytes_max = bytes, .volumes = 1};
    Random random(seed);
    // The order of pages is customer, orders, lineitem, in the proportions of TPC-H.
    uint64_t customer = pages * 25 / 1000 + 1, orders = pages * 190 / 1000 + 1;
    uint64_t lineitem = pages - customer - orders;
    uint64_t scanned[kReaders] = {};
    while (trace.accesses.size() < accesses) {
        uint64_t reader = random.below(kReaders), part = customer / kReaders + 1;
        uint64_t page = std::min(reader * part + scanned[reader]++ % part, customer - 1);
        trace.accesses.push_back({false, page * bytes, bytes});
        // A page of customers has some orders, at random places. An order has lineitems, which are adjacent
        // to each other.
        for (uint64_t order = 0; order < 6; ++order) {
            trace.accesses.push_back({false, (customer + random.below(orders)) * bytes, bytes});
            uint64_t first = random.below(lineitem);
            for (uint64_t item = 0; item < 1 + random.below(3); ++item)
                trace.accesses.push_back(
                    {false, (customer + orders + (first + item) % lineitem) * bytes, bytes});
        }
    }
    trace.accesses.resize(accesses);
    return trace;
}

Status write_io_trace(const IoTrace& trace, const std::string& path) {
    std::ofstream file(path);
    file << "# " << trace.name << ": R|W VOLUME OFFSET LENGTH\n";
    for (const Access& access : trace.accesses)
        file << (access.write ? "W 0 " : "R 0 ") << access.offset << ' ' << access.length << '\n';
    file.close();
    return file ? Status::ok() : failure(Code::kIo, "{}: cannot be written", path);
}

}  // namespace wss::wssbench
