// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <unordered_set>

#include "lib/base/clock.h"

namespace wss::wssbench {

namespace {

constexpr double kExponent = 0.99;

// Draws ranks by the inverse of the exact distribution function.
class Zipf {
  public:
    Zipf(uint32_t items, uint64_t seed) : random_(seed), place_(items) {
        double sum = 0;
        for (uint32_t rank = 1; rank <= items; ++rank)
            cumulative_.push_back(sum += std::pow(rank, -kExponent));
        for (uint32_t i = 0; i < items; ++i) place_[i] = i;
        for (uint32_t i = items; i > 1; --i) std::swap(place_[i - 1], place_[random_.below(i)]);
    }
    uint32_t next() {
        double drawn = static_cast<double>(random_.next() >> 11) * 0x1p-53 * cumulative_.back();
        auto rank = std::upper_bound(cumulative_.begin(), cumulative_.end(), drawn) - cumulative_.begin();
        return place_[std::min<size_t>(static_cast<size_t>(rank), place_.size() - 1)];
    }

  private:
    Random random_;
    std::vector<double> cumulative_;
    std::vector<uint32_t> place_;
};

// TPC-H at any scale: the share of each table in the bytes, out of 1025.
struct Table {
    uint32_t volume, thousandths;
};
constexpr Table kLineitem{1, 700}, kOrders{2, 165}, kPartsupp{3, 110}, kPart{4, 25}, kCustomer{5, 22},
    kSupplier{6, 3};

struct Query {
    std::vector<Table> scanned;
    std::vector<Table> looked_up;  // tables that are read by index, at random places
};
// The tables that queries 1 to 22 read, with the access method of the usual plans.
const std::array<Query, 22>& queries() {
    static const std::array<Query, 22> all = {{
        {{kLineitem}, {}},
        {{kPart, kSupplier}, {kPartsupp}},
        {{kCustomer, kOrders}, {kLineitem}},
        {{kOrders}, {kLineitem}},
        {{kCustomer, kSupplier, kOrders, kLineitem}, {}},
        {{kLineitem}, {}},
        {{kSupplier, kLineitem, kCustomer}, {kOrders}},
        {{kPart, kOrders}, {kLineitem, kCustomer}},
        {{kPart, kSupplier, kPartsupp, kLineitem}, {kOrders}},
        {{kCustomer, kOrders}, {kLineitem}},
        {{kSupplier, kPartsupp}, {}},
        {{kLineitem}, {kOrders}},
        {{kCustomer, kOrders}, {}},
        {{kPart}, {kLineitem}},
        {{kSupplier, kLineitem}, {}},
        {{kPart, kPartsupp}, {kSupplier}},
        {{kPart}, {kLineitem}},
        {{kCustomer, kOrders, kLineitem}, {}},
        {{kPart}, {kLineitem}},
        {{kSupplier, kPart, kPartsupp}, {kLineitem}},
        {{kSupplier, kLineitem}, {kOrders}},
        {{kCustomer}, {kOrders}},
    }};
    return all;
}

uint32_t size_of(Table table, const TraceOptions& options) {
    return std::max<uint32_t>(1, static_cast<uint32_t>(uint64_t{options.lines} * table.thousandths / 1025));
}

void add_query(Trace& trace, const Query& query, const TraceOptions& options, Random& random) {
    for (Table table : query.scanned)
        for (uint32_t line = 0; line < size_of(table, options); ++line)
            trace.accesses.push_back({table.volume, line});
    // Look up random lines of each table, as many as a hundredth of its lines.
    for (Table table : query.looked_up)
        for (uint32_t i = 0; i < size_of(table, options) / 100 + 1; ++i)
            trace.accesses.push_back({table.volume, random.below(size_of(table, options))});
}

Status add_line(Trace& trace, const std::string& text, const cache::LineGeometry& geometry) {
    std::istringstream words(text.substr(0, text.find('#')));
    std::string kind;
    if (!(words >> kind)) return Status::ok();
    uint32_t volume = 0;
    uint64_t offset = 0, length = 0;
    std::string more;
    if ((kind != "R" && kind != "W") || !(words >> volume >> offset >> length) || (words >> more))
        return failure(Code::kInvalid, "'{}' is not \"R|W VOLUME OFFSET LENGTH\"", text);
    if (length > uint64_t{1} << 32 || offset > uint64_t{1} << 62)
        return failure(Code::kInvalid, "'{}': an access has at most 4 GiB, below 4 EiB", text);
    while (length > 0) {
        cache::Span span = geometry.first_span(offset, length);
        trace.accesses.push_back({volume, span.line});
        offset += span.length;
        length -= span.length;
    }
    return Status::ok();
}

}  // namespace

Trace zipf_trace(const TraceOptions& options) {
    Trace trace{"zipf-0.99", {}};
    Zipf zipf(options.lines, options.seed);
    for (uint32_t i = 0; i < options.accesses; ++i) trace.accesses.push_back({0, zipf.next()});
    return trace;
}

Trace zipf_scan_trace(const TraceOptions& options) {
    Trace trace{"zipf-scan", {}};
    Zipf zipf(options.lines, options.seed);
    // Five scans of a volume half as large. With the default options, each pause between them is longer than
    // a scan.
    uint32_t period = std::max(options.accesses / 5, 1u), scanned = options.lines / 2;
    for (uint32_t i = 0; trace.accesses.size() < options.accesses; ++i) {
        trace.accesses.push_back({0, zipf.next()});
        if (i % period < scanned) trace.accesses.push_back({1, i % period});
    }
    return trace;
}

Trace loops_trace(const TraceOptions& options) {
    Trace trace{"tpch-loops", {}};
    Random random(options.seed);
    // A stream of queries: repeated passes over all queries, each pass in a new random order.
    while (trace.accesses.size() < options.accesses) {
        std::array<uint32_t, 22> order;
        for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
        for (uint32_t i = static_cast<uint32_t>(order.size()); i > 1; --i)
            std::swap(order[i - 1], order[random.below(i)]);
        for (uint32_t number : order) add_query(trace, queries()[number], options, random);
    }
    return trace;
}

Trace shifting_zipf_trace(const TraceOptions& options) {
    Trace trace{"shifting-zipf", {}};
    Zipf zipf(options.lines, options.seed);
    for (uint32_t i = 0; i < options.accesses; ++i) {
        uint64_t tenth = uint64_t{i} * 10 / options.accesses;
        trace.accesses.push_back({0, (zipf.next() + tenth * options.lines / 10) % options.lines});
    }
    return trace;
}

Trace sliding_set_trace(const TraceOptions& options) {
    Trace trace{"sliding-set", {}};
    Random random(options.seed);
    for (uint32_t i = 0; i < options.accesses; ++i) {
        uint64_t begin = uint64_t{i} * options.lines / options.accesses;
        trace.accesses.push_back({0, begin + random.below(options.lines / 12)});
    }
    return trace;
}

Result<Trace> read_trace(const std::string& path, const cache::LineGeometry& geometry) {
    std::ifstream file(path);
    if (!file) return failure(Code::kNotFound, "{}: cannot be read", path);
    Trace trace{path, {}};
    std::string text;
    for (uint64_t number = 1; std::getline(file, text); ++number)
        if (Status added = add_line(trace, text, geometry); !added)
            return added.within(fmt::format("{}, line {}", path, number));
    if (trace.accesses.empty()) return failure(Code::kInvalid, "{}: contains no accesses", path);
    return trace;
}

Status write_trace(const Trace& trace, const std::string& path, const cache::LineGeometry& geometry) {
    std::ofstream file(path);
    file << "# " << trace.name << ": R VOLUME OFFSET LENGTH\n";
    for (cache::LineKey key : trace.accesses)
        file << "R " << key.volume << ' ' << geometry.start_of(key.line) << ' ' << geometry.line_bytes()
             << '\n';
    file.close();
    return file ? Status::ok() : failure(Code::kIo, "{}: cannot be written", path);
}

uint64_t distinct_lines(const Trace& trace) {
    auto hash = [](cache::LineKey key) { return static_cast<size_t>(cache::hash(key)); };
    std::unordered_set<cache::LineKey, decltype(hash)> seen(16, hash);
    seen.insert(trace.accesses.begin(), trace.accesses.end());
    return seen.size();
}

}  // namespace wss::wssbench
