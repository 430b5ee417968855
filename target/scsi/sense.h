// SPDX-License-Identifier: Apache-2.0
// The sense data that a WSS target reports. Encode with wire::encode_sense(…, sense_format(device), …).
#pragma once

#include <cstdint>

#include "lib/wire/scsi.h"

namespace wss::scsi::sense {

using wire::AdditionalSense;
using wire::Sense;
using wire::SenseKey;

constexpr Sense make(SenseKey key, AdditionalSense code) {
    return Sense{.key = key, .code = code};
}

constexpr Sense at(SenseKey key, AdditionalSense code, uint64_t information) {
    return Sense{.key = key, .code = code, .has_information = true, .information = information};
}

// ---- Errors of the medium. `lba`: the first failed block.
constexpr Sense read_error(uint64_t lba) {
    return at(SenseKey::kMediumError, AdditionalSense::kUnrecoveredReadError, lba);
}
constexpr Sense write_error(uint64_t lba) {
    return at(SenseKey::kMediumError, AdditionalSense::kWriteError, lba);
}
// A flush failed. Acknowledged writes may be lost, and it is unknown which blocks are affected.
constexpr Sense flush_error() {
    return make(SenseKey::kMediumError, AdditionalSense::kWriteError);
}
constexpr Sense no_space(uint64_t lba) {
    return at(SenseKey::kDataProtect, AdditionalSense::kSpaceAllocationFailed, lba);
}
constexpr Sense write_protected() {
    return make(SenseKey::kDataProtect, AdditionalSense::kWriteProtected);
}
// `offset`: bytes from the start of the data-out buffer to the first byte that differs.
constexpr Sense miscompare(uint64_t offset) {
    return at(SenseKey::kMiscompare, AdditionalSense::kMiscompareDuringVerify, offset);
}
// A fault of the target, not of the medium: a bug, or a device that disappeared.
constexpr Sense internal_failure() {
    return make(SenseKey::kHardwareError, AdditionalSense::kInternalTargetFailure);
}
constexpr Sense aborted() {
    return make(SenseKey::kAbortedCommand, AdditionalSense::kNone);
}
constexpr Sense not_ready() {
    return make(SenseKey::kNotReady, AdditionalSense::kNotReadyCauseUnknown);
}

// ---- Errors of the request.
constexpr Sense invalid_opcode() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kInvalidOpcode);
}
constexpr Sense lun_not_supported() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kLunNotSupported);
}
// `lba`: the first invalid one.
constexpr Sense lba_out_of_range(uint64_t lba) {
    return at(SenseKey::kIllegalRequest, AdditionalSense::kLbaOutOfRange, lba);
}
// `bit`: most significant bit of the invalid field, or -1 for the whole byte.
constexpr Sense invalid_field(uint16_t byte, int8_t bit = -1) {
    Sense result = make(SenseKey::kIllegalRequest, AdditionalSense::kInvalidFieldInCdb);
    result.field = {.valid = true, .in_cdb = true, .bit = bit, .byte = byte};
    return result;
}
constexpr Sense invalid_list_field(uint16_t byte, int8_t bit = -1) {
    Sense result = make(SenseKey::kIllegalRequest, AdditionalSense::kInvalidFieldInParameterList);
    result.field = {.valid = true, .in_cdb = false, .bit = bit, .byte = byte};
    return result;
}
// RELEASE with a type other than that of the reservation.
constexpr Sense invalid_release() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kInvalidRelease);
}
constexpr Sense no_place_for_registration() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kInsufficientRegistrationResources);
}
constexpr Sense list_length_error() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kParameterListLength);
}
constexpr Sense saving_not_supported() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kSavingNotSupported);
}
// The IU's descriptors are invalid, or its data-out buffer does not have the length that the CDB requires.
constexpr Sense wrong_data_buffer() {
    return make(SenseKey::kIllegalRequest, AdditionalSense::kInvalidFieldInCommandIu);
}

}  // namespace wss::scsi::sense
