// SPDX-License-Identifier: Apache-2.0
// aio: files and block devices through the kernel's asynchronous I/O (libaio) with O_DIRECT. It is the
// default.
//
// Reads, writes and flushes are asynchronous in the kernel. One helper thread per backend executes discard
// and write zeroes, for which the kernel has only blocking calls, and flushes of buffered files. libaio has
// limits: io_submit() may block while a file system allocates blocks (if that matters, fill a sparse file
// first), and files without O_DIRECT (tmpfs) are read and written synchronously.
#pragma once

#include "lib/io/backend.h"
#include "lib/io/file.h"
#include "lib/io/worker.h"

namespace wss::io {

class AioBackend final : public Backend {
  public:
    static Result<std::unique_ptr<Backend>> open(const std::string& path, const OpenOptions& options);

    Limits limits() const noexcept override { return file_->limits(); }
    Result<std::unique_ptr<Queue>> open_queue(reactor::Reactor& reactor) override;
    Status resize(uint64_t bytes) override { return file_->resize(bytes); }
    std::string describe() const override;

    File& file() { return *file_; }
    Worker& worker() { return worker_; }
    // False for buffered files, and after the kernel has rejected an asynchronous flush of this file.
    bool async_flush() const { return async_flush_.load(std::memory_order_relaxed); }
    void no_async_flush() { async_flush_.store(false, std::memory_order_relaxed); }

  private:
    explicit AioBackend(std::unique_ptr<File> file);

    std::unique_ptr<File> file_;
    std::atomic<bool> async_flush_;
    Worker worker_;  // stops before the file closes
};

}  // namespace wss::io
