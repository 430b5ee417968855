// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/ownership.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/io/rbd/encoding.h"
#include "lib/io/rbd/owner_mark.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr const char* kOwnerKey = "wss_owner";
constexpr const char* kHolderKey = "wss_holder";

std::string entropy() {
    return fmt::format("{:016x}{:016x}", Random::entropy(), Random::entropy());
}

// Returns an empty text if there is no mark, or if the metadata is too long for a mark.
Result<std::string> read_mark(rbd_image_t image, const char* key) {
    std::array<char, 256> value{};
    size_t bytes = value.size();
    const int found = rbd_metadata_get(image, key, value.data(), &bytes);
    if (found < 0 && found != -ENOENT && found != -ERANGE)
        return refusal(-found, fmt::format("cannot read the image's metadata {}", key));
    return std::string(found < 0 ? "" : value.data());
}

Status write_mark(rbd_image_t image, const char* key, const std::string& text) {
    const int written = rbd_metadata_set(image, key, text.c_str());
    if (written < 0) return refusal(-written, fmt::format("cannot write the image's metadata {}", key));
    return Status::ok();
}

// Returns the mark of this client, or nullopt if another program removed or replaced it.
Result<std::optional<HolderMark>> mark_of(rbd_image_t image, uint64_t client) {
    const auto found = read_mark(image, kHolderKey);
    if (!found) return found.status();
    std::optional<HolderMark> mark = parse_holder_mark(*found);
    if (mark && mark->client != client) mark.reset();
    return mark;
}

}  // namespace

Result<std::string> note_owner(rbd_image_t image, const std::string& name, const std::string& header,
                               const std::string& owner, bool read_only) {
    const auto found = read_mark(image, kOwnerKey);
    if (!found) return found.status();
    const std::optional<OwnerMark> known = parse_owner_mark(*found);
    if (known && (read_only || known->name == owner)) return fmt::format("{} {}", header, known->number);
    if (read_only) return std::string();
    const OwnerMark mark{.name = owner.empty() ? entropy() : owner, .number = entropy()};
    WSS_TRY(write_mark(image, kOwnerKey, mark.text()));
    // Cache engines of the former owner keep their dirty data, which only that owner can destage.
    if (known)
        log::warning(
            "rbd:{}: another owner had the image last. If this process took the image by mistake, has "
            "written nothing, and the former owner was not running: stop this process, then run rbd "
            "image-meta set {} {} '{}'",
            name, name, kOwnerKey, known->text());
    return fmt::format("{} {}", header, mark.number);
}

Result<Succession> note_holder(rbd_image_t image, const std::string& identity, uint64_t client,
                               const HolderMark::Taking& taking) {
    const auto found = read_mark(image, kHolderKey);
    if (!found) return found.status();
    const uint64_t fresh = std::max<uint64_t>(Random::entropy(), 1);
    const HolderMark mark = HolderMark::after(parse_holder_mark(*found), taking, client, fresh);
    WSS_TRY(write_mark(image, kHolderKey, mark.text()));
    Succession noted = mark.succession;
    noted.series = XXH3_64bits_withSeed(identity.data(), identity.size(), noted.series);
    noted.series = std::max<uint64_t>(noted.series, 1);
    return noted;
}

Result<uint64_t> unreleased_holder(rbd_image_t image) {
    const auto found = read_mark(image, kHolderKey);
    if (!found) return found.status();
    const std::optional<HolderMark> mark = parse_holder_mark(*found);
    return mark && !mark->released ? mark->client : 0;
}

Status check_release(rbd_image_t image, uint64_t client) {
    auto mark = mark_of(image, client);
    if (!mark) return mark.status();
    return *mark ? write_mark(image, kHolderKey, (*mark)->text()) : Status::ok();
}

Status note_release(rbd_image_t image, rados_ioctx_t pool, const std::string& header, uint64_t client) {
    auto mark = mark_of(image, client);
    if (!mark) return mark.status();
    if (!*mark) return failure(Code::kBusy, "another client has written the image's metadata {}", kHolderKey);
    const std::string before = (*mark)->text(), key = fmt::format("metadata_{}", kHolderKey);
    (*mark)->released = true;
    const Encoder entry = Encoder().number(1, 4).text(kHolderKey).text((*mark)->text());  // a map
    rados_write_op_t both = rados_create_write_op();
    rados_write_op_omap_cmp2(both, key.data(), LIBRADOS_CMPXATTR_OP_EQ, before.data(), key.size(),
                             before.size(), nullptr);
    // This does not use rbd_metadata_set(), for which librbd would take the lock again.
    rados_write_op_exec(both, "rbd", "metadata_set", entry.bytes().data(), entry.bytes().size(), nullptr);
    const int result = rados_write_op_operate(both, pool, header.c_str(), nullptr, 0);
    rados_release_write_op(both);
    if (result == -ECANCELED)
        return failure(Code::kBusy, "another client has written the image's metadata {}", kHolderKey);
    if (result < 0) return refusal(-result, fmt::format("cannot write the image's metadata {}", kHolderKey));
    return Status::ok();
}

}  // namespace wss::io::rbd
