// SPDX-License-Identifier: Apache-2.0
// The functions of librados that the plug-in calls, for a FakeCeph. Handles are: rados_t a FakeClient,
// rados_ioctx_t a Pool, rados_completion_t a Shared.
#include <rados/librados.h>
#include <rbd/features.h>
#include <rbd/librbd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "lib/io/rbd/encoding.h"
#include "lib/io/rbd/plugin/header_watch.h"
#include "tests/rbd/fake_ceph.h"
#include "tests/rbd/handles.h"

using namespace wss::test;

namespace {

constexpr uint64_t kFeatures = RBD_FEATURE_EXCLUSIVE_LOCK | RBD_FEATURE_OBJECT_MAP;
constexpr uint64_t kInvalid = RBD_FLAG_OBJECT_MAP_INVALID | RBD_FLAG_FAST_DIFF_INVALID;

FakeCeph& ceph() {
    return FakeCeph::current();
}

// A call of librados in flight. Its user releases it, and librados has references to it until it ends.
struct Completion {
    rados_callback_t over = nullptr;
    void* context = nullptr;
    std::mutex m;
    std::condition_variable wake;
    // Guarded by m.
    bool done = false, called_back = false;
    int result = 0;
};
using Shared = std::shared_ptr<Completion>;

Shared& shared(rados_completion_t completion) {
    return *static_cast<Shared*>(completion);
}

void end(const Shared& completion, rados_completion_t handle, int result) {
    {
        std::lock_guard lock(completion->m);
        completion->done = true;
        completion->result = result;
    }
    completion->over(handle, completion->context);
    std::lock_guard lock(completion->m);
    completion->called_back = true;
    completion->wake.notify_all();
}

// ---- Replies of Ceph's object classes in their encoding: little-endian integers, and structures that begin
// with two versions and a length.

void put(std::string& out, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

std::string structure(const std::string& body) {
    std::string out;
    put(out, 1, 1);
    put(out, 1, 1);
    put(out, body.size(), 4);
    return out + body;
}

std::string size_answer() {
    std::string out;
    put(out, 20, 1);  // log2 of the object size
    put(out, ceph().state.size, 8);
    return out;
}

std::string lock_answer() {
    const uint64_t owner = ceph().state.lock_owner;
    std::string body;
    put(body, owner == 0 ? 0 : 1, 4);
    std::string who;
    put(who, 8, 1);  // a client
    put(who, owner, 8);
    if (owner != 0) body += structure(who);
    return structure(body);
}

std::string text(const std::string& value) {
    std::string out;
    put(out, value.size(), 4);
    return out + value;
}

std::string overlap_answer(const std::string& image) {
    std::string out;
    const bool is_clone = ceph().state.cloned_from.contains(image);
    put(out, is_clone ? 1 : 0, 1);
    if (is_clone) put(out, ceph().state.size, 8);
    return out;
}

std::string parent_answer(const std::string& image) {
    const auto found = ceph().state.cloned_from.find(image);
    const bool is_clone = found != ceph().state.cloned_from.end();
    std::string body;
    put(body, is_clone ? kPoolId : UINT64_MAX, 8);
    body += text("") + text(is_clone ? found->second : "");
    put(body, is_clone ? kParentSnapshot : LIBRADOS_SNAP_HEAD, 8);
    return structure(body);
}

// Requires the lock of the fake. Returns the bytes of the answer, or a negative errno.
int exec(const std::string& header, const std::string& method, const std::string& input, char* output,
         size_t space) {
    const std::string image = header.substr(header.find('.') + 1);
    if (image != kImage && !ceph().state.parents.contains(image)) return -ENOENT;
    std::string answer;
    if (method == "parent_overlap_get") {
        answer = overlap_answer(image);
    } else if (method == "parent_get") {
        answer = parent_answer(image);
    } else if (method == "get_size") {
        answer = size_answer();
    } else if (method == "get_features") {
        const uint64_t features = ceph().state.maps_objects ? kFeatures : RBD_FEATURE_EXCLUSIVE_LOCK;
        put(answer, features, 8);
        put(answer, features, 8);
    } else if (method == "get_flags") {
        put(answer, ceph().state.map_invalid ? kInvalid : 0, 8);
    } else if (method == "get_info") {
        answer = lock_answer();
    } else if (method == "set_flags") {
        // The flags, then the mask of flags to set.
        if (input.size() >= 8 && input[0] != 0) ceph().state.map_invalid = true;
    } else {
        return -EOPNOTSUPP;
    }
    if (answer.size() > space) return -ERANGE;
    if (!answer.empty()) std::memcpy(output, answer.data(), answer.size());
    return static_cast<int>(answer.size());
}

Kind kind_of(const std::string& method) {
    return method == "set_flags" ? Kind::kMark : Kind::kSize;
}

struct WriteOperation {
    std::vector<std::pair<std::string, std::string>> wanted;  // metadata and its value
    std::vector<std::pair<std::string, std::string>> steps;   // method and input
};

struct ReadOperation {
    // Called under the lock of the fake. Each returns 0 or a negative errno.
    std::vector<std::function<int(const std::string& header)>> steps;
};

}  // namespace

extern "C" {

// ---- A client

int rados_create(rados_t* cluster, const char*) {
    *cluster = ceph().connect();
    return 0;
}
void rados_shutdown(rados_t cluster) {
    ceph().disconnect(static_cast<FakeClient*>(cluster));
}
int rados_conf_set(rados_t, const char*, const char*) {
    return 0;
}
int rados_conf_get(rados_t, const char*, char*, size_t) {
    return -ENOENT;
}
int rados_conf_read_file(rados_t, const char*) {
    return 0;
}
int rados_connect(rados_t) {
    return ceph().call(Kind::kConnect, nullptr, [] { return 0; });
}
int rados_cluster_fsid(rados_t, char* id, size_t space) {
    constexpr const char kId[] = "00000000-0000-0000-0000-000000000000";
    if (space < sizeof kId) return -ERANGE;
    std::memcpy(id, kId, sizeof kId);
    return sizeof kId - 1;
}
uint64_t rados_get_instance_id(rados_t cluster) {
    return static_cast<FakeClient*>(cluster)->number;
}
int rados_getaddrs(rados_t cluster, char** addresses) {
    *addresses = strdup(FakeCeph::address_of(static_cast<FakeClient*>(cluster)->number).c_str());
    return 0;
}
void rados_buffer_free(char* buffer) {
    std::free(buffer);
}
int rados_wait_for_latest_osdmap(rados_t) {
    return ceph().call(Kind::kOsdMap, nullptr, [] { return 0; });
}

int rados_mon_command(rados_t, const char** command, size_t, const char*, size_t, char** answer,
                      size_t* answer_bytes, char** status, size_t* status_bytes) {
    *answer = *status = nullptr;
    *answer_bytes = *status_bytes = 0;
    const std::string text = *command;
    return ceph().call(Kind::kMonitors, nullptr, [&] {
        if (text.find("blocklist") == std::string::npos) return 0;
        const size_t address = text.find("\"addr\"");
        return ceph().blocklist(text.substr(address)) ? 0 : -EINVAL;
    });
}

// ---- A pool

int rados_ioctx_create2(rados_t cluster, int64_t, rados_ioctx_t* pool) {
    *pool = new Pool{static_cast<FakeClient*>(cluster)};
    return 0;
}
int rados_ioctx_create(rados_t cluster, const char*, rados_ioctx_t* pool) {
    return rados_ioctx_create2(cluster, kPoolId, pool);
}
void rados_ioctx_destroy(rados_ioctx_t pool) {
    delete static_cast<Pool*>(pool);
}
int64_t rados_ioctx_get_id(rados_ioctx_t) {
    return kPoolId;
}
int rados_ioctx_pool_requires_alignment2(rados_ioctx_t, int* required) {
    *required = 0;
    return ceph().with([] { return ceph().state.pool_exists ? 0 : -ENOENT; });
}
void rados_ioctx_set_namespace(rados_ioctx_t, const char*) {}
void rados_set_pool_full_try(rados_ioctx_t) {}
int rados_read(rados_ioctx_t, const char*, char*, size_t, uint64_t) {
    return -ENOENT;
}
int rados_stat(rados_ioctx_t, const char*, uint64_t*, time_t*) {
    return -ENOENT;
}

// ---- Notifications: each client that has the image open acknowledges

int rados_notify2(rados_ioctx_t, const char*, const char*, int, uint64_t, char** reply, size_t* bytes) {
    std::vector<FakeCeph::Watcher> watches;
    ceph().call(Kind::kNotify, nullptr, [&] {
        watches = ceph().alive();
        return 0;
    });
    ceph().have_headers_read();
    *bytes = watches.size() * sizeof(FakeCeph::Watcher);
    *reply = static_cast<char*>(std::malloc(*bytes + 1));
    if (!watches.empty()) std::memcpy(*reply, watches.data(), *bytes);
    return 0;
}
int rados_decode_notify_response(char* reply, size_t bytes, notify_ack_t** acks, size_t* ack_count,
                                 notify_timeout_t** timeouts, size_t* timeout_count) {
    static std::string only(wss::io::rbd::HeaderWatch::kAnswer);
    *ack_count = bytes / sizeof(FakeCeph::Watcher);
    *acks = static_cast<notify_ack_t*>(std::calloc(*ack_count + 1, sizeof(notify_ack_t)));
    for (size_t i = 0; i < *ack_count; ++i) {
        FakeCeph::Watcher watch;
        std::memcpy(&watch, reply + i * sizeof watch, sizeof watch);
        (*acks)[i] = {.notifier_id = watch.client,
                      .cookie = watch.cookie,
                      .payload = only.data(),
                      .payload_len = watch.cookie == FakeCeph::kWatchesOnly ? only.size() : 0};
    }
    *timeouts = nullptr;
    *timeout_count = 0;
    return 0;
}
void rados_free_notify_response(notify_ack_t* acks, size_t, notify_timeout_t*) {
    std::free(acks);
}

// ---- The lock

ssize_t rados_list_lockers(rados_ioctx_t pool, const char*, const char*, int*, char*, size_t*, char* clients,
                           size_t*, char* cookies, size_t*, char* addresses, size_t*) {
    return ceph().call(Kind::kLocker, static_cast<Pool*>(pool)->client, [&] {
        const uint64_t owner = ceph().state.lock_owner;
        if (owner == 0) return 0;
        std::strcpy(clients, ("client." + std::to_string(owner)).c_str());
        std::strcpy(cookies, "auto 1");
        std::strcpy(addresses, ("v1:" + FakeCeph::address_of(owner)).c_str());
        return 1;
    });
}
int rados_break_lock(rados_ioctx_t pool, const char*, const char*, const char*, const char*) {
    const int result = ceph().call(Kind::kLock, static_cast<Pool*>(pool)->client, [] {
        if (ceph().state.lock_owner == 0) return -ENOENT;
        ceph().state.lock_owner = 0;
        return 0;
    });
    if (result == 0) ceph().lock_broken();
    return result;
}

// ---- Operations on the header

int rados_exec(rados_ioctx_t pool, const char* header, const char*, const char* method, const char* input,
               size_t bytes, char* output, size_t space) {
    return ceph().call(kind_of(method), static_cast<Pool*>(pool)->client,
                       [&] { return exec(header, method, std::string(input, bytes), output, space); });
}

int rados_aio_create_completion2(void* context, rados_callback_t over, rados_completion_t* completion) {
    auto made = std::make_shared<Completion>();
    made->over = over;
    made->context = context;
    *completion = new Shared(std::move(made));
    return 0;
}
int rados_aio_get_return_value(rados_completion_t completion) {
    std::lock_guard lock(shared(completion)->m);
    return shared(completion)->result;
}
int rados_aio_wait_for_complete_and_cb(rados_completion_t completion) {
    const Shared one = shared(completion);
    std::unique_lock lock(one->m);
    one->wake.wait(lock, [&] { return one->called_back; });
    return 0;
}
void rados_aio_release(rados_completion_t completion) {
    delete static_cast<Shared*>(completion);
}

int rados_aio_exec(rados_ioctx_t pool, const char* header, rados_completion_t completion, const char*,
                   const char* method, const char* input, size_t bytes, char* output, size_t space) {
    const Shared one = shared(completion);
    ceph().take({.kind = kind_of(method),
                 .client = static_cast<Pool*>(pool)->client,
                 .carry_out = [object = std::string(header), name = std::string(method),
                               what = std::string(input, bytes), output,
                               space] { return exec(object, name, what, output, space); },
                 .answer =
                     [one](int64_t result) {
                         Shared handle = one;
                         end(one, &handle, static_cast<int>(result));
                     },
                 .completion = one.get()});
    return 0;
}

// The plug-in's callback releases the completion.
int rados_aio_watch(rados_ioctx_t pool, const char* header, rados_completion_t completion, uint64_t* cookie,
                    rados_watchcb2_t notified, rados_watcherrcb_t, void* context) {
    *cookie = ceph().watch_header(header, [=] { notified(context, 0, 0, 0, nullptr, 0); });
    ceph().take({.kind = Kind::kSize,
                 .client = static_cast<Pool*>(pool)->client,
                 .carry_out = [] { return 0; },
                 .answer = [one = shared(completion),
                            completion](int64_t result) { end(one, completion, static_cast<int>(result)); }});
    return 0;
}
int rados_aio_unwatch(rados_ioctx_t pool, uint64_t cookie, rados_completion_t completion) {
    ceph().take({.kind = Kind::kSize,
                 .client = static_cast<Pool*>(pool)->client,
                 .carry_out = [] { return 0; },
                 .answer =
                     [one = shared(completion), completion, cookie](int64_t result) {
                         ceph().unwatch(cookie);
                         end(one, completion, static_cast<int>(result));
                     }});
    return 0;
}
int rados_watch2(rados_ioctx_t, const char*, uint64_t* cookie, rados_watchcb2_t notified, rados_watcherrcb_t,
                 void* context) {
    *cookie = ceph().watch_lock([=](uint64_t client) { notified(context, 0, 0, client, nullptr, 0); });
    return 0;
}
int rados_unwatch2(rados_ioctx_t, uint64_t cookie) {
    ceph().unwatch(cookie);
    return 0;
}
int rados_watch_check(rados_ioctx_t, uint64_t) {
    return 0;
}
int rados_watch_flush(rados_t) {
    return 0;
}
int rados_notify_ack(rados_ioctx_t, const char*, uint64_t, uint64_t, const char*, int) {
    return 0;
}

rados_write_op_t rados_create_write_op() {
    return new WriteOperation;
}
void rados_release_write_op(rados_write_op_t operation) {
    delete static_cast<WriteOperation*>(operation);
}
void rados_write_op_exec(rados_write_op_t operation, const char*, const char* method, const char* input,
                         size_t bytes, int*) {
    static_cast<WriteOperation*>(operation)->steps.emplace_back(method, std::string(input, bytes));
}
void rados_write_op_omap_cmp2(rados_write_op_t operation, const char* key, uint8_t, const char* value,
                              size_t key_bytes, size_t bytes, int*) {
    auto& wanted = static_cast<WriteOperation*>(operation)->wanted;
    constexpr std::string_view kPrefix = "metadata_";
    wanted.emplace_back(std::string(key, key_bytes).substr(kPrefix.size()), std::string(value, bytes));
}
void rados_write_op_assert_exists(rados_write_op_t) {}
int rados_write_op_operate(rados_write_op_t operation, rados_ioctx_t pool, const char* header, time_t*, int) {
    const auto& all = static_cast<WriteOperation*>(operation)->steps;
    const Kind kind = !all.empty() && all[0].first == "set_flags" ? Kind::kMark : Kind::kMetadata;
    return ceph().call(kind, static_cast<Pool*>(pool)->client, [&] {
        if (kind == Kind::kMark) return exec(header, all[0].first, all[0].second, nullptr, 0);
        auto& metadata = ceph().state.metadata;
        for (const auto& [key, value] : static_cast<WriteOperation*>(operation)->wanted)
            if (!metadata.contains(key) || metadata[key] != value) return -ECANCELED;
        for (const auto& [method, input] : static_cast<WriteOperation*>(operation)->steps) {
            wss::io::Decoder from(input);
            if (method != "metadata_set" || from.number(4) != 1) return -EINVAL;
            const std::string key = from.text();
            metadata[key] = from.text();
            if (from.failed()) return -EINVAL;
        }
        return 0;
    });
}

rados_read_op_t rados_create_read_op() {
    return new ReadOperation;
}
void rados_release_read_op(rados_read_op_t operation) {
    delete static_cast<ReadOperation*>(operation);
}
void rados_read_op_exec_user_buf(rados_read_op_t operation, const char*, const char* method, const char*,
                                 size_t, char* output, size_t space, size_t* used, int* result) {
    static_cast<ReadOperation*>(operation)->steps.push_back(
        [=, name = std::string(method)](const std::string& header) {
            const int bytes = exec(header, name, {}, output, space);
            *used = bytes < 0 ? 0 : static_cast<size_t>(bytes);
            *result = bytes < 0 ? bytes : 0;
            return *result;
        });
}
int rados_aio_read_op_operate(rados_read_op_t operation, rados_ioctx_t pool, rados_completion_t completion,
                              const char* header, int) {
    const Shared one = shared(completion);
    ceph().take({.kind = Kind::kLook,
                 .client = static_cast<Pool*>(pool)->client,
                 .carry_out =
                     [steps = static_cast<ReadOperation*>(operation)->steps, object = std::string(header)] {
                         for (const auto& step : steps)
                             if (const int failed = step(object); failed < 0) return int64_t{failed};
                         return int64_t{0};
                     },
                 .answer =
                     [one](int64_t result) {
                         Shared handle = one;
                         end(one, &handle, static_cast<int>(result));
                     },
                 .completion = one.get(),
                 .header = header});
    return 0;
}
int rados_aio_cancel(rados_ioctx_t, rados_completion_t completion) {
    return ceph().cancel(shared(completion).get()) ? 0 : -ENOENT;
}

}  // extern "C"
