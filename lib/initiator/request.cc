// SPDX-License-Identifier: Apache-2.0
// Texts and error numbers for requests.
#include "lib/initiator/request.h"

#include <fmt/format.h>

#include <cerrno>

#include "lib/initiator/volume.h"

namespace wss::initiator {

std::string_view to_string(Operation operation) {
    switch (operation) {
        case Operation::kRead:
            return "read";
        case Operation::kWrite:
            return "write";
        case Operation::kFlush:
            return "flush";
        case Operation::kDiscard:
            return "discard";
        case Operation::kWriteZeroes:
            return "write zeroes";
        case Operation::kCompareAndWrite:
            return "compare and write";
        case Operation::kAdmin:
            return "query";
    }
    return "unknown";
}

namespace {

struct Words {
    Outcome outcome;
    int error;
    std::string_view text;
};

constexpr Words kWords[] = {
    {Outcome::kOk, 0, "done"},
    {Outcome::kMismatch, EILSEQ,
     "the data on the volume differs from the data to compare; nothing was written"},
    {Outcome::kUnaligned, EINVAL, "offset and length must be multiples of the volume's block size"},
    {Outcome::kOutOfRange, EINVAL, "the range reaches beyond the end of the volume"},
    {Outcome::kReadOnly, EROFS, "the volume is read-only"},
    {Outcome::kUnsupported, EOPNOTSUPP, "the target does not support this for the volume"},
    {Outcome::kTooLong, EINVAL, "longer than the target can compare in one step"},
    {Outcome::kBadBuffers, EINVAL, "the buffers are smaller than the request"},
    {Outcome::kMediumError, EIO, "the target could not access its medium"},
    {Outcome::kNoSpace, ENOSPC, "the target's medium is full"},
    {Outcome::kRefused, EIO, "the target refused the command"},
    {Outcome::kShort, EIO, "the target transferred less data than requested"},
    {Outcome::kTimedOut, ETIMEDOUT, "no answer in time"},
    {Outcome::kConnectionLost, ENOTCONN, "the connection to the target is lost"},
    {Outcome::kWritesLost, EIO,
     "the target, or a storage machine behind it, restarted; unflushed writes may be lost"},
    {Outcome::kVolumeGone, ENODEV, "the volume no longer exists"},
    {Outcome::kClosed, ESHUTDOWN, "the session is closed"},
};

const Words& words_of(Outcome outcome) {
    for (const Words& words : kWords)
        if (words.outcome == outcome) return words;
    return kWords[0];
}

std::string describe_sense(const wire::Sense& sense) {
    if (sense.key == wire::SenseKey::kNoSense) return {};
    std::string text = fmt::format(" ({}, code {:02x}/{:02x}", wire::to_string(sense.key),
                                   wire::asc(sense.code), wire::ascq(sense.code));
    if (sense.has_information) text += fmt::format(", at block {}", sense.information);
    return text + ")";
}

}  // namespace

std::string_view to_string(Outcome outcome) {
    return words_of(outcome).text;
}

int to_errno(Outcome outcome) {
    return words_of(outcome).error;
}

std::string describe(const Request& request) {
    std::string what(to_string(request.operation));
    if (request.operation != Operation::kFlush && request.operation != Operation::kAdmin)
        what += fmt::format(" of {} bytes at {}", request.length, request.offset);
    if (request.volume != nullptr) what += fmt::format(" of volume '{}'", request.volume->info().name);
    std::string text =
        fmt::format("{}: {}{}", what, to_string(request.outcome), describe_sense(request.sense));
    if (request.outcome == Outcome::kUnaligned && request.volume != nullptr)
        text += fmt::format(", {} bytes", request.volume->info().block_size);
    if (request.outcome == Outcome::kOutOfRange && request.volume != nullptr)
        text += fmt::format(", which has {} bytes", request.volume->info().size);
    return text;
}

}  // namespace wss::initiator
