// SPDX-License-Identifier: Apache-2.0
// Persistent reservations by the rules of SPC-4, 5.12, without a target.
#include <gtest/gtest.h>

#include "target/scsi/persistent_reservations.h"
#include "tests/unit/scsi/unit.h"

namespace wss::scsi {
namespace {

using volume::Registrant;
using volume::ReservationEvent;
using volume::Reservations;
using volume::ReservationType;

constexpr uint8_t kTypes[] = {1, 3, 5, 6, 7, 8};

Registrant host(uint8_t number, const std::string& name = {}) {
    Registrant host;
    host.port[15] = number;
    host.name = name.empty() ? "host" + std::to_string(number) : name;
    return host;
}

// Reservations of a volume, changed by successive commands.
class PersistentReservations : public ::testing::Test {
  protected:
    uint8_t run(const Registrant& who, uint8_t action, uint64_t key, uint64_t action_key = 0,
                uint8_t type = 0) {
        result_ =
            carry_out({.action = action, .type = type, .key = key, .action_key = action_key}, who, now_);
        if (result_.next) now_ = *result_.next;
        if (!result_.next) now_.notices.clear();
        return result_.status;
    }
    void enroll(const Registrant& who, uint64_t key) {
        ASSERT_EQ(run(who, wire::kRegister, 0, key), wire::kGood);
    }
    // Returns text such as "2:released 3:preempted".
    std::string notices() const {
        std::string text;
        for (const auto& notice : now_.notices) {
            constexpr const char* kNames[] = {"reservations-preempted", "released", "preempted"};
            if (!text.empty()) text += ' ';
            text += std::to_string(notice.initiator.port[15]) + ':' + kNames[size_t(notice.event)];
        }
        return text;
    }
    Restriction restriction(const Registrant& who) const { return restriction_of(now_, who); }

    const Registrant a_ = host(1), b_ = host(2), c_ = host(3);
    Reservations now_;
    ReserveResult result_;
};

TEST_F(PersistentReservations, require_the_registered_key_for_a_registration) {
    EXPECT_EQ(run(a_, wire::kRegister, 7, 1), wire::kReservationConflict) << "not registered: key 0";
    enroll(a_, 1);
    EXPECT_EQ(run(a_, wire::kRegister, 0, 2), wire::kReservationConflict);
    EXPECT_EQ(run(a_, wire::kRegister, 1, 2), wire::kGood);
    EXPECT_EQ(now_.find(a_)->key, 2u);
    EXPECT_EQ(run(a_, wire::kRegisterAndIgnore, 99, 3), wire::kGood);
    EXPECT_EQ(now_.find(a_)->key, 3u);
    EXPECT_EQ(now_.generation, 3u);
    EXPECT_EQ(run(a_, wire::kRegister, 3, 0), wire::kGood);
    EXPECT_EQ(now_.find(a_), nullptr);
    EXPECT_EQ(run(a_, wire::kRegister, 0, 0), wire::kGood) << "nothing to unregister";
    EXPECT_EQ(now_.generation, 4u);
}

TEST_F(PersistentReservations, forbid_others_what_the_name_of_their_type_implies) {
    for (uint8_t type : kTypes) {
        now_ = {};
        enroll(a_, 1);
        enroll(b_, 2);
        ASSERT_EQ(run(a_, wire::kReserve, 1, 0, type), wire::kGood);
        EXPECT_EQ(now_.generation, 2u) << "RESERVE does not count";
        const Restriction of_others =
            type == 1 || type == 5 || type == 7 ? Restriction::kNoWrites : Restriction::kNoAccess;
        EXPECT_EQ(restriction(a_), Restriction::kNone);
        EXPECT_EQ(restriction(b_), type >= 5 ? Restriction::kNone : of_others) << int(type);
        EXPECT_EQ(restriction(c_), of_others) << int(type);
    }
}

TEST_F(PersistentReservations, can_be_made_again_only_by_the_holder_and_only_with_the_same_type) {
    enroll(a_, 1);
    enroll(b_, 2);
    EXPECT_EQ(run(a_, wire::kReserve, 9, 0, 1), wire::kReservationConflict) << "wrong key";
    EXPECT_EQ(run(c_, wire::kReserve, 0, 0, 1), wire::kReservationConflict) << "not registered";
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 5), wire::kGood);
    EXPECT_EQ(run(a_, wire::kReserve, 1, 0, 5), wire::kGood);
    EXPECT_EQ(run(a_, wire::kReserve, 1, 0, 6), wire::kReservationConflict);
    EXPECT_EQ(run(b_, wire::kReserve, 2, 0, 5), wire::kReservationConflict);
}

TEST_F(PersistentReservations, for_all_registrants_are_held_by_every_registrant) {
    enroll(a_, 1);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 7), wire::kGood);
    enroll(b_, 2);
    EXPECT_EQ(run(b_, wire::kReserve, 2, 0, 7), wire::kGood);
    ASSERT_EQ(run(a_, wire::kRegister, 1, 0), wire::kGood);
    EXPECT_EQ(now_.type, ReservationType::kWriteExclusiveAll) << "the last one to unregister releases it";
    ASSERT_EQ(run(b_, wire::kRegister, 2, 0), wire::kGood);
    EXPECT_EQ(now_.type, ReservationType::kNone);
}

TEST_F(PersistentReservations, require_the_holder_and_the_type_for_a_release) {
    for (uint8_t type : kTypes) {
        now_ = {};
        enroll(a_, 1);
        enroll(b_, 2);
        ASSERT_EQ(run(a_, wire::kReserve, 1, 0, type), wire::kGood);
        EXPECT_EQ(run(c_, wire::kRelease, 0, 0, type), wire::kReservationConflict);
        EXPECT_EQ(run(a_, wire::kRelease, 1, 0, type == 1 ? 3 : 1), wire::kCheckCondition);
        EXPECT_EQ(result_.sense, sense::invalid_release());
        if (type < 7) {
            EXPECT_EQ(run(b_, wire::kRelease, 2, 0, type), wire::kGood);
            EXPECT_NE(now_.type, ReservationType::kNone) << "the initiator does not hold it";
        }
        EXPECT_EQ(run(a_, wire::kRelease, 1, 0, type), wire::kGood);
        EXPECT_EQ(now_.type, ReservationType::kNone);
        EXPECT_EQ(notices(), type >= 5 ? "2:released" : "");
        EXPECT_EQ(run(a_, wire::kRelease, 1, 0, type), wire::kGood) << "there is no reservation";
    }
}

TEST_F(PersistentReservations, are_released_by_a_holder_that_unregisters) {
    enroll(a_, 1);
    enroll(b_, 2);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 5), wire::kGood);
    ASSERT_EQ(run(b_, wire::kRegister, 2, 0), wire::kGood);
    EXPECT_EQ(now_.type, ReservationType::kWriteExclusiveRegistrants);
    EXPECT_TRUE(result_.fences);
    enroll(b_, 2);
    ASSERT_EQ(run(a_, wire::kRegisterAndIgnore, 0, 0), wire::kGood);
    EXPECT_EQ(now_.type, ReservationType::kNone);
    EXPECT_EQ(notices(), "2:released");
}

TEST_F(PersistentReservations, lose_all_registrations_by_a_clear_and_the_others_are_notified) {
    enroll(a_, 1);
    enroll(b_, 2);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 3), wire::kGood);
    EXPECT_EQ(run(c_, wire::kClear, 0), wire::kReservationConflict);
    EXPECT_EQ(run(b_, wire::kClear, 2), wire::kGood);
    EXPECT_TRUE(now_.registrations.empty());
    EXPECT_EQ(now_.type, ReservationType::kNone);
    EXPECT_EQ(notices(), "1:reservations-preempted");
}

TEST_F(PersistentReservations, are_taken_from_the_holder_by_preempt) {
    enroll(a_, 1);
    enroll(b_, 2);
    enroll(c_, 3);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 1), wire::kGood);
    EXPECT_EQ(run(b_, wire::kPreempt, 2, 1, 5), wire::kGood);
    EXPECT_EQ(now_.find(a_), nullptr);
    EXPECT_EQ(now_.type, ReservationType::kWriteExclusiveRegistrants);
    EXPECT_EQ(now_.holder()->initiator, b_);
    EXPECT_EQ(notices(), "1:preempted 3:released") << "the type changed";
    EXPECT_TRUE(result_.fences);
    EXPECT_TRUE(result_.aborted.empty());
    EXPECT_EQ(run(c_, wire::kPreemptAndAbort, 3, 2, 5), wire::kGood);
    EXPECT_EQ(notices(), "2:preempted");
    EXPECT_EQ(result_.aborted, std::vector{b_});
}

TEST_F(PersistentReservations, lose_only_the_registrations_of_others_by_a_preempt_of_others) {
    const Registrant d = host(4);
    enroll(a_, 1);
    enroll(b_, 2);
    enroll(c_, 3);
    enroll(d, 3);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 1), wire::kGood);
    EXPECT_EQ(run(b_, wire::kPreempt, 2, 9, 1), wire::kReservationConflict) << "no initiator has that key";
    EXPECT_EQ(run(b_, wire::kPreempt, 2, 0, 1), wire::kCheckCondition);
    EXPECT_EQ(result_.sense, sense::invalid_list_field(8));
    EXPECT_EQ(run(b_, wire::kPreemptAndAbort, 2, 3, 1), wire::kGood);
    EXPECT_EQ(now_.registrations.size(), 2u);
    EXPECT_EQ(now_.holder()->initiator, a_);
    EXPECT_EQ(notices(), "3:preempted 4:preempted");
    EXPECT_EQ(result_.aborted, (std::vector{c_, d}));
}

TEST_F(PersistentReservations, for_all_registrants_are_taken_by_preempt_with_key_zero) {
    enroll(a_, 1);
    enroll(b_, 2);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 8), wire::kGood);
    EXPECT_EQ(run(b_, wire::kPreempt, 2, 0, 2), wire::kCheckCondition) << "there is no type 2";
    EXPECT_EQ(run(b_, wire::kPreempt, 2, 0, 3), wire::kGood);
    EXPECT_EQ(now_.registrations.size(), 1u);
    EXPECT_EQ(now_.type, ReservationType::kExclusiveAccess);
    EXPECT_EQ(now_.holder()->initiator, b_);
}

TEST_F(PersistentReservations, let_a_holder_preempt_itself_to_change_the_type) {
    enroll(a_, 1);
    enroll(b_, 1);  // both have the same key
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 1), wire::kGood);
    EXPECT_EQ(run(a_, wire::kPreempt, 1, 1, 6), wire::kGood);
    EXPECT_EQ(now_.registrations.size(), 1u);
    EXPECT_EQ(now_.holder()->initiator, a_);
    EXPECT_EQ(now_.type, ReservationType::kExclusiveAccessRegistrants);
}

TEST_F(PersistentReservations, have_registrations_limited_in_total_and_per_name) {
    for (size_t i = 0; i < volume::kRegistrationsPerName; ++i) enroll(host(uint8_t(i), "greedy"), 1);
    EXPECT_EQ(run(host(99, "greedy"), wire::kRegister, 0, 1), wire::kCheckCondition);
    EXPECT_EQ(result_.sense, sense::no_place_for_registration());
    for (size_t i = volume::kRegistrationsPerName; i < volume::kRegistrationsMax; ++i)
        enroll(host(uint8_t(i)), 1);
    EXPECT_EQ(run(host(99), wire::kRegister, 0, 1), wire::kCheckCondition);
    EXPECT_EQ(now_.registrations.size(), volume::kRegistrationsMax);
}

TEST_F(PersistentReservations, take_a_port_id_under_another_name_for_another_initiator) {
    enroll(a_, 1);
    ASSERT_EQ(run(a_, wire::kReserve, 1, 0, 1), wire::kGood);
    EXPECT_EQ(restriction(host(1, "thief")), Restriction::kNoWrites);
    EXPECT_EQ(run(host(1, "thief"), wire::kRelease, 1, 0, 1), wire::kReservationConflict);
}

// ---- Commands --------------------------------------------------------------------------------------------

struct ReservedUnit : Unit {
    Reservations reservations;
    Restriction restriction = Restriction::kNone;
    Action ask(std::string_view cdb_hex) {
        std::vector<std::byte> cdb = from_hex(cdb_hex);
        cdb.resize(16);
        return interpret(cdb, device, luns, &attentions, data_in, {&reservations, restriction});
    }
    std::string told(std::string_view cdb_hex) {
        Action action = ask(cdb_hex);
        return action.kind == Kind::kRespond ? to_hex(answer(action)) : "failed";
    }
};

TEST(ReserveIn, reports_keys_reservation_and_holders) {
    ReservedUnit unit;
    EXPECT_EQ(unit.told("5e 00 00 000000 00 0100 00"), spaced("00000000 00000000"));
    EXPECT_EQ(unit.told("5e 01 00 000000 00 0100 00"), spaced("00000000 00000000"));
    unit.reservations = {.registrations = {{.initiator = host(1), .key = 0x11, .is_holder = true},
                                           {.initiator = host(2), .key = 0x22}},
                         .type = ReservationType::kWriteExclusive,
                         .generation = 5};
    EXPECT_EQ(unit.told("5e 00 00 000000 00 0100 00"),
              spaced("00000005 00000010 0000000000000011 0000000000000022"));
    EXPECT_EQ(unit.told("5e 00 00 000000 00 0008 00"), spaced("00000005 00000010")) << "cut";
    EXPECT_EQ(unit.told("5e 01 00 000000 00 0100 00"),
              spaced("00000005 00000010 0000000000000011 00000000 00 01 0000"));
    EXPECT_EQ(unit.told("5e 03 00 000000 00 0100 00"),
              spaced("00000005 00000060"
                     "0000000000000011 00000000 01 01 00000000 0001 00000018"
                     "04 00000000000000 00000000000000000000000000000001"
                     "0000000000000022 00000000 00 00 00000000 0001 00000018"
                     "04 00000000000000 00000000000000000000000000000002"));
    unit.reservations.type = ReservationType::kWriteExclusiveAll;
    EXPECT_EQ(unit.told("5e 01 00 000000 00 0100 00"),
              spaced("00000005 00000010 0000000000000000 00000000 00 07 0000"));
}

TEST(ReserveIn, reports_whether_reservations_can_persist) {
    ReservedUnit unit;
    EXPECT_EQ(unit.told("5e 02 00 000000 00 0100 00"), spaced("0008 00 80 ea01 0000"));
    unit.device.reservations_persist = true;
    unit.reservations.persists = true;
    EXPECT_EQ(unit.told("5e 02 00 000000 00 0100 00"), spaced("0008 01 81 ea01 0000"));
}

TEST(ReserveIn, returns_a_full_status_of_all_registrations_that_fits_into_a_request_slot) {
    ReservedUnit unit;
    for (size_t i = 0; i < volume::kRegistrationsMax; ++i)
        unit.reservations.registrations.push_back({.initiator = host(uint8_t(i)), .key = 1});
    EXPECT_LE(unit.ask("5e 03 00 000000 00 ffff 00").data_in_length, 3700u);
}

TEST(ReserveOut, refuses_invalid_fields) {
    ReservedUnit unit;
    EXPECT_EQ(unit.ask("5f 00 00 0000 00000018 00").kind, Kind::kReserveOut);
    EXPECT_EQ(unit.ask("5f 00 00 0000 00000018 00").data_out_length, 24u);
    EXPECT_EQ(sense_of(unit.ask("5f 00 00 0000 00000017 00")), "05/1a/00");
    EXPECT_EQ(sense_of(unit.ask("5f 00 00 0000 ffffffff 00")), "05/1a/00");
    EXPECT_EQ(sense_of(unit.ask("5f 01 11 0000 00000018 00")), "05/24/00 @2.7") << "scope";
    EXPECT_EQ(sense_of(unit.ask("5f 01 02 0000 00000018 00")), "05/24/00 @2.3") << "type";
    EXPECT_EQ(sense_of(unit.ask("5f 07 00 0000 00000018 00")), "05/24/00 @1.4") << "REGISTER AND MOVE";
    EXPECT_EQ(sense_of(unit.ask("5e 04 00 000000 00 0100 00")), "05/24/00 @1.4");
}

TEST(ReserveOut, parses_its_parameter_list) {
    Device device = example_device();
    const auto cdb = from_hex("5f 06 00 0000 00000018 00 000000000000");
    ReserveOrder order;
    wire::Sense sense;
    auto list = from_hex("0000000000000001 0000000000000002 00000000 00 00 0000");
    ASSERT_TRUE(parse_reserve_out(cdb, list, device, order, sense));
    EXPECT_EQ(order.action, wire::kRegisterAndIgnore);
    EXPECT_EQ(order.key, 1u);
    EXPECT_EQ(order.action_key, 2u);
    for (auto [flags, bit] : {std::pair{0x08, 3}, {0x04, 2}, {0x01, 0}}) {
        list[20] = std::byte(flags);
        ASSERT_FALSE(parse_reserve_out(cdb, list, device, order, sense));
        EXPECT_EQ(sense, sense::invalid_list_field(20, int8_t(bit)));
    }
    device.reservations_persist = true;
    ASSERT_TRUE(parse_reserve_out(cdb, list, device, order, sense));
    EXPECT_TRUE(order.persists);
    list.pop_back();
    EXPECT_FALSE(parse_reserve_out(cdb, list, device, order, sense));
}

// SPC-4 table 67, SBC-3 table 13. Columns: write exclusive, exclusive access.
TEST(ReservationConflicts, follow_the_tables_of_the_standards) {
    struct {
        const char* cdb;
        bool conflicts_no_writes, conflicts_no_access;
    } const rows[] = {
        {"00 00 00 00 00 00", false, false},                      // TEST UNIT READY
        {"03 00 00 00 ff 00", false, false},                      // REQUEST SENSE
        {"12 00 00 00 ff 00", false, false},                      // INQUIRY
        {"1a 00 3f 00 ff 00", false, true},                       // MODE SENSE
        {"1b 00 00 00 01 00", false, false},                      // START
        {"1b 00 00 00 00 00", true, true},                        // STOP
        {"25 00 00000000 0000 00 00", false, false},              // READ CAPACITY
        {"28 00 00000000 00 0001 00", false, true},               // READ
        {"2a 00 00000000 00 0001 00", true, true},                // WRITE
        {"2f 00 00000000 00 0001 00", false, true},               // VERIFY
        {"35 00 00000000 00 0000 00", true, true},                // SYNCHRONIZE CACHE
        {"41 00 00000000 00 0001 00", true, true},                // WRITE SAME
        {"42 00 00000000 00 0018 00", true, true},                // UNMAP
        {"5e 00 000000 00 00 0100 00", false, false},             // PERSISTENT RESERVE IN
        {"5f 00 00 0000 00000018 00", false, false},              // PERSISTENT RESERVE OUT
        {"89 00 0000000000000000 000000 01 00 00", true, true},   // COMPARE AND WRITE
        {"a0 00 00 000000 00001000 00 00", false, false},         // REPORT LUNS
        {"a3 0c 00 00 0000 00001000 00 00", false, true},         // REPORT SUPPORTED OPERATION CODES
        {"9e 10 0000000000000000 00000020 00 00", false, false},  // READ CAPACITY (16)
    };
    ReservedUnit unit;
    for (const auto& row : rows) {
        auto conflicts = [&](Restriction restriction) {
            unit.restriction = restriction;
            return unit.ask(row.cdb).status == wire::kReservationConflict;
        };
        EXPECT_FALSE(conflicts(Restriction::kNone)) << row.cdb;
        EXPECT_EQ(conflicts(Restriction::kNoWrites), row.conflicts_no_writes) << row.cdb;
        EXPECT_EQ(conflicts(Restriction::kNoAccess), row.conflicts_no_access) << row.cdb;
    }
}

TEST(ReservationConflicts, keep_a_unit_attention_pending) {
    ReservedUnit unit;
    unit.attentions.add(Attention::kRegistrationsPreempted);
    unit.restriction = Restriction::kNoWrites;
    EXPECT_EQ(unit.ask("2a 00 00000000 00 0001 00").status, wire::kReservationConflict);
    EXPECT_EQ(sense_of(unit.ask("00 00 00 00 00 00")), "06/2a/05");
}

}  // namespace
}  // namespace wss::scsi
