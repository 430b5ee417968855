// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/parents.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr int kDepthMax = 64;  // clones of clones; librbd itself does not go as far

bool is_migrating(rbd_image_t image) {
    uint64_t features = 0;
    return rbd_get_features(image, &features) >= 0 && (features & RBD_FEATURE_MIGRATING) != 0;
}

}  // namespace

bool pool_exists(rados_ioctx_t pool) noexcept {
    int aligned = 0;
    return rados_ioctx_pool_requires_alignment2(pool, &aligned) != -ENOENT;
}

Status Parents::add(rados_t cluster, int64_t id, std::vector<Pool>& pools) {
    const bool known = std::any_of(pools.begin(), pools.end(),
                                   [id](const Pool& pool) { return rados_ioctx_get_id(pool.get()) == id; });
    if (known) return Status::ok();
    rados_ioctx_t pool = nullptr;
    if (int result = rados_ioctx_create2(cluster, id, &pool); result < 0)
        return refusal(-result, "cannot open the pool of an image that it was cloned from");
    pools.emplace_back(pool, [](rados_ioctx_t one) { rados_ioctx_destroy(one); });
    return Status::ok();
}

Status Parents::walk(rados_t cluster, rbd_image_t image, std::vector<Pool>& pools, int depth) {
    uint64_t overlap = 0;
    int found = rbd_get_overlap(image, &overlap);
    if (found >= 0 && (overlap == 0 || depth == kDepthMax)) return Status::ok();
    rbd_linked_image_spec_t parent{};
    rbd_snap_spec_t snapshot{};
    if (found >= 0) found = rbd_get_parent(image, &parent, &snapshot);
    if (found == -ENOENT && is_migrating(image))
        return failure(Code::kUnsupported,
                       "{} is being migrated, and a part of its data is elsewhere: rbd migration execute "
                       "comes first, or rbd migration abort if cache engines have dirty lines of it",
                       depth == 0 ? "the image" : "what the image was cloned from");
    if (found < 0) return refusal(-found, "cannot read what the image was cloned from");
    Status status = add(cluster, parent.pool_id, pools);
    rbd_image_t opened = nullptr;
    if (status) {
        rados_ioctx_t pool = nullptr;
        int result = rados_ioctx_create2(cluster, parent.pool_id, &pool);
        if (result == 0 && parent.pool_namespace != nullptr)
            rados_ioctx_set_namespace(pool, parent.pool_namespace);
        if (result == 0) result = rbd_open_by_id_read_only(pool, parent.image_id, &opened, nullptr);
        if (result < 0) status = refusal(-result, "cannot open what the image was cloned from");
        if (status) {
            const int64_t data = rbd_get_data_pool_id(opened);
            if (data >= 0) status = add(cluster, data, pools);
            if (status) status = walk(cluster, opened, pools, depth + 1);
            rbd_close(opened);
        }
        if (pool != nullptr) rados_ioctx_destroy(pool);
    }
    rbd_linked_image_spec_cleanup(&parent);
    rbd_snap_spec_cleanup(&snapshot);
    return status;
}

Status Parents::find(rados_t cluster, rbd_image_t image) {
    std::vector<Pool> pools;
    WSS_TRY(walk(cluster, image, pools, 0));
    std::lock_guard lock(m_);
    pools_.swap(pools);
    any_.store(!pools_.empty(), std::memory_order_relaxed);
    return Status::ok();
}

bool Parents::exist() const noexcept {
    if (!any()) return true;
    std::lock_guard lock(m_);
    return std::all_of(pools_.begin(), pools_.end(),
                       [](const Pool& pool) { return pool_exists(pool.get()); });
}

void Parents::close() {
    std::lock_guard lock(m_);
    pools_.clear();
}

}  // namespace wss::io::rbd
