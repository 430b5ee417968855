// SPDX-License-Identifier: Apache-2.0
// Names of SCSI's numbers, in the terms of the standards (SAM-5, SPC-4, SBC-3).
#pragma once

#include <cstdint>
#include <string_view>

namespace wss::wire {

enum Opcode : uint8_t {
    kTestUnitReady = 0x00,
    kRequestSense = 0x03,
    kRead6 = 0x08,
    kWrite6 = 0x0a,
    kInquiry = 0x12,
    kModeSense6 = 0x1a,
    kStartStopUnit = 0x1b,
    kReadCapacity10 = 0x25,
    kRead10 = 0x28,
    kWrite10 = 0x2a,
    kVerify10 = 0x2f,
    kSynchronizeCache10 = 0x35,
    kWriteSame10 = 0x41,
    kUnmap = 0x42,
    kModeSense10 = 0x5a,
    kPersistentReserveIn = 0x5e,
    kPersistentReserveOut = 0x5f,
    kRead16 = 0x88,
    kCompareAndWrite = 0x89,
    kWrite16 = 0x8a,
    kVerify16 = 0x8f,
    kSynchronizeCache16 = 0x91,
    kWriteSame16 = 0x93,
    kServiceActionIn16 = 0x9e,
    kReportLuns = 0xa0,
    kMaintenanceIn = 0xa3,
    kRead12 = 0xa8,
    kWrite12 = 0xaa,
    kVerify12 = 0xaf,
};

inline constexpr uint8_t kSaReadCapacity16 = 0x10;          // a service action of kServiceActionIn16
inline constexpr uint8_t kSaReportSupportedOpcodes = 0x0c;  // a service action of kMaintenanceIn

// Service actions of kPersistentReserveIn.
enum ReserveIn : uint8_t {
    kReadKeys = 0x00,
    kReadReservation = 0x01,
    kReportReservationCapabilities = 0x02,
    kReadFullStatus = 0x03,
};
// Service actions of kPersistentReserveOut.
enum ReserveOut : uint8_t {
    kRegister = 0x00,
    kReserve = 0x01,
    kRelease = 0x02,
    kClear = 0x03,
    kPreempt = 0x04,
    kPreemptAndAbort = 0x05,
    kRegisterAndIgnore = 0x06,
};

enum SamStatus : uint8_t {
    kGood = 0x00,
    kCheckCondition = 0x02,
    kBusy = 0x08,
    kReservationConflict = 0x18,
    kTaskSetFull = 0x28,
    kTaskAborted = 0x40,
};

enum VpdPage : uint8_t {
    kVpdSupportedPages = 0x00,
    kVpdSerialNumber = 0x80,
    kVpdIdentification = 0x83,
    kVpdBlockLimits = 0xb0,
    kVpdBlockCharacteristics = 0xb1,
    kVpdProvisioning = 0xb2,
};

enum ModePage : uint8_t {
    kModeCaching = 0x08,
    kModeControl = 0x0a,
    kModeExceptions = 0x1c,
    kModeAll = 0x3f,
};

enum class SenseKey : uint8_t {
    kNoSense = 0x0,
    kRecovered = 0x1,
    kNotReady = 0x2,
    kMediumError = 0x3,
    kHardwareError = 0x4,
    kIllegalRequest = 0x5,
    kUnitAttention = 0x6,
    kDataProtect = 0x7,
    kBlankCheck = 0x8,
    kAbortedCommand = 0xb,
    kMiscompare = 0xe,
};
std::string_view to_string(SenseKey key);

// ASC << 8 | ASCQ.
enum class AdditionalSense : uint16_t {
    kNone = 0x0000,
    kNotReadyCauseUnknown = 0x0400,
    kWriteError = 0x0c00,
    kInvalidFieldInCommandIu = 0x0e03,
    kUnrecoveredReadError = 0x1100,
    kParameterListLength = 0x1a00,
    kMiscompareDuringVerify = 0x1d00,
    kInvalidOpcode = 0x2000,
    kLbaOutOfRange = 0x2100,
    kInvalidFieldInCdb = 0x2400,
    kLunNotSupported = 0x2500,
    kInvalidFieldInParameterList = 0x2600,
    kInvalidRelease = 0x2604,
    kWriteProtected = 0x2700,
    kSpaceAllocationFailed = 0x2707,
    kPowerOn = 0x2900,
    kBusDeviceReset = 0x2903,
    kModeParametersChanged = 0x2a01,
    kReservationsPreempted = 0x2a03,
    kReservationsReleased = 0x2a04,
    kRegistrationsPreempted = 0x2a05,
    kCapacityChanged = 0x2a09,
    kSavingNotSupported = 0x3900,
    kInquiryDataChanged = 0x3f03,
    kReportedLunsChanged = 0x3f0e,
    kInternalTargetFailure = 0x4400,
    kInsufficientRegistrationResources = 0x5504,
};
constexpr uint8_t asc(AdditionalSense code) {
    return uint8_t(uint16_t(code) >> 8);
}
constexpr uint8_t ascq(AdditionalSense code) {
    return uint8_t(uint16_t(code));
}

}  // namespace wss::wire
