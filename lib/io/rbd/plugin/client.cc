// SPDX-License-Identifier: Apache-2.0
#include "lib/io/rbd/plugin/client.h"

#include <strings.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "lib/base/log.h"
#include "lib/base/size.h"
#include "lib/io/rbd/ceph_conf.h"
#include "lib/io/rbd/plugin/ownership.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr uint32_t kBlock = 512;
constexpr size_t kSettingMax = 8 << 20;  // what a configuration of at most 1 MiB can make of one
constexpr const char* kDefaultConf = "/etc/ceph/ceph.conf";
constexpr const char* kLogEntries = "500";       // the default of a client of Ceph
constexpr uint64_t kObjectMapMax = 256'000'000;  // objects (MAX_OBJECT_MAP_OBJECT_COUNT of Ceph)
constexpr uint32_t kAwaySecondsMax = 24;         // see RbdOptions::away_timeout

}  // namespace

std::atomic<uint32_t> Client::alive_{0};

Client::Client(const RbdOptions& options, bool read_only, std::string owner)
    : options_(options), read_only_(read_only), opened_at_(SystemClock().now()), owner_(std::move(owner)) {
    ++alive_;
}

Client::~Client() {
    stop();
    --alive_;
}

Result<std::shared_ptr<Client>> Client::open(const RbdOptions& options, bool read_only,
                                             const std::string& owner) {
    std::shared_ptr<Client> client(new Client(options, read_only, owner));
    BoundedCall<Status> call;
    Status begun = call.start([client] {
        Status status = client->start();
        if (!status) client->stop();
        return status;
    });
    const std::string name = "rbd:" + options.name();
    if (!begun) return begun.within(name);
    auto started = call.wait_while_program_runs(in_seconds(options.open_timeout));
    if (!started) {
        client->given_up_.store(true);
        client->claim_.release();
        const bool locks = client->may_have_lock_.load();
        client.reset();
        // When the process ends with the lock, that is a dead client's: the next opening of the image waits
        // for 30 s. Without the lock nothing is waited for.
        if (locks && program_ends.load() && !call.wait_until(in_seconds(options.close_timeout)))
            log::warning(
                "{}: Ceph does not answer; the exclusive lock may be left behind after {} s (close_timeout)",
                name, options.close_timeout);
        return abandoned(fmt::format("the image could not be opened within {} s (open_timeout): see ceph -s",
                                     options.open_timeout))
            .within(name);
    }
    if (!*started) return started->within(name);
    return client;
}

Client::Closing Client::begin_close(const std::shared_ptr<Client>& client) {
    Closing closing{.name = client->options_.name(), .limit = client->options_.close_timeout};
    closing.deadline = in_seconds(closing.limit);
    client->claim_.release();
    closing.call.emplace();
    Status begun = closing.call->start([client] {
        client->stop();
        return true;
    });
    if (begun) return closing;
    closing.call.reset();
    log::warning("rbd:{}: {}; its client is abandoned", closing.name, begun.to_string());
    // Its end may block, for which there is no thread.
    new std::shared_ptr<Client>(client);
    return closing;
}

void Client::end_close(Closing& closing) {
    if (!closing.call || closing.call->wait_until(closing.deadline)) return;
    log::warning("rbd:{}: Ceph does not answer; its client is abandoned after {} s (close_timeout)",
                 closing.name, closing.limit);
}

Status Client::start() {
    WSS_TRY(configure());
    WSS_TRY(connect());
    WSS_TRY(open_image());
    WSS_TRY(check_settings());
    WSS_TRY(identify());
    WSS_TRY(open_data_pool());
    WSS_TRY(parents_.find(cluster_, image_));
    if (options_.is_head()) {
        WSS_TRY(claim());
        WSS_TRY(take_lock());
        WSS_TRY(check_wanted());
        auto had = note_owner(image_, header_, owner_, read_only_);
        if (!had) return had.status();
        ownership_ = *had;
    }
    return start_keeper();
}

Status Client::start_keeper() {
    uint64_t bytes = 0;
    if (int result = rbd_get_size(image_, &bytes); result < 0)
        return refusal(-result, "cannot read the size of the image");
    bytes = bytes / kBlock * kBlock;
    if (bytes == 0) return failure(Code::kInvalid, "the image is empty: rbd resize gives it a size");
    seen_.store(boot_time().count);
    answered_.store(SystemClock().now().count);
    WSS_TRY(sizes_.start(bytes));
    auto notify = [](void* context) {
        auto* self = static_cast<Client*>(context);
        self->read_size();
        std::lock_guard lock(self->keeper_lock_);
        self->header_changed_ = true;
        self->keeper_wake_.notify_one();
    };
    if (int result = options_.is_head() ? rbd_update_watch(image_, &watch_, notify, this) : 0; result < 0)
        return refusal(-result, "cannot watch the image");
    try {
        keeper_ = std::thread([this] { keep(); });
    } catch (const std::system_error& error) {
        return Status::from_errno(error.code().value(), "no thread for the keeper of the image");
    }
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
    look_.wait();
    // A resize that was abandoned still uses the image.
    std::lock_guard lock(size_lock_);
    if (image_ != nullptr) {
        if (watch_ != 0) rbd_update_unwatch(image_, watch_);
        end_size_reads();
        rbd_close(image_);  // releases the lock
        image_ = nullptr;
    }
    parents_.close();
    if (data_pool_ != nullptr) rados_ioctx_destroy(data_pool_);
    data_pool_ = nullptr;
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
    // librados takes space for so many entries as soon as the file is read or a monitor sends another
    // number, and throws when there is none. Neither counts when it was set before.
    if (int result = rados_conf_set(cluster_, "log_max_recent", kLogEntries); result < 0)
        return Status::from_errno(-result, "cannot set log_max_recent");
    WSS_TRY(read_configuration());
    const std::pair<const char*, std::string> settings[] = {
        {"rbd_cache", options_.cache ? "true" : "false"},
        {"client_mount_timeout", std::to_string(options_.mount_timeout)},
        {"rados_osd_op_timeout", std::to_string(options_.osd_timeout)},
        {"rados_mon_op_timeout", std::to_string(options_.mon_timeout)},
        // Without a copy a write is not done before the last reference to its buffer is gone, which the
        // socket to an OSD that is stopped keeps for as long as the connection is there.
        {"rbd_disable_zero_copy_writes", "true"},
        // A reactor submits: it must never wait inside librbd. librbd's own steps of a request do not block,
        // but its limits of what is in flight do; RbdQueue has one. So no thread of librbd has to stand
        // between, which costs each request a wake-up.
        {"rbd_non_blocking_aio", "false"},
        {"objecter_inflight_ops", "0"},
        {"objecter_inflight_op_bytes", "0"},
        {"rbd_blocklist_on_break_lock", "true"},
        // Not our own time: with another one than 0 a break by librbd 16.2 failed (EINVAL). We let it break
        // no lock: see shut_out().
        {"rbd_blocklist_expire_seconds", "0"},
        {"rbd_persistent_cache_mode", "disabled"},
    };
    for (const auto& [name, value] : settings)
        if (int result = rados_conf_set(cluster_, name, value.c_str()); result < 0)
            return Status::from_errno(-result, fmt::format("cannot set {} = {}", name, value));
    WSS_TRY(check_lethal_settings());
    if (!options_.keyring.empty()) {
        WSS_TRY(check_ceph_files("keyring", options_.keyring));
        if (int result = rados_conf_set(cluster_, "keyring", options_.keyring.c_str()); result < 0)
            return Status::from_errno(-result, "cannot set keyring = " + excerpt(options_.keyring));
    }
    return Status::ok();
}

// Where librados has read its settings.
static std::string configuration_of(const RbdOptions& options) {
    const char* named = getenv("CEPH_CONF");
    return excerpt(!options.conf.empty() ? options.conf : named != nullptr ? named : "ceph.conf");
}

// 0, or the negative error of librados; ENOENT: this version has no such setting.
static int read_setting(rados_t reader, const char* name, std::string& value) {
    for (size_t bytes = 4096; bytes <= kSettingMax; bytes *= 2) {
        value.resize(bytes);
        const int result = rados_conf_get(reader, name, value.data(), value.size());
        if (result == -ENAMETOOLONG) continue;
        value.resize(result < 0 ? 0 : strlen(value.c_str()));
        return result;
    }
    value.clear();
    return -ENAMETOOLONG;
}

static Status check_list(rados_t reader, const char* name) {
    std::string list;
    if (int result = read_setting(reader, name, list); result < 0 && result != -ENOENT)
        return refusal(-result, fmt::format("cannot read {} of the configuration of Ceph", name));
    return check_ceph_files(name, list);
}

// librados opens the keyring while it reads the configuration that names it. So a client that has no
// authentication, and opens none, reads the configuration first.
Status Client::check_named_files(const char* configuration) const {
    rados_t reader = nullptr;
    if (int result = rados_create(&reader, options_.user.c_str()); result < 0)
        return refusal(-result, "client." + options_.user);
    for (const char* methods :
         {"auth_supported", "auth_client_required", "auth_cluster_required", "auth_service_required"})
        (void)rados_conf_set(reader, methods, "none");
    (void)rados_conf_set(reader, "log_max_recent", kLogEntries);
    Status status;
    // A failure is that of the other client, too.
    if (rados_conf_read_file(reader, configuration) == 0)
        for (const char* setting : {"keyring", "keyfile", "monmap"})
            if (status) status = check_list(reader, setting);
    rados_shutdown(reader);
    return status;
}

Status Client::read_configuration() {
    const char* named = getenv("CEPH_CONF");
    const std::string file = !options_.conf.empty() ? options_.conf : named != nullptr ? named : "";
    WSS_TRY(check_ceph_file("configuration of Ceph", file.empty() ? kDefaultConf : file));
    const char* path = file.empty() ? nullptr : file.c_str();
    WSS_TRY(check_named_files(path));
    const int result = -rados_conf_read_file(cluster_, path);
    if (result <= 0) return Status::ok();
    if (result == EINVAL)
        return failure(Code::kInvalid, "the syntax of {} is wrong: ceph-conf -c {} -l fsid shows the line",
                       configuration_of(options_), configuration_of(options_));
    return Status::from_errno(
        result, fmt::format("cannot read the configuration of Ceph {}", configuration_of(options_)));
}

// What was checked is then set, which counts more than what the monitors send (ceph config set), at any time.
Status Client::check_lethal_settings() {
    for (const std::string_view name : lethal_ceph_settings()) {
        std::string value;
        const int result = read_setting(cluster_, name.data(), value);
        if (result == -ENOENT) continue;  // another version has no such setting
        if (result < 0)
            return refusal(-result, fmt::format("cannot read {} of {}", name, configuration_of(options_)));
        WSS_TRY(check_ceph_setting(name, value, configuration_of(options_)));
        if (int set = rados_conf_set(cluster_, name.data(), value.c_str()); set < 0)
            return Status::from_errno(-set, fmt::format("cannot set {} = {}", name, excerpt(value)));
    }
    return Status::ok();
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
                       "the cluster refuses client.{}: its key is wrong, or it is unknown (ceph auth get "
                       "client.{}), or its keyring has no key of it or cannot be read",
                       options.user, options.user);
    if (error == EIO || error == EISDIR)
        return failure(Code::kInvalid,
                       "the keyring of client.{} is no keyring (ceph auth get client.{} prints one)",
                       options.user, options.user);
    if (error == ENOENT && !names_monitor)
        return failure(
            Code::kNotFound,
            "{} names no monitor (mon_host), and DNS has none (SRV records ceph-mon), or no key of "
            "client.{} was found",
            configuration, options.user);
    if (error == ENOENT)
        return failure(
            Code::kNotFound,
            "no key of client.{} was found: put it into a keyring, and name that in ceph.conf or by "
            "keyring=",
            options.user);
    return refusal(error, "cannot connect to the cluster");
}

Status Client::connect() {
    if (int result = rados_connect(cluster_); result != 0) {
        std::string hosts;
        const int known = read_setting(cluster_, "mon_host", hosts);
        return refused_connection(options_, -result, known < 0 || !hosts.empty());
    }
    const int opened = -rados_ioctx_create(cluster_, options_.pool.c_str(), &pool_);
    if (opened == 0) {
        // A full pool refuses writes at once (ENOSPC) and takes discards; without this they wait for space.
        rados_set_pool_full_try(pool_);
        return Status::ok();
    }
    pool_ = nullptr;
    if (opened == ENOENT)
        return failure(Code::kNotFound, "there is no pool {} (ceph osd pool ls)", options_.pool);
    return refusal(opened, "cannot open the pool " + options_.pool);
}

// librbd loads each library that rbd_plugins names when it opens an image, and fails with ENOSYS. No command
// of rbd opens an image that names a wrong one itself: what the image says is read and removed by rados.
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

// Of an image that librbd does not open; empty: it cannot be read.
std::string Client::find_header() const {
    std::array<char, 4 + 256> id{};  // a string of Ceph: its length in 32 bits, then its characters
    const int bytes = rados_read(pool_, ("rbd_id." + options_.image).c_str(), id.data(), id.size(), 0);
    if (bytes <= 4) return {};
    return "rbd_header." + std::string(id.data() + 4, static_cast<size_t>(bytes) - 4);
}

// Empty: there is none, or it cannot be read.
std::string Client::metadata_of(const std::string& header, std::string_view key) const {
    const std::string input = std::string({static_cast<char>(key.size()), 0, 0, 0}) + std::string(key);
    std::array<char, 4 + 1024> value{};
    const int bytes = rados_exec(pool_, header.c_str(), "rbd", "metadata_get", input.data(), input.size(),
                                 value.data(), value.size());
    return bytes <= 4 ? std::string() : std::string(value.data() + 4, static_cast<size_t>(bytes) - 4);
}

Status Client::open_image() {
    const char* snapshot = options_.snapshot.empty() ? nullptr : options_.snapshot.c_str();
    const char* name = options_.image.c_str();
    const int result = -(options_.is_head() ? rbd_open(pool_, name, &image_, snapshot)
                                            : rbd_open_read_only(pool_, name, &image_, snapshot));
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
    if (result == ENOSYS) return missing_plugin();
    return refusal(result, "cannot open the image");
}

// As Ceph reads a boolean. What is no number and no word of it is refused in any case.
static bool is_false(std::string_view value) {
    return value == "0" || (value.size() == 5 && strncasecmp(value.data(), "false", 5) == 0);
}
static bool is_true(std::string_view value) {
    return value == "1" || (value.size() == 4 && strncasecmp(value.data(), "true", 4) == 0);
}
static bool is_at_least(std::string_view value, uint64_t least) {
    uint64_t number = 0;
    auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
    return wrong == std::errc() && end == value.data() + value.size() && number >= least;
}

// Why the setting of an image or its pool is refused; empty: it is not.
static std::string_view danger_of(std::string_view name, std::string_view value, bool cache) {
    if (name == "rbd_cache" && !cache && !is_false(value))
        return "acknowledged writes would be lost with this process";
    if (name == "rbd_persistent_cache_mode" && value != "disabled")
        return "acknowledged writes would be lost with this machine";
    const bool blocklists = name != "rbd_blocklist_on_break_lock" || is_true(value);
    const bool for_long =
        name != "rbd_blocklist_expire_seconds" || value == "0" || is_at_least(value, kBlocklistSeconds);
    if (!blocklists || !for_long) return "a former owner that is only stopped could write when it is woken";
    if (name == "rbd_disable_zero_copy_writes" && !is_true(value))
        return "a write could outlast osd_timeout while an OSD is stopped";
    return {};
}

// A pool or an image may have options of its own, which count more than ours.
Status Client::check_settings() {
    int count = 512;
    std::vector<rbd_config_option_t> settings(static_cast<size_t>(count));
    int result = rbd_config_image_list(image_, settings.data(), &count);
    if (result == -ERANGE) {
        settings.resize(static_cast<size_t>(count));
        result = rbd_config_image_list(image_, settings.data(), &count);
    }
    if (result < 0) return refusal(-result, "cannot read the options of the image");
    Status status;
    for (int i = 0; i < count; ++i) {
        const rbd_config_option_t& option = settings[static_cast<size_t>(i)];
        const std::string_view danger = danger_of(option.name, option.value, options_.cache);
        if (!danger.empty())
            status = failure(Code::kInvalid,
                             "the image or its pool sets {} = {}: {}; remove it (rbd config image rm, rbd "
                             "config pool rm)",
                             option.name, option.value, danger);
    }
    rbd_config_image_list_cleanup(settings.data(), count);
    if (status && options_.is_head() && options_.away_timeout > kAwaySecondsMax)
        log::warning(
            "rbd:{}: away_timeout={}: with osd_client_watch_timeout = 30 s, which OSDs have by default, "
            "another client can take the image before this one knows: at most {} s are safe",
            options_.name(), options_.away_timeout, kAwaySecondsMax);
    if (status && options_.cache)
        log::warning("rbd:{}: cache=true: writes that were not flushed are lost when this process ends",
                     options_.name());
    return status;
}

Status Client::identify() {
    rbd_image_info_t info{};
    if (int result = rbd_stat(image_, &info, sizeof info); result < 0)
        return refusal(-result, "cannot read the properties of the image");
    object_bytes_ = info.obj_size;
    piece_bytes_ = info.obj_size;
    if (int result = rbd_get_stripe_unit(image_, &piece_bytes_); result < 0)
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
    for (char& byte : look_input_) {
        byte = static_cast<char>(snapshot & 0xff);
        snapshot >>= 8;
    }
    return Status::ok();
}

Status Client::open_data_pool() {
    const int64_t id = rbd_get_data_pool_id(image_);
    if (id < 0 || id == rados_ioctx_get_id(pool_)) return Status::ok();
    if (int result = rados_ioctx_create2(cluster_, id, &data_pool_); result < 0) {
        data_pool_ = nullptr;
        return refusal(-result, "cannot open the data pool of the image");
    }
    // There is no such object in it.
    uint64_t bytes = 0;
    time_t time = 0;
    const int result = rados_stat(data_pool_, header_.c_str(), &bytes, &time);
    if (result == -EPERM || result == -EACCES)
        return failure(
            Code::kPermission,
            "client.{} may not use the data pool of the image: its capabilities need 'profile rbd' "
            "for that one, too",
            options_.user);
    return Status::ok();
}

// One image of one cluster, whatever its user and its ceph.conf are called.
Status Client::claim() {
    char cluster[64] = {};
    if (int result = rados_cluster_fsid(cluster_, cluster, sizeof cluster); result < 0)
        return refusal(-result, "cannot read the id of the cluster");
    WSS_TRY(claim_.take(fmt::format("{} {} {}", cluster, rados_ioctx_get_id(pool_), header_),
                        fmt::format("rbd:{} of client.{}", options_.name(), options_.user)));
    Status wanted = check_wanted();
    // The caller, who has given up, may have released it before it was taken.
    if (!wanted) claim_.release();
    return wanted;
}

// librbd refuses a size beyond the limit of the feature object-map as an invalid argument.
Status Client::check_object_map(uint64_t bytes) const {
    uint64_t features = 0;
    if (rbd_get_features(image_, &features) < 0 || (features & RBD_FEATURE_OBJECT_MAP) == 0 ||
        bytes / object_bytes_ < kObjectMapMax)
        return Status::ok();
    return failure(
        Code::kInvalid,
        "rbd:{}: {} are more than {}, {} objects of {}, which is the limit of the feature object-map: "
        "rbd feature disable {} fast-diff object-map, or make an image with a larger --object-size",
        options_.name(), readable_size(bytes), readable_size(kObjectMapMax * object_bytes_), kObjectMapMax,
        readable_size(object_bytes_), options_.name());
}

Status Client::resize(uint64_t bytes) {
    Resizing before = Resizing::kNo;
    if (!resizing_.compare_exchange_strong(before, Resizing::kUnderWay))
        return failure(Code::kBusy, "rbd:{}: a resize that Ceph has not answered is not over: see ceph -s",
                       options_.name());
    std::lock_guard lock(size_lock_);
    if (image_ == nullptr) return failure(Code::kClosed, "rbd:{}: it is closed", options_.name());
    // Smaller for requests before it is smaller in Ceph, larger after.
    sizes_.limit_own(bytes);
    const int result = rbd_resize(image_, bytes);
    // Not rbd_get_size(), which answers what was wanted also when that failed.
    const std::optional<uint64_t> now = result >= 0 ? bytes : size_in_ceph();
    if (now == 0)
        lose(Loss::kEmptied);
    else if (now)
        sizes_.changed_own(*now);
    // Else the next look shows it, and the limit stays until then.
    resizing_.store(now ? Resizing::kNo : Resizing::kUnknown);
    if (result >= 0) return Status::ok();
    if (result == -EINVAL) WSS_TRY(check_object_map(bytes));
    return refusal(-result,
                   fmt::format("rbd:{}: cannot make it {} long", options_.name(), readable_size(bytes)));
}

void Client::lose(Loss loss) noexcept {
    Loss none = Loss::kNone;
    if (!loss_.compare_exchange_strong(none, loss, std::memory_order_acq_rel)) return;
    log::error(
        "rbd:{}: {}. All requests fail from now on; wssctl volume reopen makes a new client when the "
        "image is to be used here again",
        options_.name(), trouble());
    sizes_.lose();
    // What may have the lock still gives it up first.
    if (!keeps_lock(loss)) claim_.release();
    std::lock_guard lock(keeper_lock_);
    lost_now_ = true;
    keeper_wake_.notify_one();
}

bool Client::pools_exist() const noexcept {
    return pool_exists(pool_) && (data_pool_ == nullptr || pool_exists(data_pool_));
}

std::shared_ptr<Progress> Client::add_queue() {
    auto progress = std::make_shared<Progress>();
    std::lock_guard lock(queues_lock_);
    std::erase_if(queues_, [](const auto& queue) { return queue.expired(); });
    queues_.push_back(progress);
    return progress;
}

}  // namespace wss::io::rbd
