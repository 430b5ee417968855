// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/client.h"

#include <cerrno>
#include <cstring>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/rbd/plugin/bounded.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;

}  // namespace

std::atomic<uint32_t> Client::alive_{0};

Client::Client(const RbdOptions& options, bool read_only) : options_(options), read_only_(read_only) {
    ++alive_;
}

Client::~Client() {
    stop();
    --alive_;
}

Result<std::shared_ptr<Client>> Client::open(const RbdOptions& options, bool read_only) {
    std::shared_ptr<Client> client(new Client(options, read_only));
    auto started = within_seconds<Status>(options.open_timeout, [client] {
        Status status = client->start();
        if (!status) client->stop();
        return status;
    });
    if (!started)
        return failure(Code::kTimedOut,
                       "rbd:{}: the image could not be opened within {} s (open_timeout): see ceph -s",
                       options.name(), options.open_timeout);
    if (!*started) return started->within("rbd:" + options.name());
    return client;
}

void Client::close(std::shared_ptr<Client> client) {
    const RbdOptions& options = client->options_;
    const std::string name = options.name();
    const uint32_t limit = options.close_timeout;
    auto closed = within_seconds<bool>(limit, [client = std::move(client)] {
        client->stop();
        return true;
    });
    if (!closed)
        log::warning("rbd:{}: Ceph does not answer; its client is abandoned after {} s (close_timeout)", name,
                     limit);
}

Status Client::start() {
    WSS_TRY(configure());
    WSS_TRY(connect());
    WSS_TRY(open_image());
    WSS_TRY(check_caches());
    if (!read_only_) WSS_TRY(take_lock());
    WSS_TRY(measure());
    auto notify = [](void* context) {
        auto* self = static_cast<Client*>(context);
        std::lock_guard lock(self->keeper_lock_);
        self->header_changed_ = true;
        self->keeper_wake_.notify_one();
    };
    // A snapshot never changes.
    if (int result = options_.read_only() ? 0 : rbd_update_watch(image_, &watch_, notify, this); result < 0)
        return Status::from_errno(-result, "cannot watch the image");
    keeper_ = std::thread([this] { keep(); });
    return Status::ok();
}

// The mirror of start(), from wherever it came to.
void Client::stop() {
    {
        std::lock_guard lock(keeper_lock_);
        stopping_ = true;
        keeper_wake_.notify_one();
    }
    if (keeper_.joinable()) keeper_.join();
    end_look();
    if (image_ != nullptr) {
        if (watch_ != 0) rbd_update_unwatch(image_, watch_);
        rbd_close(image_);  // releases the lock
        image_ = nullptr;
    }
    if (pool_ != nullptr) rados_ioctx_destroy(pool_);
    pool_ = nullptr;
    if (cluster_ != nullptr) rados_shutdown(cluster_);
    cluster_ = nullptr;
}

Status Client::configure() {
    if (int result = rados_create(&cluster_, options_.user.c_str()); result < 0) {
        cluster_ = nullptr;
        return Status::from_errno(-result, fmt::format("client.{}", options_.user));
    }
    const char* path = options_.conf.empty() ? nullptr : options_.conf.c_str();
    if (int result = rados_conf_read_file(cluster_, path); result < 0)
        return Status::from_errno(-result, fmt::format("cannot read the configuration of Ceph{}{}",
                                                       path == nullptr ? "" : " ", options_.conf));
    const std::pair<const char*, std::string> settings[] = {
        {"rbd_cache", options_.cache ? "true" : "false"},
        {"client_mount_timeout", std::to_string(options_.mount_timeout)},
        {"rados_osd_op_timeout", std::to_string(options_.osd_timeout)},
        {"rados_mon_op_timeout", std::to_string(options_.mon_timeout)},
        // The buffers of requests do not change until they are done: no need to copy what is written.
        {"rbd_disable_zero_copy_writes", options_.cache ? "true" : "false"},
        // A reactor submits: it must never wait inside librbd. librbd's own steps of a request do not block,
        // but its limits of what is in flight do; RbdQueue has one. So no thread of librbd has to stand
        // between, which costs each request a wake-up.
        {"rbd_non_blocking_aio", "false"},
        {"objecter_inflight_ops", "0"},
        {"objecter_inflight_op_bytes", "0"},
        {"rbd_blocklist_on_break_lock", "true"},
        {"rbd_persistent_cache_mode", "disabled"},
    };
    for (const auto& [name, value] : settings)
        if (int result = rados_conf_set(cluster_, name, value.c_str()); result < 0)
            return Status::from_errno(-result, fmt::format("cannot set {} = {}", name, value));
    if (!options_.keyring.empty()) {
        if (int result = rados_conf_set(cluster_, "keyring", options_.keyring.c_str()); result < 0)
            return Status::from_errno(-result, "cannot set keyring = " + options_.keyring);
    }
    return Status::ok();
}

Status Client::connect() {
    const int result = -rados_connect(cluster_);
    if (result == ETIMEDOUT)
        return failure(Code::kTimedOut, "no monitor answered within {} s (mount_timeout): see mon_host in {}",
                       options_.mount_timeout, options_.conf.empty() ? "ceph.conf" : options_.conf);
    if (result == EACCES || result == EPERM)
        return failure(Code::kPermission,
                       "the cluster refuses client.{}: its key is wrong, or it is unknown (ceph auth get "
                       "client.{})",
                       options_.user, options_.user);
    if (result == ENOENT)
        return failure(
            Code::kNotFound,
            "no key of client.{} was found: put it into a keyring, and name that in ceph.conf or by "
            "keyring=",
            options_.user);
    if (result != 0) return Status::from_errno(result, "cannot connect to the cluster");
    const int opened = -rados_ioctx_create(cluster_, options_.pool.c_str(), &pool_);
    if (opened == 0) {
        // A full pool refuses writes at once (ENOSPC) and takes discards; without this they wait for space.
        rados_set_pool_full_try(pool_);
        return Status::ok();
    }
    pool_ = nullptr;
    if (opened == ENOENT)
        return failure(Code::kNotFound, "there is no pool {} (ceph osd pool ls)", options_.pool);
    return Status::from_errno(opened, "cannot open the pool " + options_.pool);
}

Status Client::open_image() {
    const char* snapshot = options_.snapshot.empty() ? nullptr : options_.snapshot.c_str();
    const char* name = options_.image.c_str();
    const int result = -(read_only_ ? rbd_open_read_only(pool_, name, &image_, snapshot)
                                    : rbd_open(pool_, name, &image_, snapshot));
    if (result == 0) return Status::ok();
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
    return Status::from_errno(result, "cannot open the image");
}

// A pool or an image may have options of its own, which count more than ours.
Status Client::check_caches() {
    int count = 512;
    std::vector<rbd_config_option_t> settings(static_cast<size_t>(count));
    int result = rbd_config_image_list(image_, settings.data(), &count);
    if (result == -ERANGE) {
        settings.resize(static_cast<size_t>(count));
        result = rbd_config_image_list(image_, settings.data(), &count);
    }
    if (result < 0) return Status::from_errno(-result, "cannot read the options of the image");
    Status status;
    for (int i = 0; i < count; ++i) {
        const rbd_config_option_t& option = settings[static_cast<size_t>(i)];
        const std::string_view name(option.name), value(option.value);
        const bool cached = name == "rbd_cache" && value == "true" && !options_.cache;
        const bool persistent = name == "rbd_persistent_cache_mode" && value != "disabled";
        if (cached || persistent)
            status =
                failure(Code::kInvalid,
                        "the image or its pool sets {} = {}: acknowledged writes would be lost with this "
                        "process; remove it (rbd config image rm, rbd config pool rm)",
                        name, value);
    }
    rbd_config_image_list_cleanup(settings.data(), count);
    if (status && options_.cache)
        log::warning("rbd:{}: cache=true: writes that were not flushed are lost when this process ends",
                     options_.name());
    return status;
}

Status Client::measure() {
    rbd_image_info_t info{};
    if (int result = rbd_stat(image_, &info, sizeof info); result < 0)
        return Status::from_errno(-result, "cannot read the properties of the image");
    object_bytes_ = info.obj_size;
    char id[256] = {};
    if (int result = rbd_get_id(image_, id, sizeof id); result < 0)
        return Status::from_errno(-result, "cannot read the id of the image");
    header_ = std::string("rbd_header.") + id;
    size_.store(info.size / kBlock * kBlock, std::memory_order_release);
    if (size() == 0) return failure(Code::kInvalid, "the image is empty: rbd resize gives it a size");
    return Status::ok();
}

Status Client::resize(uint64_t bytes) {
    std::lock_guard lock(size_lock_);
    const uint64_t before = size();
    // Smaller for requests before it is smaller in Ceph, larger after.
    if (bytes < before) size_.store(bytes, std::memory_order_release);
    const int result = rbd_resize(image_, bytes);
    uint64_t now = 0;
    if (rbd_get_size(image_, &now) == 0) size_.store(now / kBlock * kBlock, std::memory_order_release);
    if (result >= 0) return Status::ok();
    return Status::from_errno(
        -result, fmt::format("rbd:{}: cannot make it {} long", options_.name(), readable_size(bytes)));
}

void Client::watch_size(Backend::SizeChanged changed) {
    std::lock_guard lock(changed_lock_);
    changed_ = std::move(changed);
}

void Client::set_blocklisted() noexcept {
    if (blocklisted_.exchange(true, std::memory_order_acq_rel)) return;
    log::error(
        "rbd:{}: Ceph has blocklisted this client: another one took the image. All requests fail from now "
        "on; wssctl volume reopen makes a new client when the image is to be used here again",
        options_.name());
}

std::shared_ptr<Progress> Client::add_queue() {
    auto progress = std::make_shared<Progress>();
    std::lock_guard lock(queues_lock_);
    std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
    queues_.push_back(progress);
    return progress;
}

}  // namespace wss::io::rbd
