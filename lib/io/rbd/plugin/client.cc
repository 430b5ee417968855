// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/former_owners.h"

#include <cerrno>
#include <system_error>

#include "lib/base/assert.h"
#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/rbd/encoding.h"
#include "lib/io/rbd/plugin/configuration.h"
#include "lib/io/rbd/plugin/ownership.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr auto kLookAtCalls = std::chrono::milliseconds(10);
constexpr uint64_t kObjectMapMax = 256'000'000;  // objects (MAX_OBJECT_MAP_OBJECT_COUNT of Ceph)

}  // namespace

std::atomic<uint32_t> Client::alive_{0};

Client::Client(const RbdOptions& options, const OpenOptions& how)
    : options_(options),
      read_only_(how.read_only),
      opened_at_(SystemClock().now()),
      at_most_(how.at_most),
      at_least_(std::max<uint32_t>(how.block, kBlock)),
      owner_(how.owner),
      keeps_taken_(how.keeps_taken),
      commands_until_(opened_at_ + from_s(options.open_timeout)) {
    ++alive_;
}

Client::~Client() {
    const Status stopped = stop();
    WSS_ASSERT(stopped.is_ok(), "end() keeps a client that must not release its lock");
    // Late calls that completed after their queue was destroyed are still linked.
    late_calls_.clear();
    for (Calls* calls = calls_.load(); calls != nullptr;) delete std::exchange(calls, calls->next);
    --alive_;
}

// Opens and checks the image without taking it from another client.
Status Client::look_for_image() {
    WSS_TRY(configure());
    WSS_TRY(connect());
    WSS_TRY(open_image());
    WSS_TRY(find_parents());
    WSS_TRY(check_settings());
    WSS_TRY(identify());
    if (options_.is_head()) WSS_TRY(check_features());
    return open_data_pool();
}

// Fails if a live client owns the image, unless `steal` is set. Waits for the end of a dead owner.
Status Client::look_for_owner() {
    WSS_TRY(look_for_image());
    if (!options_.is_head()) return Status::ok();
    auto owner = lock_owner();
    if (!owner || owner->empty()) return owner.status();
    if (!options_.steal) WSS_TRY(refuse_live(*owner));
    if (const auto former = wait_to_end(*owner, Step::kCheck); !former) return former.status();
    if (options_.steal) FormerOwners::add(own_.cluster(), *owner);
    return Status::ok();
}

Status Client::start() {
    WSS_TRY(look_for_image());
    if (options_.is_head()) {
        WSS_TRY(claim());
        WSS_TRY(take_lock());
        WSS_TRY(check_wanted());
        WSS_TRY(begin_map());
        auto had = note_owner(image_, options_.name(), header_, owner_, read_only_);
        if (!had) return had.status();
        if (!had->empty()) ownership_ = fmt::format("{} {}", *had, place_);
    } else {
        WSS_TRY(end_limit());
    }
    return start_keeper();
}

static Status check_size(uint64_t bytes) {
    if (bytes >= kBlock) return Status::ok();
    return failure(Code::kInvalid, "the image is empty: rbd resize gives it a size");
}

Status Client::start_keeper() {
    uint64_t bytes = 0;
    if (int result = rbd_get_size(image_, &bytes); result < 0)
        return refusal(-result, "cannot read the size of the image");
    WSS_TRY(check_size(bytes));
    bytes = bytes / kBlock * kBlock;
    seen_.store(boot_time().count);
    answered_.store(SystemClock().now().count);
    WSS_TRY(sizes_.start(bytes, at_most_));
    auto notify = [](void* context) {
        auto* self = static_cast<Client*>(context);
        self->read_size();
        std::lock_guard lock(self->keeper_lock_);
        self->header_changed_ = true;
        self->keeper_wake_.notify_one();
    };
    if (int result = options_.is_head() ? rbd_update_watch(image_, &watch_, notify, this) : 0; result < 0)
        return refusal(-result, "cannot watch the image");
    {
        std::lock_guard lock(keeper_lock_);
        urgent_ = true;  // the keeper's first look must not wait a second
    }
    try {
        keeper_ = std::thread([this] { keep(); });
        follower_ = std::thread([this] { follow(); });
    } catch (const std::system_error& error) {
        return Status::from_errno(error.code().value(), "cannot start the threads that monitor the image");
    }
    return Status::ok();
}

void Client::end_keeper() {
    std::unique_lock lock(keeper_lock_);
    stopping_ = true;
    keeper_wake_.notify_all();
    follower_wake_.notify_all();
    lock.unlock();
    if (keeper_.joinable()) keeper_.join();
}

// Undoes start(), even one that failed halfway. On failure the image stays open, and locked.
Status Client::stop() {
    end_keeper();
    lock_watch_.reset();
    // Releases the lock first: the follower may wait for librbd, and the next owner must not wait for the
    // follower.
    if (image_ != nullptr) give_up_lock();
    if (follower_.joinable()) follower_.join();
    look_.end();
    // Waits for an abandoned resize, which still uses the image.
    std::lock_guard lock(size_lock_);
    if (image_ != nullptr) {
        parents_.end_watches();
        if (watch_ != 0) rbd_update_unwatch(image_, watch_);
        questions_.end();
        end_map();  // late calls may never end
        while (in_librbd().requests > 0) std::this_thread::sleep_for(kLookAtCalls);
        end_map();  // the last of them may have failed to record an object
        Status released = release_in_order();
        if (!released && keeps_taken_ && !lost() && !is_without_lock()) return released;
        end_without_lock();
        // Waits for what librbd does for other clients, and releases a lock that it still has.
        rbd_close(image_);
        image_ = nullptr;
        if (!released && !is_without_lock()) mark_rebuilt_map();
    }
    claim_.release();
    if (!parents_.close()) keep_connection();
    if (data_pool_ != nullptr) rados_ioctx_destroy(data_pool_);
    data_pool_ = nullptr;
    if (pool_ != nullptr) rados_ioctx_destroy(pool_);
    pool_ = nullptr;
    connection_.reset();
    cluster_ = nullptr;
    return Status::ok();
}

// librados crashes when a watch is answered during its shutdown. So this function shuts the connection down
// once no watch operation is in flight.
void Client::keep_connection() {
    auto wait = [kept = KeptConnection{{}, connection_}, watches = watches_]() mutable {
        for (const auto& watch : *watches) watch->wait_for_end();
        watches.reset();
        kept.connection.reset();
        return Status::ok();
    };
    BoundedCall call;
    // Without a thread the connection is leaked.
    if (!call.start(wait)) new KeptConnection{{}, connection_};
}

static Status refused_connection(const RbdOptions& options, int error, bool names_monitor) {
    const std::string configuration = configuration_of(options);
    if (error == ETIMEDOUT)
        return failure(Code::kTimedOut, "no monitor answered within {} s (mount_timeout): see mon_host in {}",
                       options.mount_timeout, configuration);
    if (error == EINVAL)
        return failure(Code::kInvalid, "no address of a monitor could be found: see mon_host in {}",
                       configuration);
    if (error == EACCES || error == EPERM)
        return failure(Code::kPermission,
                       "the cluster refuses client.{}: its key is wrong, it is unknown or has no capability "
                       "for the monitors (ceph auth get client.{}), or its keyring has no key for it or "
                       "cannot be read",
                       options.user, options.user);
    if (error == EIO || error == EISDIR)
        return failure(Code::kInvalid,
                       "the keyring of client.{} is not a keyring (ceph auth get client.{} prints one)",
                       options.user, options.user);
    if (error == ENOENT && !names_monitor)
        return failure(
            Code::kNotFound,
            "{} names no monitor (mon_host), and DNS has none (SRV records ceph-mon), or no key for "
            "client.{} was found",
            configuration, options.user);
    if (error == ENOENT)
        return failure(
            Code::kNotFound,
            "no key for client.{} was found: put it into a keyring, and name that in ceph.conf or with "
            "keyring=",
            options.user);
    return refusal(error, "cannot connect to the cluster");
}

Status Client::connect() {
    const int result = rados_connect(cluster_);
    // The monitors' settings now apply, and may prevent later connections to monitors and OSDs.
    WSS_TRY(check_settings_to_connect("the configuration that the monitors send (ceph config dump)"));
    if (result != 0) {
        const std::string keyless = setting_without_key();
        if (!keyless.empty() && (result == -EACCES || result == -EPERM))
            return failure(Code::kPermission,
                           "the cluster refuses client.{}: {} in {}, but it requires cephx: remove the line",
                           options_.user, keyless, configuration_of(options_));
        std::string hosts;
        const int known = read_setting(cluster_, "mon_host", hosts);
        return refused_connection(options_, -result, known < 0 || !hosts.empty());
    }
    char cluster[64] = {};
    if (int known = rados_cluster_fsid(cluster_, cluster, sizeof cluster); known < 0)
        return refusal(-known, "cannot read the id of the cluster");
    own_.add(cluster, rados_get_instance_id(cluster_));
    const int opened = -rados_ioctx_create(cluster_, options_.pool.c_str(), &pool_);
    if (opened == 0) {
        // A full pool then rejects writes at once (ENOSPC) and accepts discards. By default both wait for
        // space.
        rados_set_pool_full_try(pool_);
        return Status::ok();
    }
    pool_ = nullptr;
    if (opened == ENOENT)
        return failure(Code::kNotFound, "there is no pool {} (ceph osd pool ls)", options_.pool);
    return refusal(opened, "cannot open the pool " + options_.pool);
}

// Returns the error for ENOSYS. librbd loads the libraries that rbd_plugins names when it opens an image, and
// fails if one is missing. If the image itself names such a library, no rbd command can open the image. So
// this function reads the setting of the image, and the error shows how to remove it with rados.
Status Client::missing_plugin() const {
    const std::string header = find_header();
    const std::string plugins = metadata_of(header, "conf_rbd_plugins");
    if (!plugins.empty())
        return failure(
            Code::kUnsupported,
            "librbd lacks a plug-in that the image names: rbd_plugins = {}; remove it with rados -p {} "
            "rmomapkey {} metadata_conf_rbd_plugins",
            excerpt(plugins), options_.pool, header);
    std::string value;
    if (read_setting(cluster_, "rbd_plugins", value) == 0 && !value.empty())
        return failure(
            Code::kUnsupported,
            "librbd lacks a plug-in: rbd_plugins = {}; remove it from {} (or: ceph config rm client "
            "rbd_plugins)",
            excerpt(value), configuration_of(options_));
    return failure(
        Code::kUnsupported,
        "librbd lacks a feature of the image (rbd info), or a plug-in that its pool names (rbd config "
        "pool rm {} rbd_plugins)",
        options_.pool);
}

// Returns the name of the header object of an image that librbd cannot open. It is empty if the image's id
// cannot be read.
std::string Client::find_header() const {
    std::array<char, 4 + 256> id{};  // a string of Ceph: 32 bits of length, then the characters
    const int bytes = rados_read(pool_, ("rbd_id." + options_.image).c_str(), id.data(), id.size(), 0);
    if (bytes <= 4) return {};
    return "rbd_header." + std::string(id.data() + 4, static_cast<size_t>(bytes) - 4);
}

// Returns a value of the image's metadata. It is empty if there is none or it cannot be read.
std::string Client::metadata_of(const std::string& header, std::string_view key) const {
    const std::string input = Encoder().text(key).bytes();
    std::array<char, 4 + 1024> value{};
    const int bytes = rados_exec(pool_, header.c_str(), "rbd", "metadata_get", input.data(), input.size(),
                                 value.data(), value.size());
    return bytes <= 4 ? std::string() : std::string(value.data() + 4, static_cast<size_t>(bytes) - 4);
}

Status Client::open_image() {
    const char* snapshot = options_.snapshot.empty() ? nullptr : options_.snapshot.c_str();
    const char* name = options_.image.c_str();
    image_is_->store(Image::kOpening);
    WSS_TRY(check_wanted());  // begin() reads image_is_ after it has given up the opening
    const int result = -(options_.is_head() ? rbd_open(pool_, name, &image_, snapshot)
                                            : rbd_open_read_only(pool_, name, &image_, snapshot));
    if (result == 0) {
        image_is_->store(Image::kOpen);
        return Status::ok();
    }
    image_ = nullptr;
    if (result == ENOENT && snapshot != nullptr)
        return failure(Code::kNotFound,
                       "there is no such image, or no such snapshot of it (rbd snap ls {}/{})", options_.pool,
                       options_.image);
    if (result == ENOENT)
        return failure(Code::kNotFound, "there is no such image (rbd ls {}); rbd create makes one",
                       options_.pool);
    if (result == EPERM || result == EACCES)
        return failure(Code::kPermission, "client.{} may not use it: it needs the capabilities 'profile rbd'",
                       options_.user);
    if (result == ETIMEDOUT)
        return failure(Code::kTimedOut, "no OSD answered within {} s (osd_timeout): see ceph -s",
                       options_.osd_timeout);
    if (result == ENOSYS) return missing_plugin();
    return refusal(result, "cannot open the image");
}

// Opens the image again after the parents were found: the parents that librbd uses must not be older than the
// state with which looks are compared.
Status Client::find_parents() {
    WSS_TRY(parents_.find(cluster_, image_));
    if (!parents_.any()) return Status::ok();
    rbd_close(std::exchange(image_, nullptr));
    WSS_TRY(open_image());
    return parents_.confirm(cluster_, image_);
}

Status Client::identify() {
    rbd_image_info_t info{};
    if (int result = rbd_stat(image_, &info, sizeof info); result < 0)
        return refusal(-result, "cannot read the properties of the image");
    WSS_TRY(check_size(info.size));
    found_bytes_ = info.size;
    object_bytes_ = info.obj_size;
    stripe_unit_ = info.obj_size;
    if (int result = rbd_get_stripe_unit(image_, &stripe_unit_); result < 0)
        return refusal(-result, "cannot read the stripes of the image");
    char id[256] = {};
    if (int result = rbd_get_id(image_, id, sizeof id); result < 0)
        return refusal(-result, "cannot read the id of the image");
    header_ = std::string("rbd_header.") + id;
    uint64_t snapshot = LIBRADOS_SNAP_HEAD;
    if (!options_.is_head()) {
        if (int result = rbd_snap_get_id(image_, options_.snapshot.c_str(), &snapshot); result < 0)
            return refusal(-result, "cannot read the id of the snapshot");
    }
    look_input_ = encoded(snapshot);
    return Status::ok();
}

Status Client::open_data_pool() {
    const int64_t id = rbd_get_data_pool_id(image_);
    if (id < 0 || id == rados_ioctx_get_id(pool_)) return Status::ok();
    if (int result = rados_ioctx_create2(cluster_, id, &data_pool_); result < 0) {
        data_pool_ = nullptr;
        return refusal(-result, "cannot open the data pool of the image");
    }
    // The object does not exist in this pool. The call only checks the permission.
    uint64_t bytes = 0;
    time_t time = 0;
    const int result = rados_stat(data_pool_, header_.c_str(), &bytes, &time);
    if (result == -EPERM || result == -EACCES)
        return failure(
            Code::kPermission,
            "client.{} may not use the data pool of the image: its capabilities need 'profile rbd' "
            "for that pool, too",
            options_.user);
    return Status::ok();
}

// Claims the image by cluster, pool and id, so that another user or ceph.conf does not make it a different
// image.
Status Client::claim() {
    char cluster[64] = {};
    if (int result = rados_cluster_fsid(cluster_, cluster, sizeof cluster); result < 0)
        return refusal(-result, "cannot read the id of the cluster");
    place_ = fmt::format("{} {}", cluster, rados_ioctx_get_id(pool_));
    WSS_TRY(claim_.take(fmt::format("{} {}", place_, header_),
                        fmt::format("rbd:{} of client.{}", options_.name(), options_.user)));
    Status wanted = check_wanted();
    // A caller that gave up may have released the claim before it was taken.
    if (!wanted) claim_.release();
    return wanted;
}

// Explains EINVAL: librbd rejects sizes beyond the limit of the feature object-map with this error.
Status Client::check_object_map(uint64_t bytes) const {
    uint64_t features = 0;
    if (rbd_get_features(image_, &features) < 0 || (features & RBD_FEATURE_OBJECT_MAP) == 0 ||
        bytes / object_bytes_ < kObjectMapMax)
        return Status::ok();
    return failure(
        Code::kInvalid,
        "rbd:{}: {} exceed the limit of the feature object-map, which is {} ({} objects of {}): "
        "rbd feature disable {} fast-diff object-map, or make an image with a larger --object-size",
        options_.name(), readable_size(bytes), readable_size(kObjectMapMax * object_bytes_), kObjectMapMax,
        readable_size(object_bytes_), options_.name());
}

Status Client::resize_not_over() const {
    return failure(Code::kBusy, "rbd:{}: {}: see ceph -s", options_.name(),
                   resizing_.load() == Resizing::kUnknown
                       ? "a resize failed, and the resulting size of the image cannot be read"
                       : "a resize that Ceph has not answered is still in progress");
}

Status Client::check_usable() const {
    if (!unusable()) return Status::ok();
    return failure(Code::kClosed, "rbd:{}: {}", options_.name(), trouble());
}

Status Client::resize(uint64_t bytes) {
    WSS_TRY(check_usable());
    Resizing before = Resizing::kNo;
    if (!resizing_.compare_exchange_strong(before, Resizing::kUnderWay)) return resize_not_over();
    std::lock_guard lock(size_lock_);
    if (image_ == nullptr) return failure(Code::kClosed, "rbd:{}: the image is closed", options_.name());
    // A resize that fails halfway may leave the object map incomplete (doubt_map()), so this function checks
    // the permission first.
    if (Status changes = check_changes(); !changes) {
        resizing_.store(Resizing::kNo);
        return changes;
    }
    if (sizes_.would_cut(bytes)) {
        resizing_.store(Resizing::kNo);
        return failure(
            Code::kRefused,
            "rbd:{}: others have enlarged the image to {}, which a resize to {} would cut off; the "
            "volume follows soon",
            options_.name(), readable_size(sizes_.latest()), readable_size(bytes));
    }
    // A smaller size limits requests before Ceph shrinks the image. A larger size permits requests after Ceph
    // has enlarged the image.
    sizes_.limit_own(bytes);
    int result = -EAGAIN;
    const Status made = caught([&] {
        result = rbd_resize(image_, bytes);
        return Status::ok();
    });
    if (result < 0) doubt_map(-result);
    const bool ends_lock = result == -ESHUTDOWN && !is_shut_out();
    if (result == -ESHUTDOWN && !ends_lock) lose(Loss::kBlocklisted);
    // This does not use rbd_get_size(), which returns the requested size even if the resize failed.
    const std::optional<uint64_t> now = result >= 0 ? bytes : size_in_ceph();
    if (now && *now < at_least_)
        lose(Loss::kEmptied);
    else if (result >= 0)
        sizes_.changed_own(bytes);
    else if (now)
        sizes_.failed_own(*now);
    else
        sizes_.unknown_own();
    // If the size is unknown, the limit stays until the next look shows the size.
    resizing_.store(now ? Resizing::kNo : Resizing::kUnknown);
    // Sizes that others set meanwhile may have been read too early to be distinguished from this resize.
    read_size();
    if (result >= 0) return Status::ok();
    if (!made) return made.within("rbd:" + options_.name());
    if (result == -EINVAL) WSS_TRY(check_object_map(bytes));
    if (ends_lock)
        return failure(Code::kClosed,
                       "rbd:{}: cannot resize it to {}: its exclusive lock is being taken away",
                       options_.name(), readable_size(bytes));
    return refusal(-result,
                   fmt::format("rbd:{}: cannot resize it to {}", options_.name(), readable_size(bytes)));
}

void Client::lose(Loss loss) noexcept {
    // The client is already unusable. Its next opening detects a new owner, as after a restart.
    if (parents_moved_.load(std::memory_order_acquire)) return;
    Loss none = Loss::kNone;
    if (!loss_.compare_exchange_strong(none, loss, std::memory_order_acq_rel)) return;
    if (is_closing_.load())
        log::info("rbd:{}: the client of a closed volume: {}", options_.name(), trouble());
    else
        log::error(
            "rbd:{}: {}. All requests fail from now on; wssctl volume reopen opens the image again with a "
            "new client",
            options_.name(), trouble());
    sizes_.lose();
    // A client that may still have the lock releases it before its claim.
    if (!keeps_lock(loss)) claim_.release();
    std::lock_guard lock(keeper_lock_);
    urgent_ = true;
    keeper_wake_.notify_one();
}

bool Client::doubts_parents() noexcept {
    if (!parents_.any()) return false;
    if (holds()) return true;
    if (parents_.exist()) return false;
    std::lock_guard lock(keeper_lock_);
    urgent_ = true;
    keeper_wake_.notify_one();
    return true;
}

bool Client::pools_exist() const noexcept {
    return pool_exists(pool_) && (data_pool_ == nullptr || pool_exists(data_pool_));
}

Result<Calls*> Client::add_calls() {
    std::unique_ptr<Calls> calls = Calls::make();
    if (calls == nullptr) return Status::from_errno(errno, "rbd:" + options_.name());
    calls->next = calls_.load();
    while (!calls_.compare_exchange_weak(calls->next, calls.get())) continue;
    return calls.release();
}

Load Client::in_librbd() const noexcept {
    Load load;
    for (const Calls* calls = calls_.load(); calls != nullptr; calls = calls->next) {
        load.requests += calls->in_librbd.load();
        load.bytes += calls->bytes_in_librbd.load();
    }
    return load;
}

}  // namespace wss::io::rbd
