// SPDX-License-Identifier: Apache-2.0
// Tests of the checker itself: it must detect violations.
#include "tests/sim/checkers/sector_model.h"

#include <gtest/gtest.h>

namespace wss::sim {
namespace {

std::string read(SectorModel& model, uint64_t found) {
    model.read_begins(0, 1);
    return model.read_ends(0, {found});
}

TEST(SectorModel, permits_only_the_last_acknowledged_write_to_be_read) {
    SectorModel model(1);
    model.change_begins(0, 1, 5);
    EXPECT_EQ(read(model, 0), "");
    EXPECT_EQ(read(model, 5), "");
    model.change_acknowledged(0, 1, 5, false, false);
    EXPECT_EQ(read(model, 5), "");
    EXPECT_NE(read(model, 0), "");
}

TEST(SectorModel, detects_a_stale_write_that_takes_effect_late) {
    SectorModel model(1);
    model.change_begins(0, 1, 5);
    model.change_failed(0, 1, 5);
    EXPECT_EQ(read(model, 5), "");
    model.change_begins(0, 1, 6);
    model.change_acknowledged(0, 1, 6, false, false);
    EXPECT_NE(read(model, 5), "");
}

TEST(SectorModel, permits_a_read_to_return_the_contents_at_its_beginning) {
    SectorModel model(1);
    model.read_begins(0, 1);
    model.change_begins(0, 1, 5);
    model.change_acknowledged(0, 1, 5, false, false);
    EXPECT_EQ(model.read_ends(0, {0}), "");
    EXPECT_NE(read(model, 0), "");
}

TEST(SectorModel, permits_a_crash_to_undo_unflushed_writes_and_nothing_else) {
    SectorModel model(1);
    model.change_begins(0, 1, 5);
    model.change_acknowledged(0, 1, 5, false, false);
    model.flush_acknowledged(model.flush_begins());
    model.change_begins(0, 1, 6);
    model.change_acknowledged(0, 1, 6, false, false);
    model.crash();
    EXPECT_EQ(read(model, 5), "");
    EXPECT_EQ(read(model, 6), "");
    EXPECT_NE(read(model, 0), "") << "a flushed write must not be lost";
}

TEST(SectorModel, lets_a_flush_cover_only_writes_acknowledged_before_it_began) {
    SectorModel model(1);
    uint64_t early = model.flush_begins();
    model.change_begins(0, 1, 5);
    model.change_acknowledged(0, 1, 5, false, false);
    model.flush_acknowledged(early);
    model.crash();
    EXPECT_EQ(read(model, 0), "");
}

TEST(SectorModel, permits_a_write_completed_before_a_storage_crash_to_be_acknowledged_and_lost) {
    for (bool fua : {false, true}) {
        SectorModel model(1);
        model.change_begins(0, 1, 5);
        model.crash_of_storage();
        model.change_acknowledged(0, 1, 5, fua, false);
        EXPECT_EQ(read(model, 5), "");
        EXPECT_EQ(read(model, 0).empty(), !fua);
        model.change_begins(0, 1, 6);
        model.change_acknowledged(0, 1, 6, false, false);
        EXPECT_NE(read(model, 0), "") << "the crash does not affect the next write";
    }
}

TEST(SectorModel, lets_a_write_with_fua_survive_without_a_flush) {
    SectorModel model(1);
    model.change_begins(0, 1, 5);
    model.change_acknowledged(0, 1, 5, true, false);
    model.crash();
    EXPECT_NE(read(model, 0), "");
}

}  // namespace
}  // namespace wss::sim
