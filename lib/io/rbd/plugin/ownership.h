// SPDX-License-Identifier: Apache-2.0
// The marks of owner and holder in the metadata of an image. They show whether another owner had the image in
// between.
//
// The owner mark names the last owner, and has a random number that changes with the owner. An owner that
// finds its own name changes nothing. So the number stays the same as long as no other owner that writes
// marks has had the image, regardless of crashes. Programs that keep data of the image elsewhere store the
// number with it. Other programs (qemu, rbd bench) write no owner mark.
//
// The holder mark names the last client that had the image, and its term, which is higher than those of all
// clients before it. It also names the first client of the chain: each member of it shut out the one before
// it, and in between no other client of any program had the image. A copy of an image has a copy of the mark.
#pragma once

#include <rbd/librbd.h>

#include <string>

#include "lib/base/status.h"
#include "lib/io/ownership.h"

namespace wss::io::rbd {

// Requires the lock. Returns the image's header and the number. Empty: there is no mark, and a read-only
// client writes none. An empty `owner` is a new owner. `name` is that of the image, for the log.
Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only);

// Requires the lock. Returns the place of this client, which shut out `former` (0: it shut out nobody, or
// another client may have had the image in between). `identity` identifies the image in all clusters: places
// of different images cannot be compared.
Result<Succession> note_holder(rbd_image_t image, const std::string& identity, uint64_t client,
                               uint64_t former);

}  // namespace wss::io::rbd
