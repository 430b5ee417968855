// SPDX-License-Identifier: Apache-2.0
// File: a backing file or block device, opened, locked and measured; shared by all backends that have one.
//
// It is opened with O_DIRECT where the file system can. A regular file is locked (flock) and a block device
// is opened exclusively, so that two targets, or a target and a mount, cannot share it by mistake; readers
// share with readers.
//
// Thread-safety: immutable after open(), except resize() whose callers take turns. The calls named block_*
// may take long: they are for a Worker's thread, never a reactor's.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "lib/io/backend.h"

namespace wss::io {

class File {
  public:
    static Result<std::unique_ptr<File>> open(const std::string& path, const OpenOptions& options);
    ~File();
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    int fd() const { return fd_; }
    const std::string& path() const { return path_; }
    bool direct() const { return direct_; }
    bool read_only() const { return read_only_; }
    // A buffer for O_DIRECT must start at a multiple of this.
    uint32_t memory_align() const { return memory_align_; }
    uint32_t logical_block() const { return limits_.logical_block; }
    Limits limits() const;
    uint64_t size() const { return size_.load(std::memory_order_acquire); }

    Status resize(uint64_t bytes);

    // 0 or an errno. Stable only after a flush.
    int block_flush() noexcept;
    int block_discard(uint64_t offset, uint64_t length) noexcept;
    int block_write_zeroes(uint64_t offset, uint64_t length) noexcept;
    // The work of `request`, which is none of read and write.
    int block_run(const Request& request) noexcept;
    // Reads or writes, through `bounce` (aligned to memory_align(), of kBounceBytes) where the request's own
    // buffer is not aligned. `request.done_bytes` says how far it came. What has `fua` is stable.
    int block_transfer(Request& request, std::byte* bounce) noexcept;
    static constexpr size_t kBounceBytes = 256 << 10;

  private:
    File(std::string path, int fd, bool read_only, bool block_device);
    Status measure();
    Status lock();
    void choose_direct();
    bool reads_a_sector();
    void read_device_properties(uint64_t device);
    void probe_discard();
    Result<uint64_t> current_size() const;
    Status set_length(uint64_t bytes);
    Status prepare_size(uint64_t wanted, bool grow);
    int write_zero_blocks(uint64_t offset, uint64_t length) noexcept;

    // Immutable after open().
    const std::string path_;
    const int fd_;
    const bool read_only_;
    const bool block_device_;
    bool direct_ = false;
    uint32_t memory_align_ = 1;
    Limits limits_;
    // Atomic: by resize(), read by queues.
    std::atomic<uint64_t> size_{0};
    // Set once by a flush that failed on a buffered file: the kernel dropped the dirty pages, so that no
    // later flush may claim that all is stable.
    std::atomic<bool> flush_failed_{false};
};

// What an errno of the kernel means to a volume: quotas and file size limits are a full medium.
int volume_errno(int error) noexcept;

}  // namespace wss::io
