// SPDX-License-Identifier: Apache-2.0
#include "lib/base/suggest.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace wss {

// Longer words get no suggestion, because the computation is quadratic.
constexpr size_t kWordMax = 64;

// Counts insertions, deletions, replacements, and swaps of neighbours (optimal string alignment).
static size_t distance(std::string_view a, std::string_view b) {
    std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= a.size(); ++i) {
        before.swap(above);
        above.swap(row);
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row[b.size()];
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& known) {
    std::string_view best;
    size_t best_distance = 1 + std::max<size_t>(word.size() / 3, 1);  // a third of the letters may be wrong
    if (word.size() <= kWordMax)
        for (std::string_view candidate : known)
            if (size_t apart = distance(word, candidate); apart < best_distance) {
                best = candidate;
                best_distance = apart;
            }
    if (!best.empty()) return fmt::format(", did you mean '{}'?", best);
    std::string list;
    for (std::string_view candidate : known) list += (list.empty() ? "" : ", ") + std::string(candidate);
    return "; known: " + list;
}

}  // namespace wss
