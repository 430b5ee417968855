// SPDX-License-Identifier: Apache-2.0
// Who had an image, and whether another one had it in between.
//
// The image's metadata names the owner that had it last, and a number that is drawn when the owner changes.
// An owner that finds its own name changes nothing: so the number is the same for as long as no other owner
// (of this kind) has had the image, whatever process dies when. Who keeps data for the image elsewhere
// remembers the number with it.
//
// Other programs (qemu, rbd bench) write no such name.
//
// It also names the client that had the image last, and its place in a chain of clients each of which shut
// out the one before: who follows in the chain knows that nobody of any kind had the image in between.
#pragma once

#include <rbd/librbd.h>

#include <string>

#include "lib/base/status.h"
#include "lib/io/ownership.h"

namespace wss::io::rbd {

// With the lock. Returns the number, and which image it is of; empty: nobody has written one, and a read-only
// client does not. `owner` empty: another one than all before. `name` of the image, for the log.
Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only);

// With the lock. The place of this client, which shut out `former`; 0: it did not, or somebody may have had
// the image in between.
Result<Succession> note_holder(rbd_image_t image, uint64_t client, uint64_t former);

}  // namespace wss::io::rbd
