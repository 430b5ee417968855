// SPDX-License-Identifier: Apache-2.0
// The C API: connecting, volumes, synchronous requests, memory. Asynchronous ones are in c_queue.cc.
#include "lib/initiator/c_api.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/errno.h"
#include "lib/fabric/tls/given_files.h"

namespace wss::initiator {

namespace {

thread_local std::string last_error;

// Members that are missing in an older caller's structure count as 0.
Options options_of(const wss_options* given) {
    Options options;
    if (given == nullptr) return options;
    wss_options all{};
    std::memcpy(&all, given, std::min(given->size, sizeof all));
    if (all.channels != 0) options.channels = all.channels;
    if (all.queue_depth != 0) options.queue_depth = all.queue_depth;
    if (all.connect_timeout_ms != 0) options.connect_timeout = from_ms(all.connect_timeout_ms);
    if (all.request_timeout_ms != 0) options.request_timeout = from_ms(all.request_timeout_ms);
    if (all.reconnect_timeout_ms != 0) options.reconnect_timeout = from_ms(all.reconnect_timeout_ms);
    if (all.bounce_bytes != 0) options.bounce_bytes = all.bounce_bytes;
    options.pin_at_least = all.pin_at_least;
    return options;
}

// Takes the name of the target and those of the TLS files, and reads the client's secret from its file, as
// far as the structure has these members.
Status take_files(const wss_options* given, Options& options) {
    wss_options all{};
    if (given != nullptr) std::memcpy(&all, given, std::min(given->size, sizeof all));
    if (all.target_name != nullptr) options.target_name = all.target_name;
    return fabric::tls::take_files(all, options.tls, options.identity);
}

Client& client_of(wss_client* handle) {
    return *handle->client;
}

// Executes one synchronous request.
int run(wss_volume* handle, ClientRequest& request) {
    request.volume = &handle->volume->volume();
    client_of(handle->owner).run(request);
    return c_result(request);
}

int run_vector(wss_volume* handle, Operation operation, std::span<const iovec> buffers, uint64_t offset,
               bool fua) {
    ClientRequest request;
    request.operation = operation;
    request.buffers = buffers;
    request.length = total_length(buffers);
    request.offset = offset;
    request.fua = fua;
    return run(handle, request);
}

int run_range(wss_volume* handle, Operation operation, uint64_t length, uint64_t offset, uint32_t flags) {
    ClientRequest request;
    request.operation = operation;
    request.length = length;
    request.offset = offset;
    request.may_unmap = (flags & WSS_NO_UNMAP) == 0;
    request.fua = (flags & WSS_FUA) != 0;
    return run(handle, request);
}

uint32_t flags_of(const VolumeInfo& info, bool gone) {
    return (info.read_only ? WSS_READ_ONLY : 0) | (info.write_cache ? WSS_WRITE_CACHE : 0) |
           (info.discard ? WSS_DISCARD : 0) | (info.write_zeroes ? WSS_WRITE_ZEROES : 0) |
           (info.rotational ? WSS_ROTATIONAL : 0) | (gone ? WSS_GONE : 0);
}

}  // namespace

int c_fail(int error, std::string text) {
    last_error = std::move(text);
    return -error;
}

int c_fail(const Status& status) {
    return c_fail(errno_of(status), status.to_string());
}

int c_result(const Request& request) {
    if (request.outcome == Outcome::kOk) return 0;
    return c_fail(to_errno(request.outcome), describe(request));
}

}  // namespace wss::initiator

using namespace wss::initiator;
using wss::Status;

extern "C" {

const char* wss_error(void) {
    return last_error.c_str();
}

int wss_connect(const char* uri, const wss_options* options, wss_client** client) {
    if (uri == nullptr || client == nullptr)
        return c_fail(EINVAL, "wss_connect: uri and client must not be NULL");
    wss::initiator::Options all = options_of(options);
    if (Status taken = take_files(options, all); !taken) return c_fail(taken);
    auto connected = Client::connect(uri, std::move(all));
    if (!connected) return c_fail(connected.status());
    *client = new wss_client{std::move(*connected)};
    return 0;
}

void wss_disconnect(wss_client* client) {
    delete client;
}

int wss_list(wss_client* client, int (*visit)(void*, const char*), void* context) {
    for (const VolumeName& each : client_of(client).volumes())
        if (int result = visit(context, each.name.c_str()); result != 0) return result;
    return 0;
}

int wss_open(wss_client* client, const char* name, wss_volume** volume) {
    auto opened = client_of(client).open(name == nullptr ? "" : name);
    if (!opened) return c_fail(opened.status());
    *volume = new wss_volume{client, std::move(*opened)};
    return 0;
}

void wss_close(wss_volume* volume) {
    if (volume == nullptr) return;
    client_of(volume->owner).close(std::move(volume->volume));
    delete volume;
}

int wss_get_info(wss_volume* volume, wss_info* info) {
    VolumeInfo known = volume->volume->info();
    *info = wss_info{};
    size_t length = std::min(known.name.size(), sizeof info->name - 1);
    std::memcpy(info->name, known.name.data(), length);
    info->wwid = known.naa;
    info->bytes = known.size;
    info->block_size = known.block_size;
    info->physical_block = known.physical_block;
    info->transfer_max = known.transfer_max;
    info->transfer_optimal = known.transfer_optimal;
    info->compare_max = known.compare_max;
    info->discard_granularity = known.discard_granularity;
    info->flags = flags_of(known, volume->volume->gone());
    return 0;
}

int wss_read(wss_volume* volume, void* buffer, size_t length, uint64_t offset) {
    iovec one{buffer, length};
    return wss_readv(volume, &one, 1, offset);
}

int wss_write(wss_volume* volume, const void* buffer, size_t length, uint64_t offset, uint32_t flags) {
    iovec one{const_cast<void*>(buffer), length};
    return wss_writev(volume, &one, 1, offset, flags);
}

int wss_readv(wss_volume* volume, const iovec* iov, size_t iov_count, uint64_t offset) {
    return run_vector(volume, Operation::kRead, {iov, iov_count}, offset, false);
}

int wss_writev(wss_volume* volume, const iovec* iov, size_t iov_count, uint64_t offset, uint32_t flags) {
    return run_vector(volume, Operation::kWrite, {iov, iov_count}, offset, (flags & WSS_FUA) != 0);
}

int wss_flush(wss_volume* volume) {
    return run_range(volume, Operation::kFlush, 0, 0, 0);
}

int wss_discard(wss_volume* volume, uint64_t length, uint64_t offset) {
    return run_range(volume, Operation::kDiscard, length, offset, 0);
}

int wss_write_zeroes(wss_volume* volume, uint64_t length, uint64_t offset, uint32_t flags) {
    return run_range(volume, Operation::kWriteZeroes, length, offset, flags);
}

int wss_compare_and_write(wss_volume* volume, const void* compare, const void* write, size_t length,
                          uint64_t offset, uint64_t* mismatch) {
    iovec both[2] = {{const_cast<void*>(compare), length}, {const_cast<void*>(write), length}};
    ClientRequest request;
    request.operation = Operation::kCompareAndWrite;
    request.buffers = both;
    request.length = length;
    request.offset = offset;
    int result = run(volume, request);
    if (request.outcome != Outcome::kMismatch) return result;
    if (mismatch != nullptr) *mismatch = request.mismatch_offset;
    return WSS_MISMATCH;
}

int wss_allocate(wss_client* client, size_t bytes, void** memory) {
    auto allocated = client_of(client).allocate(bytes);
    if (!allocated) return c_fail(allocated.status());
    *memory = *allocated;
    return 0;
}

int wss_register(wss_client* client, void* memory, size_t bytes) {
    Status status = client_of(client).register_memory({static_cast<std::byte*>(memory), bytes});
    return status ? 0 : c_fail(status);
}

int wss_release(wss_client* client, void* memory) {
    Status status = client_of(client).release_memory(static_cast<std::byte*>(memory));
    return status ? 0 : c_fail(status);
}

int wss_invalidate(wss_client* client, const void* memory, size_t bytes) {
    client_of(client).invalidate({static_cast<const std::byte*>(memory), bytes});
    return 0;
}

}  // extern "C"
