// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/look.h"

#include <rbd/features.h>

#include <algorithm>
#include <cerrno>

namespace wss::io::rbd {

namespace {

constexpr int64_t kPatienceMax = 1024;

}  // namespace

bool Look::begin(const At& at, Nanoseconds now, rados_callback_t over, void* context) {
    began_ = now;
    rados_read_op_t operation = rados_create_read_op();
    if (operation == nullptr) return false;
    if (rados_aio_create_completion2(context, over, &completion_) < 0) {
        rados_release_read_op(operation);
        completion_ = nullptr;
        return false;
    }
    size_bytes_ = features_bytes_ = lock_bytes_ = flags_bytes_ = 0;
    size_result_ = features_result_ = lock_result_ = flags_result_ = 0;
    overlap_bytes_ = parent_bytes_ = 0;
    overlap_result_ = parent_result_ = 0;
    rados_read_op_exec_user_buf(operation, "rbd", "get_size", at.snapshot.data(), at.snapshot.size(),
                                size_.data(), size_.size(), &size_bytes_, &size_result_);
    if (at.lock) {
        static const std::string request = lock_info_request(kLockName);
        rados_read_op_exec_user_buf(operation, "rbd", "get_features", at.snapshot.data(), at.snapshot.size(),
                                    features_.data(), features_.size(), &features_bytes_, &features_result_);
        rados_read_op_exec_user_buf(operation, "lock", "get_info", request.data(), request.size(),
                                    lock_.data(), lock_.size(), &lock_bytes_, &lock_result_);
        rados_read_op_exec_user_buf(operation, "rbd", "get_flags", at.snapshot.data(), at.snapshot.size(),
                                    flags_.data(), flags_.size(), &flags_bytes_, &flags_result_);
    }
    if (at.parent) {
        rados_read_op_exec_user_buf(operation, "rbd", "parent_overlap_get", at.snapshot.data(),
                                    at.snapshot.size(), overlap_.data(), overlap_.size(), &overlap_bytes_,
                                    &overlap_result_);
        rados_read_op_exec_user_buf(operation, "rbd", "parent_get", nullptr, 0, parent_.data(),
                                    parent_.size(), &parent_bytes_, &parent_result_);
    }
    const int begun = rados_aio_read_op_operate(operation, at.pool, completion_, at.header, 0);
    rados_release_read_op(operation);
    pool_ = at.pool;
    if (begun >= 0) return true;
    rados_aio_release(completion_);
    completion_ = nullptr;
    return false;
}

void Look::cancel_late(Nanoseconds now, Nanoseconds limit) {
    if (completion_ == nullptr || now - began_ < Nanoseconds{limit.count * patience_}) return;
    if (rados_aio_cancel(pool_, completion_) == 0) patience_ = std::min(2 * patience_, kPatienceMax);
}

// `over` was called but may not have returned. Waits for it, because the caller may destroy its objects next.
int Look::take() {
    rados_aio_wait_for_complete_and_cb(completion_);
    const int result = rados_aio_get_return_value(completion_);
    rados_aio_release(completion_);
    completion_ = nullptr;
    if (result != -ECANCELED) patience_ = 1;
    return result;
}

void Look::end() {
    if (completion_ == nullptr) return;
    rados_aio_cancel(pool_, completion_);
    rados_aio_wait_for_complete_and_cb(completion_);
    rados_aio_release(completion_);
    completion_ = nullptr;
}

LockHolder Look::holder(uint64_t client) const {
    if (lock_result_ == -ERANGE) return LockHolder::kOther;
    return lock_holder({lock_.data(), lock_bytes_}, client);
}

bool Look::has_lock() const {
    return features_bytes_ > 0 &&
           (static_cast<unsigned char>(features_[0]) & RBD_FEATURE_EXCLUSIVE_LOCK) != 0;
}

bool Look::maps_objects() const {
    return features_bytes_ > 0 && (static_cast<unsigned char>(features_[0]) & RBD_FEATURE_OBJECT_MAP) != 0;
}

std::optional<uint64_t> Look::flags() const {
    if (flags_bytes_ < flags_.size()) return std::nullopt;
    uint64_t flags = 0;
    for (size_t i = flags_.size(); i > 0; --i) flags = flags << 8 | static_cast<unsigned char>(flags_[i - 1]);
    return flags;
}

}  // namespace wss::io::rbd
