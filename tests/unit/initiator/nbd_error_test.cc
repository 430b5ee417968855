// SPDX-License-Identifier: Apache-2.0
#include "lib/initiator/nbdkit/errors.h"

#include <gtest/gtest.h>

#include "lib/initiator/request.h"

namespace wss::initiator {
namespace {

TEST(NbdError, of_a_lost_or_failing_target_is_an_input_output_error) {
    for (Outcome outcome : {Outcome::kConnectionLost, Outcome::kClosed})
        EXPECT_EQ(nbd_error_of(to_errno(outcome)), EIO) << to_string(outcome);
    for (int error : {EIO, ETIMEDOUT, ECONNREFUSED, EBADE, ESHUTDOWN, ENODEV, 0, 4095})
        EXPECT_EQ(nbd_error_of(error), EIO) << error;
}

TEST(NbdError, of_a_wrong_request_or_a_full_volume_is_kept) {
    for (int error : {EPERM, EROFS, ENOMEM, EINVAL, ENOSPC, EOVERFLOW, EOPNOTSUPP})
        EXPECT_EQ(nbd_error_of(error), error);
}

}  // namespace
}  // namespace wss::initiator
