// SPDX-License-Identifier: Apache-2.0
// The C API of the key-value store: wss_kv.h on top of Client.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lib/base/errno.h"
#include "lib/fabric/tls/given_files.h"
#include "lib/kv/client/client.h"
#include "lib/kv/client/counter.h"
#include "lib/kv/client/wss_kv.h"

struct wss_kv {
    std::unique_ptr<wss::kv::Client> client;
};

namespace wss::kv {

namespace {

constexpr uint32_t kThreadsMax = 64;
constexpr uint32_t kScanPage = 256;

thread_local std::string last_error;

int fail(int error, std::string text) {
    last_error = std::move(text);
    return -error;
}

int fail(const Status& status) {
    return fail(errno_of(status), status.to_string());
}

// Members missing in an older caller's structure count as zero.
Status options_of(const wss_kv_options* given, Options& options) {
    wss_kv_options all{};
    if (given != nullptr) std::memcpy(&all, given, std::min(given->size, sizeof all));
    if (all.algorithm > WSS_KV_NONE || all.rings > 1 || all.one_sided > 1 || all.threads > kThreadsMax)
        return Status(Code::kInvalid,
                      "algorithm, rings, one_sided or threads is out of range (struct wss_kv_options)");
    options.algorithm = static_cast<Algorithm>(all.algorithm);
    if (all.rings != 0) options.transport = Transport::kRing;
    if (all.one_sided != 0) options.one_sided = OneSided::kOn;
    if (all.threads != 0) options.threads = all.threads;
    if (all.address_cache != 0)
        options.address_cache =
            all.address_cache == UINT32_MAX ? 0 : std::min(all.address_cache, kAddressCacheMax);
    if (all.timeout_ms != 0) options.timeout = from_ms(all.timeout_ms);
    if (all.connect_timeout_ms != 0) options.connect_timeout = from_ms(all.connect_timeout_ms);
    return fabric::tls::take_files(all, options.tls, options.identity);
}
static_assert(static_cast<uint32_t>(Algorithm::kNone) == WSS_KV_NONE,
              "the numbers of the C API are those of Algorithm");

std::vector<std::string> split(std::string_view targets) {
    std::vector<std::string> out;
    while (!targets.empty()) {
        size_t comma = std::min(targets.find(','), targets.size());
        out.emplace_back(targets.substr(0, comma));
        targets.remove_prefix(std::min(comma + 1, targets.size()));
    }
    return out;
}

std::string text_of(const void* bytes, size_t length) {
    return length == 0 ? std::string() : std::string(static_cast<const char*>(bytes), length);
}

// ---- reading

void fill(GetAll& request, const wss_kv_read* reads, size_t count) {
    request.items.resize(count);
    for (size_t i = 0; i < count; ++i) request.items[i].key = text_of(reads[i].key, reads[i].key_length);
}

Status take(const GetAll& request, wss_kv_read* reads) {
    for (size_t i = 0; i < request.items.size(); ++i) {
        const GetAll::Item& item = request.items[i];
        reads[i].found = item.found ? 1 : 0;
        reads[i].timestamp = item.timestamp.value;
        reads[i].value = nullptr;
        reads[i].value_length = 0;
        if (!item.found) continue;
        auto* copy = static_cast<char*>(std::malloc(item.value.size() + 1));
        if (copy == nullptr) {
            wss_kv_release(reads, i);
            return failure(Code::kExhausted,
                           "cannot allocate {} bytes for a value: read fewer keys at a time",
                           item.value.size() + 1);
        }
        std::memcpy(copy, item.value.c_str(), item.value.size() + 1);
        reads[i].value = copy;
        reads[i].value_length = item.value.size();
    }
    return Status::ok();
}

void clear(wss_kv_read* reads, size_t count) {
    for (size_t i = 0; i < count; ++i) reads[i].value = nullptr;
}

struct AsyncGet {
    GetAll request;
    wss_kv_read* reads;
    wss_kv_done done;
    void* context;
};

void get_done(Request& request) noexcept {
    std::unique_ptr<AsyncGet> async(static_cast<AsyncGet*>(request.context));
    Status status = async->request.status;
    if (status) status = take(async->request, async->reads);
    async->done(async->context, status ? 0 : fail(status));
}

// ---- writing

void fill(PutAll& request, const wss_kv_write* writes, size_t count, uint64_t ttl_ms) {
    request.ttl_ms = ttl_ms;
    for (size_t i = 0; i < count; ++i)
        request.items.push_back(
            {text_of(writes[i].key, writes[i].key_length),
             writes[i].remove != 0 ? std::string() : text_of(writes[i].value, writes[i].value_length),
             writes[i].remove != 0});
}

void fill(PutAll& request, const wss_kv_condition* conditions, size_t count) {
    for (size_t i = 0; i < count; ++i)
        request.conditions.push_back(
            {text_of(conditions[i].key, conditions[i].key_length), {conditions[i].expected}});
}

int result_of(const PutAll& request, uint64_t* timestamp, size_t* failed = nullptr) {
    const bool has_failed = request.failed_condition.has_value();
    if (timestamp != nullptr) *timestamp = (has_failed ? request.present : request.timestamp).value;
    if (request.status) return 0;
    if (has_failed) {
        if (failed != nullptr) *failed = *request.failed_condition;
        return fail(EAGAIN, request.status.to_string());
    }
    return request.outcome_unknown ? fail(EINPROGRESS, request.status.to_string()) : fail(request.status);
}

struct AsyncPut {
    PutAll request;
    size_t* failed;
    uint64_t* timestamp;
    wss_kv_done done;
    void* context;
};

void put_done(Request& request) noexcept {
    std::unique_ptr<AsyncPut> async(static_cast<AsyncPut*>(request.context));
    async->done(async->context, result_of(async->request, async->timestamp, async->failed));
}

}  // namespace

}  // namespace wss::kv

using namespace wss::kv;

const char* wss_kv_error(void) {
    return last_error.c_str();
}

int wss_kv_connect(const char* targets, const wss_kv_options* given, wss_kv** kv) {
    if (targets == nullptr || kv == nullptr)
        return fail(EINVAL, "targets and the pointer to the store must not be NULL");
    Options options;
    if (wss::Status checked = options_of(given, options); !checked) return fail(checked);
    options.partitions = split(targets);
    auto client = Client::connect(options);
    if (!client) return fail(client.status());
    *kv = new wss_kv{std::move(*client)};
    return 0;
}

void wss_kv_disconnect(wss_kv* kv) {
    delete kv;
}

int wss_kv_get_all(wss_kv* kv, wss_kv_read* reads, size_t count) {
    GetAll request;
    clear(reads, count);
    fill(request, reads, count);
    kv->client->run(request);
    if (!request.status) return fail(request.status);
    wss::Status taken = take(request, reads);
    return taken ? 0 : fail(taken);
}

void wss_kv_release(wss_kv_read* reads, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        std::free(reads[i].value);
        reads[i].value = nullptr;
    }
}

int wss_kv_submit_get_all(wss_kv* kv, wss_kv_read* reads, size_t count, wss_kv_done done, void* context) {
    if (done == nullptr) return fail(EINVAL, "done must not be NULL");
    auto async = std::make_unique<AsyncGet>();
    clear(reads, count);
    fill(async->request, reads, count);
    async->reads = reads;
    async->done = done;
    async->context = context;
    async->request.done = get_done;
    async->request.context = async.get();
    kv->client->submit(async.release()->request);
    return 0;
}

int wss_kv_put_all(wss_kv* kv, const wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                   uint64_t* timestamp) {
    PutAll request;
    fill(request, writes, count, ttl_ms);
    kv->client->run(request);
    return result_of(request, timestamp);
}

int wss_kv_submit_put_all(wss_kv* kv, const wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                          uint64_t* timestamp, wss_kv_done done, void* context) {
    return wss_kv_submit_put_all_if(kv, writes, count, ttl_ms, nullptr, 0, nullptr, timestamp, done, context);
}

int wss_kv_put_all_if(wss_kv* kv, const wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                      const wss_kv_condition* conditions, size_t condition_count, size_t* failed,
                      uint64_t* timestamp) {
    PutAll request;
    fill(request, writes, count, ttl_ms);
    fill(request, conditions, condition_count);
    kv->client->run(request);
    return result_of(request, timestamp, failed);
}

int wss_kv_submit_put_all_if(wss_kv* kv, const wss_kv_write* writes, size_t count, uint64_t ttl_ms,
                             const wss_kv_condition* conditions, size_t condition_count, size_t* failed,
                             uint64_t* timestamp, wss_kv_done done, void* context) {
    if (done == nullptr) return fail(EINVAL, "done must not be NULL");
    auto async = std::make_unique<AsyncPut>();
    fill(async->request, writes, count, ttl_ms);
    fill(async->request, conditions, condition_count);
    async->failed = failed;
    async->timestamp = timestamp;
    async->done = done;
    async->context = context;
    async->request.done = put_done;
    async->request.context = async.get();
    kv->client->submit(async.release()->request);
    return 0;
}

void wss_kv_watch(const wss_kv_read* reads, size_t count, wss_kv_condition* conditions) {
    for (size_t i = 0; i < count; ++i)
        conditions[i] = {reads[i].key, reads[i].key_length, reads[i].found != 0 ? reads[i].timestamp : 0};
}

int wss_kv_increment(wss_kv* kv, const void* key, size_t key_length, int64_t delta, int64_t* value) {
    Increment request;
    request.key = text_of(key, key_length);
    request.delta = delta;
    run(*kv->client, request);
    if (value != nullptr && request.status) *value = request.value;
    if (request.status) return 0;
    if (request.overflow) return fail(ERANGE, request.status.to_string());
    return request.outcome_unknown ? fail(EINPROGRESS, request.status.to_string()) : fail(request.status);
}

int wss_kv_put_if(wss_kv* kv, const wss_kv_write* write, uint64_t expected, uint64_t* timestamp) {
    PutIf request;
    request.key = text_of(write->key, write->key_length);
    request.remove = write->remove != 0;
    if (!request.remove) request.value = text_of(write->value, write->value_length);
    request.condition = expected == 0 ? PutIf::Condition::kAbsent : PutIf::Condition::kTimestamp;
    request.expected = {expected};
    kv->client->run(request);
    if (timestamp != nullptr) *timestamp = request.timestamp.value;
    if (request.status) return 0;
    if (request.status.code() == wss::Code::kRefused)
        return fail(EAGAIN, "the key has a different version from the expected one");
    return request.outcome_unknown ? fail(EINPROGRESS, request.status.to_string()) : fail(request.status);
}

int wss_kv_scan(wss_kv* kv, const void* prefix, size_t prefix_length, wss_kv_visit visit, void* context) {
    Scan request;
    request.prefix = text_of(prefix, prefix_length);
    request.limit = kScanPage;
    do {
        kv->client->run(request);
        if (!request.status) return fail(request.status);
        for (const Scan::Row& row : request.rows)
            if (visit(context, row.key.data(), row.key.size(), row.timestamp.value) != 0) return 0;
    } while (!request.cursor.empty());
    return 0;
}
