// SPDX-License-Identifier: Apache-2.0
// The configuration of a client: from its volume, ceph.conf, the image and its pool.
#include "lib/io/rbd/plugin/configuration.h"

#include <strings.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "lib/base/log.h"
#include "lib/io/rbd/ceph_conf.h"
#include "lib/io/rbd/plugin/client.h"
#include "lib/io/rbd/plugin/refusal.h"

namespace wss::io::rbd {

namespace {

constexpr size_t kSettingMax = 8 << 20;  // longest value that a configuration file of 1 MiB can expand to
constexpr const char* kDefaultConf = "/etc/ceph/ceph.conf";
constexpr const char* kLogEntries = "500";  // the default of a client of Ceph
constexpr uint32_t kAwaySecondsMax = 24;    // see RbdOptions::away_timeout

}  // namespace

std::string configuration_of(const RbdOptions& options) {
    const char* named = getenv("CEPH_CONF");
    return excerpt(!options.conf.empty() ? options.conf : named != nullptr ? named : "ceph.conf");
}

Status Client::configure() {
    if (int result = rados_create(&cluster_, options_.user.c_str()); result < 0) {
        cluster_ = nullptr;
        return Status::from_errno(-result, fmt::format("client.{}", options_.user));
    }
    connection_ = std::shared_ptr<void>(cluster_, [watches = watches_](rados_t one) { rados_shutdown(one); });
    // librados allocates this number of entries when it reads the file, or when a monitor sends another
    // number, and throws when memory runs out. A value that was set before overrides both.
    if (int result = rados_conf_set(cluster_, "log_max_recent", kLogEntries); result < 0)
        return Status::from_errno(-result, "cannot set log_max_recent");
    WSS_TRY(read_configuration());
    const std::pair<const char*, std::string> settings[] = {
        {"rbd_cache", "false"},
        {"client_mount_timeout", std::to_string(options_.mount_timeout)},
        {"rados_osd_op_timeout", std::to_string(options_.osd_timeout)},  // see end_limit()
        {"rados_mon_op_timeout", std::to_string(options_.mon_timeout)},
        // Without a copy librbd would use the buffer of the request, which may be given up (calls.h).
        {"rbd_disable_zero_copy_writes", "true"},
        // Reactors submit, and must never wait inside librbd. librbd blocks only for its limits of operations
        // in flight, which are switched off here, because RbdQueue has its own. So librbd needs no thread of
        // its own for submission, which would cost a wake-up per request.
        {"rbd_non_blocking_aio", "false"},
        {"objecter_inflight_ops", "0"},
        {"objecter_inflight_op_bytes", "0"},
        {"rbd_blocklist_on_break_lock", "true"},
        // The value is not kBlocklistSeconds, because with a value other than 0 rbd_lock_break() of librbd
        // 16.2 failed (EINVAL). This client does not use that function: see shut_out().
        {"rbd_blocklist_expire_seconds", "0"},
        {"rbd_persistent_cache_mode", "disabled"},
    };
    for (const auto& [name, value] : settings)
        if (int result = rados_conf_set(cluster_, name, value.c_str()); result < 0)
            return Status::from_errno(-result, fmt::format("cannot set {} = {}", name, value));
    WSS_TRY(check_lethal_settings());
    WSS_TRY(check_settings_to_connect(configuration_of(options_)));
    if (!options_.keyring.empty()) {
        WSS_TRY(check_ceph_files("keyring", options_.keyring));
        if (int result = rados_conf_set(cluster_, "keyring", options_.keyring.c_str()); result < 0)
            return Status::from_errno(-result, "cannot set keyring = " + excerpt(options_.keyring));
    }
    return Status::ok();
}

int read_setting(rados_t reader, const char* name, std::string& value) {
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

// librados opens the keyring while it reads the configuration that names it. So a second client without
// authentication, which opens no keyring, reads the configuration first.
Status Client::check_named_files(const char* configuration) const {
    rados_t reader = nullptr;
    if (int result = rados_create(&reader, options_.user.c_str()); result < 0)
        return refusal(-result, "client." + options_.user);
    for (const char* methods :
         {"auth_supported", "auth_client_required", "auth_cluster_required", "auth_service_required"})
        (void)rados_conf_set(reader, methods, "none");
    (void)rados_conf_set(reader, "log_max_recent", kLogEntries);
    Status status;
    // A failure is ignored: the other client gets the same failure and reports it.
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

// Sets each checked value again: set values override those that the monitors send later (ceph config set).
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

Status Client::check_settings_to_connect(std::string_view where) const {
    for (const std::string_view name : settings_to_connect()) {
        std::string value;
        if (read_setting(cluster_, name.data(), value) == 0)
            WSS_TRY(check_setting_to_connect(name, value, where));
    }
    return Status::ok();
}

// Returns the setting that keeps this client from using its key. The text is empty if there is none.
std::string Client::setting_without_key() const {
    for (const char* name : {"auth_supported", "auth_client_required"}) {
        std::string value;
        if (read_setting(cluster_, name, value) != 0 || value.empty()) continue;
        return value.find("cephx") == std::string::npos ? fmt::format("{} = {}", name, excerpt(value)) : "";
    }
    return {};
}

// Booleans as Ceph reads them. Ceph itself rejects other values.
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

// Returns why a setting of the image or its pool is rejected. It is empty if the setting is allowed.
static std::string_view danger_of(std::string_view name, std::string_view value) {
    if (name == "rbd_cache" && !is_false(value))
        return "librbd would acknowledge writes that Ceph may refuse later, without reporting an error";
    if (name == "rbd_persistent_cache_mode" && value != "disabled")
        return "acknowledged writes would be lost with this machine";
    const bool blocklists = name != "rbd_blocklist_on_break_lock" || is_true(value);
    const bool for_long =
        name != "rbd_blocklist_expire_seconds" || value == "0" || is_at_least(value, kBlocklistSeconds);
    if (!blocklists || !for_long) return "a former owner that is only suspended could write after it resumes";
    if (name == "rbd_disable_zero_copy_writes" && !is_true(value))
        return "a write that failed after osd_timeout could still be carried out, with other bytes";
    return {};
}

Result<Settings> Client::settings() const {
    int count = 512;
    std::vector<rbd_config_option_t> options(static_cast<size_t>(count));
    int result = rbd_config_image_list(image_, options.data(), &count);
    if (result == -ERANGE) {
        options.resize(static_cast<size_t>(count));
        result = rbd_config_image_list(image_, options.data(), &count);
    }
    if (result < 0) return refusal(-result, "cannot read the options of the image");
    Settings settings;
    for (int i = 0; i < count; ++i) settings.emplace_back(options[i].name, options[i].value);
    rbd_config_image_list_cleanup(options.data(), count);
    return settings;
}

// Pools and images may have their own options, which override the settings of the client.
Status Client::check_settings() {
    const Result<Settings> found = settings();
    if (!found) return found.status();
    throttles_.read(*found, SystemClock().now());
    Status status;
    for (const auto& [name, value] : *found) {
        const std::string_view danger = danger_of(name, value);
        if (!danger.empty())
            status = failure(Code::kInvalid,
                             "the image or its pool sets {} = {}: {}; remove it (rbd config image rm, rbd "
                             "config pool rm)",
                             name, value, danger);
    }
    if (status && options_.is_head() && options_.away_timeout > kAwaySecondsMax)
        log::warning(
            "rbd:{}: away_timeout={}: with osd_client_watch_timeout = 30 s, which OSDs have by default, "
            "another client can take the image before this one detects it: at most {} s are safe",
            options_.name(), options_.away_timeout, kAwaySecondsMax);
    if (status && throttles_.any())
        log::warning(
            "rbd:{}: librbd delays requests to enforce limits of the image, its pool or ceph.conf: {}. That "
            "may take longer than osd_timeout",
            options_.name(), throttles_.text());
    // librbd's cache (writearound) drops the error of a write that ends before the next flush is submitted.
    if (status && options_.cache)
        log::warning(
            "rbd:{}: cache=true has no effect: librbd's cache may not report a failed write, so the volume "
            "is opened without it",
            options_.name());
    return status;
}

}  // namespace wss::io::rbd
