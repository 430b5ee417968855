// SPDX-License-Identifier: Apache-2.0
#include "lib/io/aio/aio.h"

#include "lib/io/aio/queue.h"

namespace wss::io {

static int run_blocking(void* context, Request& request) noexcept {
    return static_cast<File*>(context)->block_run(request);
}

// Flushes of buffered files go through File, which remembers a failed flush (File::flush_failed_).
AioBackend::AioBackend(std::unique_ptr<File> file)
    : file_(std::move(file)), async_flush_(file_->direct()), worker_(run_blocking, file_.get()) {}

Result<std::unique_ptr<Backend>> AioBackend::open(const std::string& path, const OpenOptions& options) {
    auto file = File::open(path, options);
    if (!file) return file.status();
    return std::unique_ptr<Backend>(new AioBackend(std::move(*file)));
}

Result<std::unique_ptr<Queue>> AioBackend::open_queue(reactor::Reactor&) {
    return AioQueue::open(*this);
}

std::string AioBackend::describe() const {
    return "aio:" + file_->path();
}

}  // namespace wss::io
