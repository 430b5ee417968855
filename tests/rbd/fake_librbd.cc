// SPDX-License-Identifier: Apache-2.0
// The functions of librbd that the plug-in calls, for a FakeCeph. An rbd_image_t is a FakeImage, and an
// rbd_completion_t is a Completion.
#include <rbd/features.h>
#include <rbd/librbd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/rbd/fake_ceph.h"
#include "tests/rbd/handles.h"

using namespace wss::test;

namespace {

FakeCeph& ceph() {
    return FakeCeph::current();
}

// The plug-in releases the completion in its callback.
struct Completion {
    rbd_callback_t completed = nullptr;
    void* context = nullptr;
    ssize_t result = 0;
};

FakeImage* image_of(rbd_image_t handle) {
    return static_cast<FakeImage*>(handle);
}

// Passes a call to librbd. Returns an error if librbd does not accept it.
int take(Kind kind, rbd_image_t handle, uint64_t offset, uint64_t length, rbd_completion_t completion,
         std::function<int64_t()> carry_out) {
    if (const int error = ceph().taking(); error != 0) return -error;
    FakeImage* image = image_of(handle);
    ceph().take({.kind = kind,
                 .client = image->client,
                 .image = image,
                 .offset = offset,
                 .length = length,
                 .carry_out = std::move(carry_out),
                 .answer = [one = static_cast<Completion*>(completion)](int64_t result) {
                     one->result = result;
                     one->completed(one, one->context);
                 }});
    return 0;
}

}  // namespace

extern "C" {

// ---- An image

int rbd_open(rados_ioctx_t pool, const char*, rbd_image_t* image, const char*) {
    ceph().before_open();
    *image = ceph().open(static_cast<Pool*>(pool)->client, kImage);
    return 0;
}
int rbd_open_read_only(rados_ioctx_t, const char*, rbd_image_t*, const char*) {
    return -ENOENT;
}
int rbd_open_by_id_read_only(rados_ioctx_t pool, const char* id, rbd_image_t* image, const char*) {
    if (!ceph().with([id] { return ceph().state.parents.contains(id); })) return -ENOENT;
    *image = ceph().open(static_cast<Pool*>(pool)->client, id);
    return 0;
}
int rbd_snap_set_by_id(rbd_image_t, uint64_t) {
    return 0;
}
int rbd_close(rbd_image_t image) {
    ceph().close(image_of(image));
    return 0;
}
int rbd_stat(rbd_image_t, rbd_image_info_t* info, size_t) {
    *info = {};
    info->size = ceph().size();
    info->obj_size = ceph().layout().object;
    return 0;
}
int rbd_get_size(rbd_image_t handle, uint64_t* size) {
    *size = ceph().size();
    return ceph().call(Kind::kHeader, image_of(handle)->client, [] { return 0; });
}
int rbd_get_stripe_unit(rbd_image_t image, uint64_t* bytes) {
    const uint64_t of_parent = ceph().with([] { return ceph().state.parent_stripe_unit; });
    *bytes = image_of(image)->id == kImage || of_parent == 0 ? ceph().layout().stripe_unit : of_parent;
    return 0;
}
int rbd_get_id(rbd_image_t, char* id, size_t) {
    std::strcpy(id, kImage);
    return 0;
}
int64_t rbd_get_data_pool_id(rbd_image_t) {
    return kPoolId;
}
int rbd_get_features(rbd_image_t, uint64_t* features) {
    const bool maps = ceph().with([] { return ceph().state.maps_objects; });
    *features = RBD_FEATURE_EXCLUSIVE_LOCK | (maps ? RBD_FEATURE_OBJECT_MAP : 0);
    return 0;
}
int rbd_get_flags(rbd_image_t image, uint64_t* flags) {
    const bool invalid =
        ceph().with([image] { return image_of(image)->marked || image_of(image)->map_invalid; });
    *flags = invalid ? RBD_FLAG_OBJECT_MAP_INVALID | RBD_FLAG_FAST_DIFF_INVALID : 0;
    return 0;
}
int rbd_resize(rbd_image_t handle, uint64_t bytes) {
    const int result = ceph().call(Kind::kResize, image_of(handle)->client, [] { return 0; });
    if (result != 0) return result;
    ceph().resize(bytes);
    return ceph().call(Kind::kResized, image_of(handle)->client, [] { return 0; });
}

// ---- Parents

int rbd_get_overlap(rbd_image_t image, uint64_t* overlap) {
    const bool is_clone =
        ceph().with([image] { return ceph().state.cloned_from.contains(image_of(image)->id); });
    *overlap = is_clone ? ceph().size() : 0;
    return 0;
}
int rbd_get_parent(rbd_image_t image, rbd_linked_image_spec_t* parent, rbd_snap_spec_t* snapshot) {
    return ceph().with([=] {
        const auto found = ceph().state.cloned_from.find(image_of(image)->id);
        if (found == ceph().state.cloned_from.end()) return -ENOENT;
        parent->pool_id = kPoolId;
        parent->image_id = strdup(found->second.c_str());
        snapshot->id = kParentSnapshot;
        return 0;
    });
}
void rbd_linked_image_spec_cleanup(rbd_linked_image_spec_t* parent) {
    std::free(parent->image_id);
}
void rbd_snap_spec_cleanup(rbd_snap_spec_t*) {}
int rbd_snap_get_id(rbd_image_t, const char*, uint64_t*) {
    return -ENOENT;
}
int rbd_mirror_image_get_info(rbd_image_t, rbd_mirror_image_info_t*, size_t) {
    return -EINVAL;
}
void rbd_mirror_image_get_info_cleanup(rbd_mirror_image_info_t*) {}

// ---- Its lock and watchers

int rbd_lock_acquire(rbd_image_t handle, rbd_lock_mode_t) {
    const FakeClient* client = image_of(handle)->client;
    return ceph().call(Kind::kLock, image_of(handle)->client, [client] {
        uint64_t& owner = ceph().state.lock_owner;
        if (owner != 0 && owner != client->number) return -EROFS;
        if (std::exchange(ceph().state.lock_is_taken_once, false)) return -EROFS;
        owner = client->number;
        return 0;
    });
}
int rbd_lock_release(rbd_image_t handle) {
    FakeImage& image = *image_of(handle);
    ceph().wait_for_calls(image);
    ceph().wait_for_marks(image.client);
    return ceph().call(Kind::kLock, image.client, [&image] {
        uint64_t& owner = ceph().state.lock_owner;
        if (owner != image.client->number) return -ENOENT;
        owner = 0;
        return 0;
    });
}
int rbd_lock_get_owners(rbd_image_t handle, rbd_lock_mode_t*, char** owners, size_t* count) {
    *count = 0;
    return ceph().call(Kind::kLock, image_of(handle)->client, [&] {
        const uint64_t owner = ceph().state.lock_owner;
        if (owner == 0) return -ENOENT;
        owners[0] = strdup(FakeCeph::address_of(owner).c_str());
        *count = 1;
        return 0;
    });
}
void rbd_lock_get_owners_cleanup(char** owners, size_t count) {
    for (size_t i = 0; i < count; ++i) std::free(owners[i]);
}
int rbd_watchers_list(rbd_image_t handle, rbd_image_watcher_t* watchers, size_t* count) {
    return ceph().call(Kind::kWatchers, image_of(handle)->client, [=] {
        std::vector<FakeCeph::Watcher> all = ceph().alive();
        for (const auto& [client, cookie] : ceph().state.dead_watchers) all.push_back({client, cookie});
        const size_t space = std::exchange(*count, all.size());
        if (space < all.size()) return -ERANGE;
        for (size_t i = 0; i < all.size(); ++i)
            watchers[i] = {.addr = strdup(FakeCeph::address_of(all[i].client).c_str()),
                           .id = static_cast<int64_t>(all[i].client),
                           .cookie = all[i].cookie};
        return 0;
    });
}
void rbd_watchers_list_cleanup(rbd_image_watcher_t* watchers, size_t count) {
    for (size_t i = 0; i < count; ++i) std::free(watchers[i].addr);
}
int rbd_update_watch(rbd_image_t, uint64_t* id, rbd_update_callback_t changed, void* context) {
    *id = ceph().watch(changed, context);
    return 0;
}
int rbd_update_unwatch(rbd_image_t, uint64_t id) {
    ceph().unwatch(id);
    return 0;
}

// ---- Its metadata and settings

int rbd_metadata_get(rbd_image_t, const char* key, char* value, size_t* bytes) {
    return ceph().with([=] {
        const auto found = ceph().state.metadata.find(key);
        if (found == ceph().state.metadata.end()) return -ENOENT;
        if (found->second.size() >= *bytes) return -ERANGE;
        std::strcpy(value, found->second.c_str());
        return 0;
    });
}
int rbd_metadata_set(rbd_image_t handle, const char* key, const char* value) {
    return ceph().call(Kind::kMetadata, image_of(handle)->client, [=] {
        ceph().state.metadata[key] = value;
        image_of(handle)->marked = ceph().state.map_invalid;
        return 0;
    });
}
int rbd_config_image_list(rbd_image_t handle, rbd_config_option_t* options, int* count) {
    return ceph().call(Kind::kSettings, image_of(handle)->client, [=] {
        const auto& settings = ceph().state.settings;
        const int space = std::exchange(*count, static_cast<int>(settings.size()));
        if (space < *count) return -ERANGE;
        rbd_config_option_t* next = options;
        for (const auto& [name, value] : settings)
            *next++ = {strdup(name.c_str()), strdup(value.c_str()), RBD_CONFIG_SOURCE_IMAGE};
        return 0;
    });
}
void rbd_config_image_list_cleanup(rbd_config_option_t* options, int count) {
    for (int i = 0; i < count; ++i) {
        std::free(options[i].name);
        std::free(options[i].value);
    }
}

// ---- Requests

int rbd_aio_create_completion(void* context, rbd_callback_t completed, rbd_completion_t* completion) {
    *completion = new Completion{completed, context};
    return 0;
}
ssize_t rbd_aio_get_return_value(rbd_completion_t completion) {
    return static_cast<Completion*>(completion)->result;
}
void rbd_aio_release(rbd_completion_t completion) {
    delete static_cast<Completion*>(completion);
}
int rbd_aio_read(rbd_image_t image, uint64_t offset, size_t length, char* to, rbd_completion_t completion) {
    return take(Kind::kRead, image, offset, length, completion,
                [=] { return ceph().read_bytes(offset, length, to); });
}
int rbd_aio_write(rbd_image_t image, uint64_t offset, size_t length, const char* from,
                  rbd_completion_t completion) {
    return take(Kind::kWrite, image, offset, length, completion, [=, bytes = std::string(from, length)] {
        return ceph().write_bytes(offset, length, bytes.data());
    });
}
int rbd_aio_write_zeroes(rbd_image_t image, uint64_t offset, size_t length, rbd_completion_t completion, int,
                         int) {
    return take(Kind::kWriteZeroes, image, offset, length, completion,
                [=] { return ceph().write_bytes(offset, length, nullptr); });
}

}  // extern "C"
