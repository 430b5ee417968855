// SPDX-License-Identifier: Apache-2.0
// The lanes of kvctl bench: a LocalClient with several sessions, each with one transaction in flight.
#pragma once

#include <deque>

#include "lib/kv/client/client.h"
#include "tools/ycsb/runner.h"

namespace wss::kvctl {

class StoreLanes final : public ycsb::Lanes {
  public:
    explicit StoreLanes(kv::LocalClient& client);

    uint32_t count() const override { return static_cast<uint32_t>(lanes_.size()); }
    void begin_read(uint32_t lane, std::span<const std::string_view> keys) override;
    void begin_write(uint32_t lane, std::span<const std::string_view> keys,
                     std::span<std::string> values) override;
    void wait(std::vector<Ended>& ended) override;

  private:
    void submit(kv::Request& request, uint32_t number);
    struct Lane {
        StoreLanes* lanes = nullptr;
        uint32_t number = 0;
        kv::GetAll get;
        kv::PutAll put;
    };
    static void get_done(kv::Request& request) noexcept;
    static void put_done(kv::Request& request) noexcept;

    kv::LocalClient& client_;
    std::deque<Lane> lanes_;  // requests have stable addresses
    std::vector<Ended> ended_;
};

}  // namespace wss::kvctl
