// SPDX-License-Identifier: Apache-2.0
#include "tools/wssbench/io_load.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace wss::wssbench {

namespace {

constexpr size_t kPage = 4096;

size_t whole_pages(uint32_t bytes) {
    return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

IoLoad::IoLoad(std::unique_ptr<Accesses> accesses, uint32_t depth, uint32_t bytes)
    : accesses_(std::move(accesses)),
      memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, whole_pages(bytes) * depth))),
      slots_(depth) {
    WSS_ASSERT(memory_ != nullptr, "out of memory for the buffers of a load");
    std::memset(memory_, 0x5a, whole_pages(bytes) * depth);
    for (size_t i = 0; i < slots_.size(); ++i) {
        slots_[i].thread = this;
        slots_[i].data = memory_ + i * whole_pages(bytes);
        slots_[i].done = [](io::Request& request) noexcept {
            Slot& slot = static_cast<Slot&>(request);
            slot.thread->ended(slot);
        };
    }
}

Result<std::unique_ptr<LoadThread>> IoLoad::create(io::Backend& backend, std::unique_ptr<Accesses> accesses,
                                                   uint32_t depth, uint32_t bytes) {
    std::unique_ptr<IoLoad> thread(new IoLoad(std::move(accesses), depth, bytes));
    auto queue = backend.open_queue(thread->reactor_);
    if (!queue) return queue.status();
    thread->queue_ = std::move(*queue);
    thread->reactor_.add(*thread->queue_);
    return std::unique_ptr<LoadThread>(std::move(thread));
}

IoLoad::~IoLoad() {
    if (queue_) reactor_.remove(*queue_);
    queue_.reset();
    std::free(memory_);
}

void IoLoad::begin() {
    operations_begin();
    for (Slot& slot : slots_) go(slot);
    finish_if_quiet();  // an empty trace
}

void IoLoad::go(Slot& slot) noexcept {
    Access access;
    if (ending() || !accesses_->next(access)) return;
    slot.op = access.write ? io::Op::kWrite : io::Op::kRead;
    slot.offset = access.offset;
    slot.length = access.length;
    slot.begun = stamp();
    queue_->submit(slot);
}

void IoLoad::ended(Slot& slot) noexcept {
    if (slot.error != 0) {
        failed(Status::from_errno(
            slot.error, fmt::format("{} of {} bytes at {}", slot.op == io::Op::kRead ? "read" : "write",
                                    slot.length, slot.offset)));
    } else {
        count_one(slot.begun);
        go(slot);
    }
    finish_if_quiet();
}

void IoLoad::finish_if_quiet() {
    if (queue_->in_flight() == 0) finished();
}

const std::vector<std::string>& methods() {
    static const std::vector<std::string> all = {"static", "dynamic", "aio", "uring", "ram"};
    return all;
}

std::string backend_of(const std::string& method, uint32_t threads, const std::string& path, uint64_t bytes) {
    if (method == "static") return fmt::format("pool:{}:{}", threads, path);
    if (method == "dynamic") return "spawn:" + path;
    if (method == "ram") return fmt::format("ram:{}", bytes);
    return method + ":" + path;
}

Status make_file(const std::string& path, uint64_t bytes) {
    constexpr size_t kChunk = 1 << 20;
    int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return Status::from_errno(errno, path);
    std::vector<uint64_t> chunk(kChunk / sizeof(uint64_t));
    Random random(1);
    for (uint64_t& word : chunk) word = random.next();
    Status status;
    for (uint64_t at = 0; at < bytes && status; at += kChunk) {
        chunk[0] = at;
        auto length = static_cast<ssize_t>(std::min<uint64_t>(kChunk, bytes - at));
        if (write(fd, chunk.data(), static_cast<size_t>(length)) != length)
            status = Status::from_errno(errno, fmt::format("{}: cannot hold {} bytes", path, bytes));
    }
    if (status && fsync(fd) < 0) status = Status::from_errno(errno, path);
    close(fd);
    return status;
}

}  // namespace wss::wssbench
