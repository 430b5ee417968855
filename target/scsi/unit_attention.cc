// SPDX-License-Identifier: Apache-2.0
// The codes of the unit attentions. See unit_attention.h.
#include "target/scsi/unit_attention.h"

#include <array>
#include <bit>

#include "lib/base/assert.h"
#include "target/scsi/sense.h"

namespace wss::scsi {
namespace {

// Indexed by Attention.
constexpr std::array kCodes = {
    wire::AdditionalSense::kPowerOn,
    wire::AdditionalSense::kBusDeviceReset,
    wire::AdditionalSense::kReportedLunsChanged,
    wire::AdditionalSense::kInquiryDataChanged,
    wire::AdditionalSense::kCapacityChanged,
    wire::AdditionalSense::kModeParametersChanged,
    wire::AdditionalSense::kReservationsPreempted,
    wire::AdditionalSense::kReservationsReleased,
    wire::AdditionalSense::kRegistrationsPreempted,
};
static_assert(kCodes.size() == size_t(Attention::kRegistrationsPreempted) + 1, "one code per attention");

}  // namespace

wire::Sense UnitAttentions::take() {
    WSS_ASSERT(!empty(), "a unit attention is pending");
    auto first = unsigned(std::countr_zero(pending_));
    remove(Attention(first));
    return sense::make(wire::SenseKey::kUnitAttention, kCodes[first]);
}

}  // namespace wss::scsi
