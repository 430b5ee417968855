// SPDX-License-Identifier: Apache-2.0
// File: an open backing file or block device, with its lock, block sizes and size. All backends on files or
// devices share this class.
//
// It is opened with O_DIRECT if the file system supports that. It is locked (flock), and a block device is
// also opened with O_EXCL, so that two targets, or a target and a mount, cannot share it by mistake.
// Read-only users can share it with each other. They do not exclude mounts.
//
// Thread-safety: immutable after open(), except resize(), whose callers must not overlap. The calls named
// block_* may take long: they are for a Worker's thread, never for a reactor's.
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

    // These return 0 or an errno. Changes are stable only after a flush.
    int block_flush() noexcept;
    int block_discard(uint64_t offset, uint64_t length) noexcept;
    int block_write_zeroes(uint64_t offset, uint64_t length) noexcept;
    // Executes `request`, which is neither a read nor a write.
    int block_run(const Request& request) noexcept;
    // Reads or writes. If the request's buffer is not aligned, the data goes through `bounce` (aligned to
    // memory_align(), of kBounceBytes). Sets `request.done_bytes` to the progress. Data with `fua` is stable.
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
    // Atomic: resize() writes it, queues read it.
    std::atomic<uint64_t> size_{0};
    // Set once, when a flush of a buffered file fails: the kernel has dropped the dirty pages, so no later
    // flush may succeed.
    std::atomic<bool> flush_failed_{false};
};

// Maps an errno of the kernel to one of a volume: quotas and file size limits count as a full medium.
int volume_errno(int error) noexcept;

}  // namespace wss::io
