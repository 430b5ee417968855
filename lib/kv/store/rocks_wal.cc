// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/store/rocks_wal.h"

#include <rocksdb/file_checksum.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/wire/endian.h"

namespace wss::kv::store {
namespace {

// A log consists of blocks of 32 KiB. A record is cut into fragments, which do not cross blocks:
//   checksum (4, little-endian) | length of the data (2, little-endian) | type (1) | data
// Fewer than seven bytes at the end of a block are unused.
constexpr size_t kBlock = 32 << 10;
constexpr size_t kHead = 7;
constexpr uint8_t kWhole = 1, kFirst = 2, kLast = 4;  // types; 3: neither the first nor the last fragment

uint8_t byte_at(std::string_view bytes, size_t at) {
    return static_cast<uint8_t>(bytes[at]);
}

// RocksDB stores a rotated sum, so that data that contains checksums is not weaker.
uint32_t masked_crc32c(std::string_view bytes) {
    static const auto factory = rocksdb::GetFileChecksumGenCrc32cFactory();
    const auto sum = factory->CreateFileChecksumGenerator({});
    sum->Update(bytes.data(), bytes.size());
    sum->Finalize();
    const std::string text = sum->GetChecksum();
    const uint32_t crc = wire::get32(reinterpret_cast<const std::byte*>(text.data()));
    return std::rotr(crc, 15) + 0xa282ead8;
}

// The bytes of the valid fragment at the front; 0: there is none.
size_t fragment_at(std::string_view bytes) {
    if (bytes.size() < kHead) return 0;
    const uint8_t type = byte_at(bytes, 6);
    const size_t length = byte_at(bytes, 4) | size_t{byte_at(bytes, 5)} << 8;
    if (type < kWhole || type > kLast || kHead + length > bytes.size()) return 0;
    uint32_t stored = 0;
    for (size_t i = 0; i < 4; i++) stored |= uint32_t{byte_at(bytes, i)} << 8 * i;
    return masked_crc32c(bytes.substr(6, 1 + length)) == stored ? kHead + length : 0;
}

class Check {
  public:
    Status block(const std::string& file, uint64_t offset, std::string_view bytes) {
        for (size_t at = 0; bytes.size() - at >= kHead;) {
            const size_t length = fragment_at(bytes.substr(at));
            const uint8_t type = byte_at(bytes, at + 6);
            if (length == 0 && bad_.empty()) bad_ = fmt::format("byte {} of {}", offset + at, file);
            if (length != 0 && !bad_.empty() && (type == kWhole || type == kFirst))
                return failure(Code::kIo,
                               "the log is damaged at {}, and intact records follow. Dropping the damaged "
                               "record loses acknowledged writes: restore a snapshot, or accept the loss and "
                               "start once with --kv-durability async",
                               bad_);
            // After a bad length, the next fragment may begin anywhere in the block.
            at += std::max<size_t>(length, 1);
        }
        return Status::ok();
    }

  private:
    std::string bad_;  // where the first bad fragment is
};

std::vector<std::filesystem::path> logs_in(const std::string& directory) {
    std::vector<std::filesystem::path> logs;
    std::error_code error;
    for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error))
        if (at->path().extension() == ".log") logs.push_back(at->path());
    std::sort(logs.begin(), logs.end());  // their numbers have leading zeroes
    return logs;
}

}  // namespace

Status check_wal(const std::string& directory) {
    Check check;
    const auto block = std::make_unique<char[]>(kBlock);
    for (const std::filesystem::path& path : logs_in(directory)) {
        std::ifstream file(path, std::ios::binary);
        if (!file) return failure(Code::kIo, "cannot read {}", path.string());
        for (uint64_t offset = 0; file; offset += kBlock) {
            file.read(block.get(), kBlock);
            const auto length = static_cast<size_t>(file.gcount());
            WSS_TRY(check.block(path.string(), offset, {block.get(), length}));
        }
        if (file.bad()) return failure(Code::kIo, "cannot read {}", path.string());
    }
    return Status::ok();
}

}  // namespace wss::kv::store
