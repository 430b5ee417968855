// SPDX-License-Identifier: Apache-2.0
#include "lib/io/file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "lib/base/errno.h"
#include "lib/base/folder.h"
#include "lib/base/log.h"
#include "lib/base/size.h"

namespace wss::io {

namespace {

constexpr uint32_t kSector = 512;
constexpr uint32_t kBlockMax = 4096;  // the largest logical block a volume can have
// The zeroes that are written if neither the file system nor the device can zero a range.
constexpr size_t kZeroBytes = 1 << 20;
alignas(kBlockMax) std::byte zeroes[kZeroBytes];

struct OpenPlan {
    int flags;
    bool block_device;
};

OpenPlan plan_open(const std::string& path, const OpenOptions& options) {
    struct stat info {};
    bool exists = stat(path.c_str(), &info) == 0;
    OpenPlan plan{O_CLOEXEC | O_NONBLOCK | (options.read_only ? O_RDONLY : O_RDWR),
                  exists && S_ISBLK(info.st_mode)};
    if (options.create && !exists) plan.flags |= O_CREAT;
    // On a block device O_EXCL excludes mounts, swap areas, and other programs that open it with O_EXCL.
    if (plan.block_device && !options.read_only) plan.flags |= O_EXCL;
    return plan;
}

Status open_error(int error, const std::string& path, const OpenPlan& plan) {
    if (error == EBUSY && plan.block_device)
        return failure(Code::kBusy, "{} is in use: mounted, a swap area, or opened by another program", path);
    if (error == ENOENT)
        return Status::from_errno(error,
                                  fmt::format("cannot open {} (to create it, add size=… and create)", path));
    return Status::from_errno(error, fmt::format("cannot open {}{}", path, advice_on_write(error)));
}

// Returns the attribute /sys/dev/block/MAJOR:MINOR/queue/NAME. For a partition it is that of the disk.
std::string queue_attribute(uint64_t device, const char* name) {
    std::string base = fmt::format("/sys/dev/block/{}:{}", major(device), minor(device));
    for (const char* folder : {"/queue/", "/../queue/"}) {
        std::ifstream file(base + folder + name);
        std::string line;
        if (std::getline(file, line)) return line;
    }
    return {};
}

}  // namespace

int volume_errno(int error) noexcept {
    return error == EDQUOT || error == EFBIG ? ENOSPC : error;
}

File::File(std::string path, int fd, bool read_only, bool block_device)
    : path_(std::move(path)), fd_(fd), read_only_(read_only), block_device_(block_device) {}

File::~File() {
    close(fd_);  // releases the lock too
}

Result<std::unique_ptr<File>> File::open(const std::string& path, const OpenOptions& options) {
    OpenPlan plan = plan_open(path, options);
    int fd = ::open(path.c_str(), plan.flags, 0600);
    if (fd < 0) return open_error(errno, path, plan);
    std::unique_ptr<File> file(new File(path, fd, options.read_only, plan.block_device));
    WSS_TRY(file->lock());
    WSS_TRY(file->measure());
    WSS_TRY(file->prepare_size(options.size, options.grow));
    if (plan.flags & O_CREAT) WSS_TRY(sync_folder_of(path));
    if (!options.read_only) file->probe_discard();
    return file;
}

Status File::lock() {
    struct stat info {};
    if (fstat(fd_, &info) != 0) return Status::from_errno(errno, fmt::format("cannot examine {}", path_));
    if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode))
        return failure(Code::kInvalid, "{} is neither a file nor a block device", path_);
    if (flock(fd_, (read_only_ ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) return Status::ok();
    if (errno == EWOULDBLOCK)
        return failure(Code::kBusy,
                       "{} is in use by another volume or process: stop it, or choose another file", path_);
    return Status::from_errno(errno, fmt::format("cannot lock {}", path_));
}

Status File::measure() {
    struct stat info {};
    if (fstat(fd_, &info) != 0) return Status::from_errno(errno, fmt::format("cannot examine {}", path_));
    limits_.logical_block = kSector;
    limits_.physical_block = std::clamp<uint32_t>(static_cast<uint32_t>(info.st_blksize), kSector, kBlockMax);
    if (block_device_) {
        int logical = 0;
        unsigned physical = 0;
        if (ioctl(fd_, BLKSSZGET, &logical) != 0 || ioctl(fd_, BLKPBSZGET, &physical) != 0)
            return Status::from_errno(errno, fmt::format("cannot read the block size of {}", path_));
        limits_.logical_block = static_cast<uint32_t>(logical);
        limits_.physical_block = physical;
    }
    choose_direct();
    read_device_properties(block_device_ ? info.st_rdev : info.st_dev);
    if (limits_.logical_block > kBlockMax)
        return failure(Code::kUnsupported,
                       "{} needs blocks of {} bytes, but blocks of volumes have at most {} bytes", path_,
                       limits_.logical_block, kBlockMax);
    return Status::ok();
}

// Selects O_DIRECT and finds its alignment. If the kernel does not report the alignment, reading one sector
// tests it.
void File::choose_direct() {
    int flags = fcntl(fd_, F_GETFL) & ~O_NONBLOCK;
    fcntl(fd_, F_SETFL, flags);
    struct statx extended {};
    bool is_reported =
        statx(fd_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &extended) == 0 && (extended.stx_mask & STATX_DIOALIGN);
    bool possible = !is_reported || extended.stx_dio_offset_align != 0;
    direct_ = possible && fcntl(fd_, F_SETFL, flags | O_DIRECT) == 0;
    if (!direct_) {
        log::warning("{}: O_DIRECT is not possible here; I/O goes through the page cache", path_);
        return;
    }
    if (is_reported) {
        limits_.logical_block = std::max(limits_.logical_block, extended.stx_dio_offset_align);
        memory_align_ = std::max(extended.stx_dio_mem_align, 1u);
        return;
    }
    bool fine = reads_a_sector();
    limits_.logical_block = std::max(limits_.logical_block, fine ? kSector : kBlockMax);
    memory_align_ = limits_.logical_block;
}

bool File::reads_a_sector() {
    auto size = current_size();
    if (!size) return false;
    // An empty file has nothing to read: extend it by a block for the test.
    bool lend = *size == 0 && !read_only_ && ftruncate(fd_, kBlockMax) == 0;
    alignas(kBlockMax) std::byte probe[kSector];
    bool fine = pread(fd_, probe, kSector, 0) == kSector;
    return (!lend || ftruncate(fd_, 0) == 0) && fine;
}

void File::read_device_properties(uint64_t device) {
    limits_.rotational = queue_attribute(device, "rotational") == "1";
    // A file's metadata is volatile even if its disk has no cache.
    limits_.volatile_cache =
        !(block_device_ && direct_ && queue_attribute(device, "write_cache") == "write through");
    if (block_device_) {
        std::string most = queue_attribute(device, "discard_max_bytes");
        limits_.discard = !read_only_ && std::strtoull(most.c_str(), nullptr, 10) > 0;
    }
}

// Punches a hole beyond the end of the file. That changes nothing, and shows whether the file system supports
// discards.
void File::probe_discard() {
    if (block_device_) return;
    off_t end = static_cast<off_t>(size());
    limits_.discard = fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, end, kBlockMax) == 0;
}

Result<uint64_t> File::current_size() const {
    uint64_t bytes = 0;
    struct stat info {};
    if (block_device_ ? ioctl(fd_, BLKGETSIZE64, &bytes) != 0 : fstat(fd_, &info) != 0)
        return Status::from_errno(errno, fmt::format("cannot read the size of {}", path_));
    if (!block_device_) bytes = static_cast<uint64_t>(info.st_size);
    return bytes / limits_.logical_block * limits_.logical_block;
}

Status File::set_length(uint64_t bytes) {
    if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0 || fsync(fd_) != 0)
        return Status::from_errno(errno, fmt::format("cannot resize {} to {}", path_, readable_size(bytes)));
    return Status::ok();
}

Status File::prepare_size(uint64_t wanted, bool grow) {
    auto current = current_size();
    if (!current) return current.status();
    if (wanted % limits_.logical_block != 0)
        return failure(Code::kInvalid, "{}: size {} is not a multiple of its block of {} bytes", path_,
                       wanted, limits_.logical_block);
    if (wanted > *current) {
        if (block_device_)
            return failure(Code::kNoSpace, "{} has only {}, less than the requested {}", path_,
                           readable_size(*current), readable_size(wanted));
        if (!grow)
            return failure(
                Code::kIo,
                "{} has only {}, and had {} when it was last used: restore the missing data, extend "
                "the file (truncate -s {}) if zeroes are acceptable there, or delete the "
                "volume",
                path_, readable_size(*current), readable_size(wanted), wanted);
        if (read_only_)
            return failure(Code::kPermission, "{} has only {} and is opened read-only: it cannot grow to {}",
                           path_, readable_size(*current), readable_size(wanted));
        WSS_TRY(set_length(wanted));
    }
    size_.store(std::max(wanted, *current), std::memory_order_release);
    if (size() == 0) return failure(Code::kInvalid, "{} is empty: specify the size of the volume", path_);
    return Status::ok();
}

Status File::resize(uint64_t bytes) {
    if (bytes == 0 || bytes % limits_.logical_block != 0)
        return failure(Code::kInvalid, "{}: size {} is 0, or not a multiple of its block of {} bytes", path_,
                       bytes, limits_.logical_block);
    if (read_only_) return failure(Code::kPermission, "{} is opened read-only", path_);
    if (block_device_) {
        auto current = current_size();
        if (!current) return current.status();
        if (bytes > *current)
            return failure(Code::kNoSpace, "{} has only {}: enlarge the device first", path_,
                           readable_size(*current));
        size_.store(*current, std::memory_order_release);
        return Status::ok();
    }
    // The limit for requests decreases before the file shrinks, and increases after the file has grown. So no
    // request goes beyond the end of the file.
    if (bytes < size()) size_.store(bytes, std::memory_order_release);
    WSS_TRY(set_length(bytes));
    size_.store(bytes, std::memory_order_release);
    return Status::ok();
}

Limits File::limits() const {
    Limits limits = limits_;
    limits.size = size();
    return limits;
}

int File::block_flush() noexcept {
    if (flush_failed_.load(std::memory_order_relaxed)) return EIO;
    if (fdatasync(fd_) == 0) return 0;
    int error = errno;
    if (!direct_) flush_failed_.store(true, std::memory_order_relaxed);
    return error;
}

int File::block_discard(uint64_t offset, uint64_t length) noexcept {
    if (!limits_.discard) return EOPNOTSUPP;
    if (length == 0) return 0;
    if (block_device_) {
        uint64_t range[2] = {offset, length};
        return ioctl(fd_, BLKDISCARD, range) == 0 ? 0 : errno;
    }
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) == 0 ? 0 : errno;
}

int File::block_write_zeroes(uint64_t offset, uint64_t length) noexcept {
    if (length == 0) return 0;
    int error = 0;
    if (block_device_) {
        uint64_t range[2] = {offset, length};
        if (ioctl(fd_, BLKZEROOUT, range) != 0) error = errno;
    } else {
        int mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
        if (fallocate(fd_, mode, static_cast<off_t>(offset), static_cast<off_t>(length)) != 0) error = errno;
    }
    bool cannot = error == EOPNOTSUPP || error == EINVAL || error == ENOTTY;
    return cannot ? write_zero_blocks(offset, length) : error;
}

int File::write_zero_blocks(uint64_t offset, uint64_t length) noexcept {
    while (length > 0) {
        size_t chunk = static_cast<size_t>(std::min<uint64_t>(length, kZeroBytes));
        ssize_t written = pwrite(fd_, zeroes, chunk, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return errno;
        if (written == 0) return ENOSPC;
        offset += static_cast<uint64_t>(written);
        length -= static_cast<uint64_t>(written);
    }
    return 0;
}

int File::block_run(const Request& request) noexcept {
    int error = EINVAL;
    if (request.op == Op::kFlush)
        error = block_flush();
    else if (request.op == Op::kDiscard)
        error = block_discard(request.offset, request.length);
    else if (request.op == Op::kWriteZeroes)
        error = block_write_zeroes(request.offset, request.length);
    if (error == 0 && request.fua) error = block_flush();
    return volume_errno(error);
}

}  // namespace wss::io
