// SPDX-License-Identifier: Apache-2.0
// Random histories of a volume's size (size_world.h). A failure names its seed and prints that history.
//
// WSS_SIZE_SEED=n sets the first seed, WSS_SIZE_SEEDS=m the number of seeds. With WSS_SIZE_ALL=1 the test
// lists all seeds that fail, without their histories.
#include <cstdlib>

#include "lib/base/log.h"
#include "tests/unit/volume/size_world.h"

namespace wss::volume {
namespace {

constexpr int kSteps = 300;

uint64_t number_in(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(VolumeSizeModel, finds_no_history_that_loses_or_falsifies_data_or_leaves_a_wrong_size) {
    ASSERT_TRUE(log::set_level("off"));
    const uint64_t first = number_in("WSS_SIZE_SEED", 1), count = number_in("WSS_SIZE_SEEDS", 4000);
    for (uint64_t seed = first; seed < first + count; ++seed) {
        SizeWorld world(seed, false);
        world.run(kSteps);
        if (world.failure().empty()) continue;
        if (std::getenv("WSS_SIZE_ALL") != nullptr) {
            ADD_FAILURE() << "seed " << seed << ": " << world.failure();
            continue;
        }
        SizeWorld again(seed, true);
        again.run(kSteps);
        std::string history;
        for (const std::string& line : again.trace()) history += line + "\n";
        ADD_FAILURE() << "seed " << seed << ": " << world.failure() << "\n" << history;
        break;
    }
    ASSERT_TRUE(log::set_level("info"));
}

}  // namespace
}  // namespace wss::volume
