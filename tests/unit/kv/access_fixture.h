// SPDX-License-Identifier: Apache-2.0
// Fixture: partitions over TLS with rights of clients (--kv-access).
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "tests/unit/kv/cluster.h"
#include "tests/unit/kv/raw_client.h"

namespace wss::kv::test {

using wire::KvKind;
using wire::KvStatus;

// Alice may do everything, bob only in "a/".
inline const std::vector<std::string> kRules{"alice=rw", "bob=rw:a/", "p=partition"};

class AccessControl : public testing::Test {
  protected:
    void begin(const std::vector<std::string>& rules, uint32_t partitions = 1) {
        cluster.emplace(Cluster::Options{.partitions = partitions, .scheme = "tls", .access = rules});
    }
    std::unique_ptr<RawClient> raw(const std::string& name, uint64_t nonce = Random::entropy() | 1,
                                   uint32_t client_id = 0) {
        const auto& addresses = cluster->addresses();
        return std::make_unique<RawClient>(addresses[0], static_cast<uint32_t>(addresses.size()), nonce,
                                           client_id, 0, credentials_of(name));
    }
    std::unique_ptr<LocalClient> client(const std::string& name, kv::Options options = {}) {
        options.partitions = cluster->addresses();
        options.identity = secret_of(name);
        auto made = LocalClient::connect(options);
        EXPECT_TRUE(made) << made.status().to_string();
        return made ? std::move(*made) : nullptr;
    }
    Status refusal(const std::string& name, kv::Options options = {}) {
        options.partitions = cluster->addresses();
        options.identity = secret_of(name);
        auto made = LocalClient::connect(options);
        EXPECT_FALSE(made);
        return made.status();
    }
    nlohmann::json info() {
        std::string text;
        cluster->on(0, [&](Service& service) { text = service.info_json(); });
        return nlohmann::json::parse(text);
    }
    std::optional<Cluster> cluster;
};

inline Status read(LocalClient& client, const std::vector<std::string>& keys) {
    GetAll request;
    for (const std::string& key : keys) request.items.emplace_back().key = key;
    client.run(request);
    return request.status;
}

inline Status scan(LocalClient& client, const std::string& prefix) {
    Scan request;
    request.prefix = prefix;
    client.run(request);
    return request.status;
}

inline void expect_denied(const Status& status, std::string_view right) {
    EXPECT_EQ(status.code(), Code::kPermission) << status.to_string();
    EXPECT_NE(status.to_string().find(right), std::string::npos) << status.to_string();
}

}  // namespace wss::kv::test
