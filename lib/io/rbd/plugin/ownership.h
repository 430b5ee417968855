// SPDX-License-Identifier: Apache-2.0
// The marks of owner and holder in the metadata of an image. They show whether another owner or holder had
// the image between two openings.
//
// The owner mark names the last owner, and has a random number that changes with the owner. An owner that
// finds its own name changes nothing. So the number stays the same while no other owner that writes marks has
// had the image, regardless of crashes. Programs that keep data of the image elsewhere store the number with
// it. Other programs (qemu, rbd bench) write no owner mark.
//
// The holder mark names the last client that had the image, and its term, which is higher than those of all
// clients before it. It also contains the term of the first client of the chain. Each later member of the
// chain took the image in one of two ways: it shut out the member before it, and no other client of any
// program had the image in between, or that member had released the image in an orderly way. A read-only
// client writes this mark, too. Otherwise the next client could not distinguish it from a program that writes
// no mark. A copy of an image has a copy of the mark.
#pragma once

#include <rados/librados.h>
#include <rbd/librbd.h>

#include <string>

#include "lib/base/status.h"
#include "lib/io/rbd/holder_mark.h"

namespace wss::io::rbd {

// Requires the lock. Returns the image's header and the number. The text is empty if there is no mark and the
// client is read-only, because a read-only client writes none. An empty `owner` is a new owner. `name` is
// that of the image, for the log.
Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only);

// Requires the lock. Returns the place of this client. `identity` identifies the image in all clusters:
// places of different images cannot be compared.
Result<Succession> note_holder(rbd_image_t image, const std::string& identity, uint64_t client,
                               const HolderMark::Taking& taking);
// Returns the client of the holder mark if that client has not recorded a release, or otherwise 0.
Result<uint64_t> unreleased_holder(rbd_image_t image);
// Requires the lock. Fails if note_release() would fail: writes the mark again. Does nothing if the mark is
// that of another client.
Status check_release(rbd_image_t image, uint64_t client);
// Records that `client` has just released the lock of the image. `header` is the image's header object. Fails
// and changes nothing if another client has written its mark meanwhile.
Status note_release(rbd_image_t image, rados_ioctx_t pool, const std::string& header, uint64_t client);

}  // namespace wss::io::rbd
