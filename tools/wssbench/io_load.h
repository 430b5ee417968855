// SPDX-License-Identifier: Apache-2.0
// IoLoad: a thread for local I/O, through the product's storage backends (lib/io), without a network.
#pragma once

#include <vector>

#include "lib/io/backend.h"
#include "tools/wssbench/load.h"

namespace wss::wssbench {

class IoLoad final : public LoadThread {
  public:
    // `backend` must outlive the thread. `depth` requests are in flight, each with a buffer of `bytes`.
    static Result<std::unique_ptr<LoadThread>> create(io::Backend& backend,
                                                      std::unique_ptr<Accesses> accesses, uint32_t depth,
                                                      uint32_t bytes);
    ~IoLoad() override;

  private:
    struct Slot : io::Request {
        IoLoad* thread = nullptr;
        Nanoseconds begun{};
    };

    IoLoad(std::unique_ptr<Accesses> accesses, uint32_t depth, uint32_t bytes);
    void begin() override;
    void wind_down() override { finish_if_quiet(); }
    void go(Slot& slot) noexcept;
    void ended(Slot& slot) noexcept;
    void finish_if_quiet();

    const std::unique_ptr<Accesses> accesses_;
    std::byte* const memory_;
    std::vector<Slot> slots_;
    std::unique_ptr<io::Queue> queue_;
};

// The backend specification for a method: static (pool of `threads`), dynamic (spawn), aio, uring or ram.
std::string backend_of(const std::string& method, uint32_t threads, const std::string& path, uint64_t bytes);
const std::vector<std::string>& methods();

// Makes a file of `bytes` and writes it completely, because reads of holes would not access the storage.
Status make_file(const std::string& path, uint64_t bytes);

}  // namespace wss::wssbench
