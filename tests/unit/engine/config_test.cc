// SPDX-License-Identifier: Apache-2.0
// The configuration file of wss-cache.
#include "target/engine/config.h"

#include <gtest/gtest.h>

namespace wss::engine {
namespace {

TEST(EngineConfig, of_the_example_in_the_documentation_is_valid) {
    EngineConfig config;
    Status status = read_engine_config("Documentation/examples/wss-cache.toml", config);
    if (status.code() == Code::kNotFound) GTEST_SKIP() << "run from the root of the tree";
    ASSERT_TRUE(status) << status.to_string();
    EXPECT_EQ(config.join, std::vector<std::string>{"tcp://10.0.0.1:5556"});
    EXPECT_EQ(config.listen, std::vector<std::string>{"tcp://10.0.0.7:5557"});
    EXPECT_EQ(config.memory, uint64_t{8} << 30);
    EXPECT_EQ(config.leave_seconds, 30u) << "a commented-out key has its default";
}

TEST(EngineConfig, applies_every_key) {
    EngineConfig config;
    Status status = parse_engine_config(
        "join = 'tcp://a:1'\nlisten = ['tcp://b:2', 'shm:///c']\nadvertise = 'tcp://d:2'\nmemory = '64M'\n"
        "secret_file = '/e'\ncontrol = '/f'\nhttp = '127.0.0.1:9'\nleave_seconds = 7\nlog_level = "
        "'debug'\n",
        "c.toml", config);
    ASSERT_TRUE(status) << status.to_string();
    EXPECT_EQ(config.listen.size(), 2u);
    EXPECT_EQ(config.advertise, std::vector<std::string>{"tcp://d:2"});
    EXPECT_EQ(config.memory, uint64_t{64} << 20);
    EXPECT_EQ(config.secret_file, "/e");
    EXPECT_EQ(config.control, "/f");
    EXPECT_EQ(config.http, "127.0.0.1:9");
    EXPECT_EQ(config.leave_seconds, 7u);
    EXPECT_EQ(config.log_level, "debug");
}

TEST(EngineConfig, refuses_invalid_values_and_unknown_keys_with_their_line) {
    const auto error = [](const char* text) {
        EngineConfig config;
        return parse_engine_config(text, "c.toml", config).to_string();
    };
    EXPECT_EQ(error("\nleave_seconds = 0"), "c.toml:2: leave_seconds: must be a number from 1 to 3600");
    EXPECT_EQ(error("log_level = 'warn'"),
              "c.toml:1: log_level: unknown log level 'warn'; known: debug, info, warning, error, off");
    EXPECT_EQ(error("memroy = '1G'").rfind("c.toml:1: memroy: unknown key", 0), 0u);
}

}  // namespace
}  // namespace wss::engine
