// SPDX-License-Identifier: Apache-2.0
#include "target/scsi/persistent_reservations.h"

#include <algorithm>

#include "target/scsi/commands.h"

namespace wss::scsi {

using volume::Registrant;
using volume::Registration;
using volume::ReservationEvent;
using volume::Reservations;
using volume::ReservationType;

Restriction restriction_of(const Reservations& reservations, const Registrant& who) {
    const ReservationType type = reservations.type;
    if (type == ReservationType::kNone) return Restriction::kNone;
    const Registration* own = reservations.find(who);
    if (own != nullptr && (own->is_holder || volume::admits_registrants(type))) return Restriction::kNone;
    return volume::is_exclusive_access(type) ? Restriction::kNoAccess : Restriction::kNoWrites;
}

// ---- PERSISTENT RESERVE IN -------------------------------------------------------------------------------

namespace {

constexpr size_t kLengthAt = 4;
constexpr size_t kHeaderBytes = 8;

const Reservations& reservations_of(const Call& call) {
    static const Reservations kNothing;
    return call.standing.reservations != nullptr ? *call.standing.reservations : kNothing;
}

const Reservations& begin_report(const Call& call) {
    const Reservations& all = reservations_of(call);
    call.answer.limit(call.u16(7));
    call.answer.u32(all.generation);
    call.answer.u32(0);
    return all;
}

Action end_report(const Call& call) {
    call.answer.patch32(kLengthAt, uint32_t(call.answer.total() - kHeaderBytes));
    return respond(call.answer);
}

// Format 0, SRP: the initiator port identifier.
void put_transport_id(Answer& out, const wire::PortId& port) {
    constexpr uint8_t kSrp = 4;
    out.u8(kSrp);
    out.zeroes(7);
    out.bytes(std::as_bytes(std::span(port)));
}

}  // namespace

Action read_keys(const Call& call) {
    for (const Registration& each : begin_report(call).registrations) call.answer.u64(each.key);
    return end_report(call);
}

Action read_reservation(const Call& call) {
    const Reservations& all = begin_report(call);
    if (all.type != ReservationType::kNone) {
        const Registration* holder = all.holder();
        call.answer.u64(holder != nullptr ? holder->key : 0);
        call.answer.u32(0);
        call.answer.u8(0);
        call.answer.u8(uint8_t(all.type));  // scope 0: the whole unit
        call.answer.u16(0);
    }
    return end_report(call);
}

Action report_reservation_capabilities(const Call& call) {
    constexpr uint8_t kPersistCapable = 0x01;  // PTPL_C
    constexpr uint8_t kMaskValid = 0x80;       // TMV
    constexpr uint8_t kPersists = 0x01;        // PTPL_A
    constexpr uint16_t kAllTypes = 0xea01;
    Answer& out = call.answer;
    out.limit(call.u16(7));
    out.u16(8);
    out.u8(call.device.reservations_persist ? kPersistCapable : 0);
    out.u8(uint8_t(kMaskValid | (reservations_of(call).persists ? kPersists : 0)));
    out.u16(kAllTypes);
    out.u16(0);
    return respond(out);
}

Action read_full_status(const Call& call) {
    constexpr uint8_t kHolder = 0x01;
    constexpr uint32_t kTransportIdBytes = 24;
    const Reservations& all = begin_report(call);
    Answer& out = call.answer;
    for (const Registration& each : all.registrations) {
        const bool holds = all.is_holder(each);
        out.u64(each.key);
        out.u32(0);
        out.u8(holds ? kHolder : 0);
        out.u8(holds ? uint8_t(all.type) : 0);
        out.u32(0);
        out.u16(call.device.relative_port);
        out.u32(kTransportIdBytes);
        put_transport_id(out, each.initiator.port);
    }
    return end_report(call);
}

// ---- PERSISTENT RESERVE OUT ------------------------------------------------------------------------------

namespace {

constexpr uint32_t kListBytes = 24;
constexpr uint8_t kScopeAt = 2;

// Service actions other than the registering ones and CLEAR have a scope.
bool has_scope(uint8_t action) {
    return action == wire::kReserve || action == wire::kRelease || action == wire::kPreempt ||
           action == wire::kPreemptAndAbort;
}

bool registers(uint8_t action) {
    return action == wire::kRegister || action == wire::kRegisterAndIgnore;
}

}  // namespace

Action reserve_out(const Call& call) {
    const uint8_t action = call.u8(1);
    if (has_scope(action) && call.u8(kScopeAt) >> 4 != 0) return fail(sense::invalid_field(kScopeAt, 7));
    if (action == wire::kReserve && !volume::is_reservation_type(call.u8(kScopeAt) & 0xf))
        return fail(sense::invalid_field(kScopeAt, 3));
    if (call.u32(5) != kListBytes) return fail(sense::list_length_error());
    return Action{.kind = Action::Kind::kReserveOut, .status = wire::kGood, .data_out_length = kListBytes};
}

bool parse_reserve_out(Bytes cdb, Bytes list, const Device& device, ReserveOrder& out, wire::Sense& sense) {
    constexpr size_t kFlagsAt = 20;
    constexpr uint8_t kForOthers = 0x08, kAllPorts = 0x04, kPersists = 0x01;
    if (cdb.size() < 10 || list.size() != kListBytes) {
        sense = sense::list_length_error();
        return false;
    }
    out.action = wire::get8(&cdb[1]) & 0x1f;
    out.type = wire::get8(&cdb[kScopeAt]) & 0xf;
    out.key = wire::get64(&list[0]);
    out.action_key = wire::get64(&list[8]);
    const uint8_t flags = wire::get8(&list[kFlagsAt]);
    out.persists = registers(out.action) && flags & kPersists;
    int8_t wrong = -1;
    if (flags & kForOthers) wrong = 3;
    if (registers(out.action) && flags & kAllPorts) wrong = 2;
    if (out.persists && !device.reservations_persist) wrong = 0;
    if (wrong >= 0) sense = sense::invalid_list_field(kFlagsAt, wrong);
    return wrong < 0;
}

namespace {

ReserveResult refused(const wire::Sense& sense) {
    return {.status = wire::kCheckCondition, .sense = sense, .next = {}, .aborted = {}};
}
ReserveResult conflict() {
    return {.status = wire::kReservationConflict, .sense = {}, .next = {}, .aborted = {}};
}
ReserveResult unchanged() {
    return {};
}

// Executes a command on a copy of the reservations.
class Reserving {
  public:
    Reserving(const ReserveOrder& order, const Registrant& who, const Reservations& now)
        : order_(order), who_(who), next_(now) {
        next_.notices.clear();
    }

    ReserveResult run() {
        if (registers(order_.action)) return enroll();
        const Registration* own = next_.find(who_);
        if (own == nullptr || own->key != order_.key) return conflict();
        switch (order_.action) {
            case wire::kReserve:
                return reserve();
            case wire::kRelease:
                return release();
            case wire::kClear:
                return clear();
            case wire::kPreempt:
            case wire::kPreemptAndAbort:
                return preempt();
            default:
                return refused(sense::invalid_field(1, 4));
        }
    }

  private:
    ReserveResult changed(bool fences) {
        return {.status = wire::kGood,
                .sense = {},
                .next = std::move(next_),
                .fences = fences,
                .aborted = std::move(aborted_)};
    }
    ReserveResult changed_registrations(bool fences) {
        if (next_.registrations.empty()) drop_reservation();
        ++next_.generation;
        return changed(fences);
    }
    ReservationType wanted() const { return ReservationType(order_.type); }

    // Notifies all registered initiators except the requesting one.
    void notify_others(ReservationEvent event) {
        for (const Registration& each : next_.registrations)
            if (each.initiator != who_) next_.notices.push_back({each.initiator, event});
    }
    void drop_reservation() {
        next_.type = ReservationType::kNone;
        for (Registration& each : next_.registrations) each.is_holder = false;
    }
    void take_reservation() {
        drop_reservation();
        next_.type = wanted();
        next_.find(who_)->is_holder = !volume::is_for_all(next_.type);
    }

    bool is_full() const {
        const auto of_name = std::ranges::count_if(
            next_.registrations, [&](const Registration& each) { return each.initiator.name == who_.name; });
        return next_.registrations.size() >= volume::kRegistrationsMax ||
               size_t(of_name) >= volume::kRegistrationsPerName;
    }

    ReserveResult enroll() {
        Registration* own = next_.find(who_);
        const uint64_t key = own != nullptr ? own->key : 0;
        if (order_.action == wire::kRegister && key != order_.key) return conflict();
        if (own == nullptr && order_.action_key == 0) return unchanged();
        next_.persists = order_.persists;
        if (order_.action_key == 0) return unregister(*own);
        if (own != nullptr) {
            own->key = order_.action_key;
        } else {
            if (is_full()) return refused(sense::no_place_for_registration());
            next_.registrations.push_back({.initiator = who_, .key = order_.action_key});
        }
        return changed_registrations(false);
    }

    ReserveResult unregister(const Registration& own) {
        const bool held = own.is_holder;
        std::erase_if(next_.registrations, [&](const Registration& each) { return each.initiator == who_; });
        if (held) {
            if (volume::admits_registrants(next_.type))
                notify_others(ReservationEvent::kReservationsReleased);
            drop_reservation();
        }
        return changed_registrations(true);
    }

    ReserveResult reserve() {
        if (next_.type != ReservationType::kNone)
            return next_.is_holder(*next_.find(who_)) && next_.type == wanted() ? unchanged() : conflict();
        take_reservation();
        return changed(true);
    }

    ReserveResult release() {
        if (!next_.is_holder(*next_.find(who_))) return unchanged();
        if (next_.type != wanted()) return refused(sense::invalid_release());
        if (volume::admits_registrants(next_.type)) notify_others(ReservationEvent::kReservationsReleased);
        drop_reservation();
        return changed(false);
    }

    ReserveResult clear() {
        notify_others(ReservationEvent::kReservationsPreempted);
        next_.registrations.clear();
        return changed_registrations(false);
    }

    ReserveResult preempt() {
        const bool for_all = volume::is_for_all(next_.type);
        const uint64_t victim = order_.action_key;
        if (victim == 0 && !for_all) return refused(sense::invalid_list_field(8));
        const Registration* holder = next_.holder();
        const bool takes = for_all ? victim == 0 : holder != nullptr && holder->key == victim;
        if (takes && !volume::is_reservation_type(order_.type))
            return refused(sense::invalid_field(kScopeAt, 3));
        const size_t removed = remove_victims(takes);
        if (removed == 0 && !takes) return conflict();
        if (takes) {
            if (next_.type != wanted()) notify_others(ReservationEvent::kReservationsReleased);
            take_reservation();
        }
        if (order_.action != wire::kPreemptAndAbort) aborted_.clear();
        return changed_registrations(true);
    }

    // An initiator that takes the reservation stays registered. One that does not may remove its own
    // registration as well, if that has the key.
    size_t remove_victims(bool takes) {
        auto is_victim = [&](const Registration& each) {
            if (takes && each.initiator == who_) return false;
            return order_.action_key == 0 || each.key == order_.action_key;
        };
        for (const Registration& each : next_.registrations) {
            if (!is_victim(each) || each.initiator == who_) continue;
            next_.notices.push_back({each.initiator, ReservationEvent::kRegistrationsPreempted});
            aborted_.push_back(each.initiator);
        }
        return std::erase_if(next_.registrations, is_victim);
    }

    const ReserveOrder& order_;
    const Registrant& who_;
    Reservations next_;
    std::vector<Registrant> aborted_;
};

}  // namespace

ReserveResult carry_out(const ReserveOrder& order, const Registrant& who, const Reservations& now) {
    return Reserving(order, who, now).run();
}

}  // namespace wss::scsi
