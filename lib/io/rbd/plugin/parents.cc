// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/parents.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr auto kUnwatchMax = std::chrono::seconds(1);
constexpr size_t kDepthMax = 64;  // clones of clones; librbd itself does not go that deep

bool is_migrating(rbd_image_t image) {
    uint64_t features = 0;
    return rbd_get_features(image, &features) >= 0 && (features & RBD_FEATURE_MIGRATING) != 0;
}

// Returns the parent that librbd uses, or nullopt if the image is not a clone or no data is read from the
// parent.
Result<std::optional<ParentSpec>> parent_of(rbd_image_t image, bool is_parent) {
    uint64_t overlap = 0;
    int found = rbd_get_overlap(image, &overlap);
    if (found >= 0 && overlap == 0) return std::optional<ParentSpec>();
    rbd_linked_image_spec_t parent{};
    rbd_snap_spec_t snapshot{};
    if (found >= 0) found = rbd_get_parent(image, &parent, &snapshot);
    if (found == -ENOENT && is_migrating(image))
        return failure(Code::kUnsupported,
                       "{} is being migrated, and a part of its data is elsewhere: run rbd migration execute "
                       "first, or rbd migration abort if cache engines have dirty lines of it",
                       is_parent ? "a parent of the image" : "the image");
    if (found < 0) return refusal(-found, "cannot read which parent the image has");
    ParentSpec spec{.pool = parent.pool_id,
                    .pool_namespace = parent.pool_namespace == nullptr ? "" : parent.pool_namespace,
                    .image = parent.image_id,
                    .snapshot = snapshot.id};
    rbd_linked_image_spec_cleanup(&parent);
    rbd_snap_spec_cleanup(&snapshot);
    return std::optional(std::move(spec));
}

}  // namespace

bool pool_exists(rados_ioctx_t pool) noexcept {
    int aligned = 0;
    return rados_ioctx_pool_requires_alignment2(pool, &aligned) != -ENOENT;
}

std::array<char, 8> encoded(uint64_t snapshot) noexcept {
    std::array<char, 8> bytes{};
    for (char& byte : bytes) {
        byte = static_cast<char>(snapshot & 0xff);
        snapshot >>= 8;
    }
    return bytes;
}

Result<Parents::Pool> Parents::open_pool(rados_t cluster, int64_t id) {
    rados_ioctx_t pool = nullptr;
    if (int result = rados_ioctx_create2(cluster, id, &pool); result < 0)
        return refusal(-result, "cannot open the pool of a parent of the image");
    // Watches can then begin and end even while the pool is full.
    rados_set_pool_full_try(pool);
    return Pool(pool, [](rados_ioctx_t one) { rados_ioctx_destroy(one); });
}

Status Parents::add_pool(rados_t cluster, int64_t id) {
    for (const Pool& pool : pools_)
        if (rados_ioctx_get_id(pool.get()) == id) return Status::ok();
    auto pool = open_pool(cluster, id);
    if (!pool) return pool.status();
    pools_.push_back(std::move(*pool));
    return Status::ok();
}

Status Parents::find(rados_t cluster, rbd_image_t image) {
    WSS_TRY(walk(cluster, image, 0));
    any_.store(!all_.empty(), std::memory_order_release);
    return Status::ok();
}

// `image` is the image to be served (depth 0), or the parent that was added last.
Status Parents::walk(rados_t cluster, rbd_image_t image, size_t depth) {
    auto spec = parent_of(image, depth > 0);
    if (!spec) return spec.status();
    if (!*spec || depth == kDepthMax) return Status::ok();
    if (depth == 0) {
        of_image_ = **spec;
    } else {
        all_.back()->of_it = **spec;
        all_.back()->is_clone = true;
    }
    WSS_TRY(add(cluster, **spec));
    rbd_image_t opened = nullptr;
    int result = rbd_open_by_id_read_only(all_.back()->pool.get(), (*spec)->image.c_str(), &opened, nullptr);
    if (result < 0) return refusal(-result, "cannot open a parent of the image");
    Status status = Status::ok();
    result = rbd_snap_set_by_id(opened, (*spec)->snapshot);
    if (result < 0) status = refusal(-result, "cannot open the parent snapshot of the image");
    uint64_t unit = 0;
    result = status ? rbd_get_stripe_unit(opened, &unit) : 0;
    if (result < 0) status = refusal(-result, "cannot read the stripe unit of a parent of the image");
    stripe_unit_ = std::min(stripe_unit_, unit);
    const int64_t data = rbd_get_data_pool_id(opened);
    if (status && data >= 0) status = add_pool(cluster, data);
    if (status) status = walk(cluster, opened, depth + 1);
    rbd_close(opened);
    return status;
}

Status Parents::add(rados_t cluster, const ParentSpec& spec) {
    WSS_TRY(add_pool(cluster, spec.pool));
    // This context is not shared with pools_, because a namespace is set on it.
    auto pool = open_pool(cluster, spec.pool);
    if (!pool) return pool.status();
    rados_ioctx_set_namespace(pool->get(), spec.pool_namespace.c_str());
    auto parent = std::make_unique<Parent>();
    parent->all = this;
    parent->pool = std::move(*pool);
    parent->header = "rbd_header." + spec.image;
    parent->snapshot = encoded(spec.snapshot);
    watches_.push_back(std::make_unique<HeaderWatch>(parent->pool, parent->header, wake_));
    parent->watch = watches_.back().get();
    all_.push_back(std::move(parent));
    return Status::ok();
}

bool Parents::is_as(const Parents& other) const {
    return of_image_ == other.of_image_ && std::equal(all_.begin(), all_.end(), other.all_.begin(),
                                                      other.all_.end(), [](const auto& one, const auto& two) {
                                                          return one->header == two->header &&
                                                                 one->snapshot == two->snapshot &&
                                                                 one->of_it == two->of_it;
                                                      });
}

Status Parents::confirm(rados_t cluster, rbd_image_t image) const {
    HeaderWatches none;
    Parents now(none, [] {});
    WSS_TRY(now.find(cluster, image));
    if (now.is_as(*this)) return Status::ok();
    return failure(Code::kBusy, "a parent of the image is being changed: try again");
}

bool Parents::exist() const noexcept {
    if (!any()) return true;
    return std::all_of(pools_.begin(), pools_.end(),
                       [](const Pool& pool) { return pool_exists(pool.get()); });
}

bool Parents::image_is(const Look& look, Nanoseconds began, bool is_head) {
    const std::optional<bool> has_parent = look.has_parent();
    const std::optional<ParentSpec> parent = look.parent();
    if (!has_parent || !parent) return false;
    if (!*has_parent && is_head) {
        end_watches();
        any_.store(false, std::memory_order_release);
        state_.store(State::kAsFound, std::memory_order_release);
        return true;
    }
    image_began_ = began;
    image_is_head_ = is_head;
    image_has_another_ = *has_parent && *parent != of_image_;
    return true;
}

// A look whose reply could not be decoded changes nothing. A parent that was flattened, and so no longer has
// a parent, counts as unchanged, because librbd still finds its data.
void Parents::take(Parent& parent) {
    const int result = parent.look.take();
    if (result != -ECANCELED) parent.answered = parent.look.began();
    if (result < 0 && result != -ENOENT) return;
    parent.shown = parent.look.began();
    parent.seen = result < 0 ? Parent::Seen::kGone : Parent::Seen::kAsFound;
    if (result < 0 || !parent.is_clone || !parent.look.has_parent().value_or(false)) return;
    const std::optional<ParentSpec> now = parent.look.parent();
    if (now && *now != parent.of_it) parent.seen = Parent::Seen::kOther;
}

void Parents::begin(Parent& parent, Nanoseconds now) {
    parent.changed = false;
    auto over = [](rados_completion_t, void* context) {
        auto* looked = static_cast<Parent*>(context);
        const Parents* all = looked->all;
        looked->over.store(true);  // `looked` may be destroyed from here on
        all->wake_();
    };
    (void)parent.look.begin({.pool = parent.pool.get(),
                             .header = parent.header.c_str(),
                             .snapshot = parent.snapshot,
                             .parent = parent.is_clone},
                            now, over, &parent);
}

Parents::State Parents::look(Nanoseconds now, Nanoseconds limit) {
    if (!any()) return State::kAsFound;
    Nanoseconds answered = now;
    for (const auto& parent : all_) {
        parent->watch->keep(now);
        parent->changed |= parent->watch->changed();
        if (parent->over.exchange(false)) take(*parent);
        parent->look.cancel_late(now, limit);
        if (parent->answered.count == 0) parent->answered = now;
        answered = std::min(answered, parent->answered);
    }
    answered_.store(answered.count, std::memory_order_release);
    const State state = decide(now, limit);
    state_.store(state, std::memory_order_release);
    for (const auto& parent : all_) {
        const Nanoseconds began = parent->look.began();
        if (!parent->look.under_way() && (parent->changed || began < noted_ || now - began >= kLookPeriod))
            begin(*parent, now);
    }
    return state;
}

Parents::State Parents::decide(Nanoseconds now, Nanoseconds limit) {
    if (image_has_another_) return State::kMoved;
    const bool exist = this->exist();
    if (exist && std::all_of(all_.begin(), all_.end(),
                             [](const auto& one) { return one->seen == Parent::Seen::kAsFound; })) {
        noted_ = {};
        return State::kAsFound;
    }
    if (noted_.count == 0) noted_ = now;
    if (image_began_ < noted_) return State::kUnknown;
    if (!exist) return State::kDeleted;
    // While the image is flattened, the nearest parent may be gone before the image's header shows no parent.
    // This waits at most `limit` for a parent that cannot be read.
    const Parent& nearest = *all_.front();
    const bool may_be_gone = nearest.shown < noted_ && now - noted_ < limit;
    if (image_is_head_ && (nearest.seen == Parent::Seen::kGone || may_be_gone)) return State::kUnknown;
    return State::kMoved;
}

Nanoseconds Parents::silent(Nanoseconds now) const noexcept {
    const Nanoseconds answered{answered_.load(std::memory_order_acquire)};
    return any() && answered.count != 0 ? now - answered : Nanoseconds{};
}

void Parents::end_watches() {
    for (const auto& parent : all_) parent->watch->end();
}

bool Parents::close() {
    end_watches();
    const auto deadline = std::chrono::steady_clock::now() + kUnwatchMax;
    bool ended = true;
    for (const auto& parent : all_) ended &= parent->watch->wait_for_end(deadline);
    any_.store(false, std::memory_order_release);
    all_.clear();
    pools_.clear();
    return ended;
}

}  // namespace wss::io::rbd
