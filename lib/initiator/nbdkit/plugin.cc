// SPDX-License-Identifier: Apache-2.0
// nbdkit-wss-plugin: WSS volumes as network block devices, so that any program (fio, qemu-img, nbdcopy, a
// QEMU disk) can use them without a kernel module.
//
//     nbdkit nbdkit-wss-plugin.so target=tcp://10.0.0.1:5555 volume=disk1
//
// One session serves all NBD connections, so a flush on one of them covers all. Therefore the plug-in reports
// can_multi_conn. Without volume= the export name selects the volume.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "kernel/uapi/wss_version.h"
#include "lib/initiator/nbdkit/errors.h"
#include "lib/initiator/nbdkit/unaligned.h"
#include "lib/initiator/wss.h"

#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

using wss::initiator::ByteVolume;

namespace {

struct Settings {
    std::string target;
    std::string volume;
    std::string target_name;
    std::string files[4];  // in the order of kFiles
    wss_options options{.size = sizeof(wss_options)};
};
Settings settings;
wss_client* client = nullptr;
// One lock for all volumes: the NBD connections of one volume must share it, and unaligned writes are rare.
std::shared_mutex gate;

struct Connection {
    Connection(wss_volume* opened, bool read_only_wanted)
        : handle(opened), bytes(opened, gate), read_only(read_only_wanted) {}
    ~Connection() { wss_close(handle); }
    wss_volume* handle;
    ByteVolume bytes;
    bool read_only;
    bool has(uint32_t flag) const { return (bytes.info().flags & flag) != 0; }
};

Connection& self(void* handle) {
    return *static_cast<Connection*>(handle);
}

// Converts a result of wss.h to that of an nbdkit callback.
int result_of(int result) {
    if (result >= 0) return 0;
    nbdkit_error("%s", wss_error());
    nbdkit_set_error(wss::initiator::nbd_error_of(-result));
    return -1;
}

struct NumberKey {
    const char* key;
    uint32_t wss_options::*member;
    uint32_t factor;
};
constexpr NumberKey kNumbers[] = {
    {"channels", &wss_options::channels, 1},
    {"depth", &wss_options::queue_depth, 1},
    {"connect-timeout", &wss_options::connect_timeout_ms, 1000},
    {"request-timeout", &wss_options::request_timeout_ms, 1000},
    {"reconnect-timeout", &wss_options::reconnect_timeout_ms, 1000},
};

struct FileKey {
    const char* key;
    const char* wss_options::*member;
};
constexpr FileKey kFiles[] = {
    {"secret-file", &wss_options::secret_file},
    {"tls-ca", &wss_options::tls_ca},
    {"tls-cert", &wss_options::tls_cert},
    {"tls-key", &wss_options::tls_key},
};
static_assert(std::size(kFiles) == std::extent_v<decltype(Settings::files)>,
              "Settings::files has an entry for each");

int plugin_config(const char* key, const char* value) {
    if (std::string_view(key) == "target") {
        settings.target = value;
        return 0;
    }
    if (std::string_view(key) == "volume") {
        settings.volume = value;
        return 0;
    }
    if (std::string_view(key) == "target-name") {
        settings.target_name = value;
        settings.options.target_name = settings.target_name.c_str();
        return 0;
    }
    for (size_t i = 0; i < std::size(kFiles); ++i) {
        if (std::string_view(key) != kFiles[i].key) continue;
        // nbdkit may change its working directory.
        char* path = nbdkit_absolute_path(value);
        if (path == nullptr) return -1;
        settings.files[i] = path;
        free(path);
        settings.options.*kFiles[i].member = settings.files[i].c_str();
        return 0;
    }
    for (const NumberKey& number : kNumbers) {
        if (std::string_view(key) != number.key) continue;
        uint32_t parsed = 0;
        if (nbdkit_parse_uint32_t(key, value, &parsed) == -1) return -1;
        if (parsed == 0 || parsed > 86400) {
            nbdkit_error("%s=%s: must be from 1 to 86400", key, value);
            return -1;
        }
        settings.options.*number.member = parsed * number.factor;
        return 0;
    }
    nbdkit_error(
        "unknown parameter '%s'; the plugin accepts target, volume, secret-file, target-name, tls-ca, "
        "tls-cert, "
        "tls-key, channels, depth, connect-timeout, request-timeout and reconnect-timeout",
        key);
    return -1;
}

int plugin_config_complete() {
    if (!settings.target.empty()) return 0;
    nbdkit_error(
        "target=URI is missing, where URI is rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or "
        "shm:///PATH");
    return -1;
}

int connect_target() {
    return result_of(wss_connect(settings.target.c_str(), &settings.options, &client));
}

void disconnect_target() {
    if (client != nullptr) wss_disconnect(client);
    client = nullptr;
}

// Connects and opens the volume once, to report errors early.
int rehearse() {
    if (connect_target() == -1) return -1;
    int result = 0;
    if (!settings.volume.empty()) {
        wss_volume* volume = nullptr;
        result = result_of(wss_open(client, settings.volume.c_str(), &volume));
        if (result == 0) wss_close(volume);
    }
    disconnect_target();
    return result;
}

// Runs while nbdkit is in the foreground, so that the caller sees errors of the parameters. It needs a
// separate process, as nbdkit may fork after this: threads do not survive in the child. Nor can the child use
// RDMA devices that the parent has opened (its doorbells fail with EACCES), and librdmacm keeps them open for
// ever.
int plugin_get_ready() {
    pid_t child = fork();
    if (child == -1) {
        nbdkit_error("cannot fork: %s", strerror(errno));
        return -1;
    }
    if (child == 0) _exit(rehearse() == 0 ? 0 : 1);
    int status = 0;
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

int plugin_after_fork() {
    return connect_target();
}

void plugin_cleanup() {
    disconnect_target();
}

void* plugin_open(int read_only) {
    std::string name = settings.volume.empty() ? nbdkit_export_name() : settings.volume;
    wss_volume* volume = nullptr;
    if (result_of(wss_open(client, name.c_str(), &volume)) == -1) return nullptr;
    return new Connection(volume, read_only != 0);
}

void plugin_close(void* handle) {
    delete &self(handle);
}

int plugin_list_exports(int, int, nbdkit_exports* exports) {
    if (!settings.volume.empty()) return nbdkit_add_export(exports, settings.volume.c_str(), nullptr);
    return wss_list(
        client,
        [](void* context, const char* name) {
            return nbdkit_add_export(static_cast<nbdkit_exports*>(context), name, nullptr);
        },
        exports);
}

int64_t plugin_get_size(void* handle) {
    return static_cast<int64_t>(self(handle).bytes.info().bytes);
}
int plugin_can_write(void* handle) {
    return !self(handle).has(WSS_READ_ONLY) && !self(handle).read_only;
}
int plugin_can_flush(void*) {
    return 1;
}
int plugin_is_rotational(void* handle) {
    return self(handle).has(WSS_ROTATIONAL);
}
int plugin_can_trim(void* handle) {
    return self(handle).has(WSS_DISCARD);
}
// If not supported, nbdkit writes zeroes instead.
int plugin_can_zero(void* handle) {
    return self(handle).has(WSS_WRITE_ZEROES);
}
int plugin_can_fua(void*) {
    return NBDKIT_FUA_NATIVE;
}
int plugin_can_multi_conn(void*) {
    return 1;
}

int plugin_block_size(void* handle, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
    const wss_info& info = self(handle).bytes.info();
    *minimum = info.block_size;
    *preferred = info.physical_block > 4096 ? info.physical_block : 4096;
    *maximum = UINT32_MAX;
    return 0;
}

int plugin_pread(void* handle, void* buffer, uint32_t count, uint64_t offset, uint32_t) {
    return result_of(self(handle).bytes.read(static_cast<char*>(buffer), count, offset));
}

int plugin_pwrite(void* handle, const void* buffer, uint32_t count, uint64_t offset, uint32_t flags) {
    bool fua = (flags & NBDKIT_FLAG_FUA) != 0;
    return result_of(self(handle).bytes.write(static_cast<const char*>(buffer), count, offset, fua));
}

int plugin_flush(void* handle, uint32_t) {
    return result_of(wss_flush(self(handle).handle));
}

int plugin_trim(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
    return result_of(self(handle).bytes.discard(count, offset, (flags & NBDKIT_FLAG_FUA) != 0));
}

int plugin_zero(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
    bool may_unmap = (flags & NBDKIT_FLAG_MAY_TRIM) != 0;
    return result_of(self(handle).bytes.zero(count, offset, may_unmap, (flags & NBDKIT_FLAG_FUA) != 0));
}

constexpr char kHelp[] =
    "target=URI                  (required) rdma://HOST:PORT, tcp://HOST:PORT, tls://HOST:PORT or "
    "shm:///PATH\n"
    "volume=NAME                 the volume (default: the NBD export name)\n"
    "secret-file=FILE            this client's NAME:SECRET line, as in the target's --secrets (mode 600)\n"
    "target-name=NAME            the name that the target must prove with it (default: that of the first "
    "login)\n"
    "tls-ca=FILE                 authorities of the target's certificate (tls://; PEM)\n"
    "tls-cert=FILE tls-key=FILE  client certificate, for a target that requires one\n"
    "channels=N                  connections to the target (1)\n"
    "depth=N                     commands in flight per connection (128)\n"
    "connect-timeout=SECONDS     (5)\n"
    "request-timeout=SECONDS     of one request, including reconnects (30)\n"
    "reconnect-timeout=SECONDS   how long requests wait for a lost target (15)";

nbdkit_plugin make_plugin() {
    nbdkit_plugin plugin{};
    plugin.name = "wss";
    plugin.version = WSS_VERSION;
    plugin.longname = "WSS volume plugin";
    plugin.description = "Serves a volume of a WSS target as a network block device";
    plugin.config = plugin_config;
    plugin.config_complete = plugin_config_complete;
    plugin.config_help = kHelp;
    plugin.magic_config_key = "target";
    plugin.get_ready = plugin_get_ready;
    plugin.after_fork = plugin_after_fork;
    plugin.cleanup = plugin_cleanup;
    plugin.open = plugin_open;
    plugin.close = plugin_close;
    plugin.list_exports = plugin_list_exports;
    plugin.get_size = plugin_get_size;
    plugin.can_write = plugin_can_write;
    plugin.can_flush = plugin_can_flush;
    plugin.is_rotational = plugin_is_rotational;
    plugin.can_trim = plugin_can_trim;
    plugin.can_zero = plugin_can_zero;
    plugin.can_fua = plugin_can_fua;
    plugin.can_multi_conn = plugin_can_multi_conn;
    plugin.block_size = plugin_block_size;
    plugin.pread = plugin_pread;
    plugin.pwrite = plugin_pwrite;
    plugin.flush = plugin_flush;
    plugin.trim = plugin_trim;
    plugin.zero = plugin_zero;
    return plugin;
}

nbdkit_plugin plugin_table = make_plugin();

}  // namespace

NBDKIT_REGISTER_PLUGIN(plugin_table)
