// SPDX-License-Identifier: Apache-2.0
#include "target/control/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace wss::control {
namespace {

TEST(TargetConfig, of_the_example_in_the_documentation_is_valid_and_sets_the_documented_values) {
    TargetConfig config;
    Status status = read_target_config("Documentation/examples/wss-target.toml", config);
    if (status.code() == Code::kNotFound) GTEST_SKIP() << "run from the root of the tree";
    ASSERT_TRUE(status) << status.to_string();
    EXPECT_EQ(config.listen.size(), 2u);
    ASSERT_EQ(config.volumes.size(), 2u);
    EXPECT_EQ(config.volumes[0].size, uint64_t{10} << 30);
    EXPECT_TRUE(config.volumes[0].declared);
    EXPECT_EQ(config.volumes[1].backend, "ram:1G");
    EXPECT_TRUE(check_target_config(config));
    EXPECT_EQ(config.state, "/var/lib/wss/target.json");
}

std::string parse_error(const std::string& text) {
    TargetConfig config;
    Status status = parse_target_config(text, "wss.toml", config);
    EXPECT_FALSE(status) << text;
    return status.to_string();
}

TEST(TargetConfig, with_invalid_values_is_refused_with_their_line) {
    EXPECT_EQ(parse_error("log_level = 'warn'"),
              "wss.toml:1: log_level: unknown log level 'warn'; known: debug, info, warning, error, off");
    EXPECT_EQ(parse_error("[[volume]]\nname = 'a b'\nbackend = 'ram:1M'")
                  .rfind("wss.toml:2: volume[0].name: invalid volume name 'a b'", 0),
              0u);
    EXPECT_EQ(parse_error("[[volume]]\nname = 'a'"), "wss.toml:1: volume[0].backend: is missing");
    EXPECT_EQ(parse_error("[[volume]]\nname = 'a'\nbackend='ram:1M'\nblock_size = 1024")
                  .rfind("wss.toml:4: volume[0].block_size: must be 512 or 4096", 0),
              0u);
    EXPECT_EQ(parse_error("reactors = 65"), "wss.toml:1: reactors: must be a number from 0 to 64");
}

TEST(TargetConfig, checks_rules_between_values_after_options_are_applied) {
    TargetConfig config;
    EXPECT_NE(check_target_config(config).to_string().find("--listen"), std::string::npos);
    config.listen = {"tcp://a:1", "tcp://a:1"};
    EXPECT_FALSE(check_target_config(config));
    config.listen = {"tcp://a:1"};
    EXPECT_TRUE(check_target_config(config)) << "volumes can be added over the control socket";
    config.control.clear();
    EXPECT_FALSE(check_target_config(config));
    config.volumes = {{.name = "a"}, {.name = "a"}};
    EXPECT_FALSE(check_target_config(config));
}

// Opening an image may take it from another program, even if the start fails later.
TEST(TargetConfig, refuses_volumes_that_cannot_all_be_served_before_one_is_opened) {
    const std::string image = "rbd:rbd/a?steal=true";
    EXPECT_EQ(check_volumes({{.name = "a", .backend = image}, {.name = "b", .backend = image}}).text(),
              "volume b: rbd:rbd/a?steal=true is the storage of another volume");
    EXPECT_FALSE(
        check_volumes({{.name = "a", .backend = "rbd:rbd/a"}, {.name = "b", .backend = "rbd:rbd/a?id=x"}}));
    EXPECT_TRUE(
        check_volumes({{.name = "a", .backend = "rbd:rbd/a@s"}, {.name = "b", .backend = "rbd:rbd/a@s"}}));
    EXPECT_EQ(check_volumes({{.name = "a", .backend = image, .size = 1000}}).text(),
              "volume a: size 1000 is not a multiple of its block size 512");
    EXPECT_EQ(check_volumes({{.name = "a", .backend = image, .size = 512, .block_size = 4096}}).text(),
              "volume a: size 512 is not a multiple of its block size 4096");
    EXPECT_FALSE(check_volumes({{.name = "a", .backend = image}, {.name = "a", .backend = "ram:1M"}}));
    EXPECT_TRUE(
        check_volumes({{.name = "a", .backend = image, .size = 512}, {.name = "b", .backend = "ram:1M"}}));
}

TEST(TargetConfig, takes_the_role_and_the_keys_of_that_role_from_the_file) {
    TargetConfig config;
    Status status = parse_target_config(
        "role = 'rs'\njoin = 'tcp://a:5556'\nadvertise = 'tcp://b:5555'\nsecret_file = '/s'\n", "t.toml",
        config);
    ASSERT_TRUE(status) << status.to_string();
    EXPECT_EQ(config.role, "rs");
    EXPECT_EQ(config.join, "tcp://a:5556");
    EXPECT_EQ(config.advertise, std::vector<std::string>{"tcp://b:5555"});
    EXPECT_EQ(config.secret_file, "/s");
    EXPECT_TRUE(check_role(config));
    EXPECT_NE(parse_error("role = 'sr'").find("unknown role 'sr'"), std::string::npos);
}

TEST(TargetConfig, refuses_options_of_another_role) {
    TargetConfig block;
    block.secret_file = "/s";
    EXPECT_EQ(check_role(block).to_string(), "--secret-file is not for --role block");
    TargetConfig storage;
    storage.role = "rs";
    storage.volumes = {{.name = "a", .access = {"host1=rw"}}};
    EXPECT_EQ(check_role(storage).to_string(), "--access is not for --role rs")
        << "a list in the file is ignored like an option";
}

TEST(TargetConfig, refuses_options_that_a_key_value_store_ignores) {
    TargetConfig kv;
    kv.role = "kv";
    kv.kv.listen = {"tcp://127.0.0.1:0"};
    EXPECT_TRUE(check_role(kv));
    for (std::string TargetConfig::*path :
         {&TargetConfig::secrets, &TargetConfig::state, &TargetConfig::cache_secrets}) {
        TargetConfig wrong = kv;
        wrong.*path = "/s";
        EXPECT_FALSE(check_role(wrong));
    }
    TargetConfig wrong = kv;
    wrong.cache_listen = {"tcp://127.0.0.1:0"};
    EXPECT_EQ(check_role(wrong).to_string(), "--cache-listen is not for --role kv");
    wrong = kv;
    wrong.volumes = {{.name = "a"}};
    EXPECT_EQ(check_role(wrong).to_string(), "--volume is not for --role kv");
}

TEST(TargetConfig, refuses_tls_files_without_a_tls_address) {
    TargetConfig config;
    config.listen = {"tcp://127.0.0.1:0"};
    config.tls.authorities = "/ca.pem";
    EXPECT_FALSE(check_target_config(config));
    config.listen.push_back("tls://127.0.0.1:0");
    EXPECT_TRUE(check_target_config(config)) << check_target_config(config).to_string();
    config.tls.certificate = "/cert.pem";
    EXPECT_FALSE(check_target_config(config)) << "its key is missing";
}

TEST(TargetConfig, requires_tls_on_every_address_for_secrets_of_the_key_value_store) {
    TargetConfig config;
    config.kv.secrets = "/secrets";
    config.kv.listen = {"tls://127.0.0.1:0", "tcp://127.0.0.1:0"};
    EXPECT_FALSE(check_target_config(config));
    config.kv.listen.pop_back();
    EXPECT_TRUE(check_target_config(config)) << check_target_config(config).to_string();
}

TEST(TargetConfig, requires_names_and_the_right_of_partitions_for_rights_of_the_key_value_store) {
    TargetConfig config;
    config.kv.listen = {"tls://127.0.0.1:0"};
    config.kv.access = {"alice=rw"};
    const auto fault = [&] { return check_target_config(config).to_string(); };
    EXPECT_NE(fault().find("--kv-secrets"), std::string::npos) << fault();
    config.kv.secrets = "/secrets";
    EXPECT_TRUE(check_target_config(config)) << fault();
    config.kv.map = {"tls://127.0.0.1:1", "tls://127.0.0.1:2"};
    EXPECT_NE(fault().find("partition"), std::string::npos) << fault();
    config.kv.access_options = {"p=partition"};
    EXPECT_TRUE(check_target_config(config)) << fault();
    auto rules = kv_access(config);
    ASSERT_TRUE(rules);
    EXPECT_EQ(rules->words(), (std::vector<std::string>{"alice=rw", "p=partition"}));
    config.kv.access_options.emplace_back("bob=all");
    EXPECT_NE(fault().find("rule 'bob=all'"), std::string::npos) << fault();
    config.role = "rs";
    config.kv.listen.clear();
    config.kv.secrets.clear();
    EXPECT_EQ(check_role(config).to_string(), "--kv-access is not for --role rs");
}

TEST(TargetConfig, takes_rights_from_the_file_in_a_reload_and_keeps_those_of_the_command_line) {
    const std::string path = testing::TempDir() + fmt::format("/access-{}.toml", getpid());
    const auto write = [&](const std::string& rules) {
        std::ofstream(path) << "kv_listen = \"tls://127.0.0.1:0\"\nkv_secrets = \"/s\"\n" << rules;
    };
    write("kv_access = [\"alice=r\"]\n");
    TargetConfig config;
    ASSERT_TRUE(read_target_config(path, config));
    config.kv.access_options = {"carol=w"};
    write("kv_access = \"bob=rw:a/\"\nkv_memory = \"1G\"\n");
    auto rules = read_kv_access(config);
    ASSERT_TRUE(rules) << rules.status().to_string();
    EXPECT_EQ(rules->words(), (std::vector<std::string>{"bob=rw:a/", "carol=w"}));
    write("kv_access = [\"bob\"]\n");
    EXPECT_FALSE(read_kv_access(config));
    write("kv_access = [");
    EXPECT_FALSE(read_kv_access(config));
    unlink(path.c_str());
    EXPECT_FALSE(read_kv_access(config)) << "a file that is gone does not remove the rules";
}

TEST(TargetConfig, lets_client_certificates_authenticate_only_if_all_addresses_use_tls) {
    const fabric::tls::Files files{
        .certificate = {}, .key = {}, .authorities = {}, .client_authorities = "/ca"};
    const std::vector<std::string> all{"tls://a:1", "tls://b:1"}, some{"tls://a:1", "tcp://b:1"};
    EXPECT_TRUE(admits_by_certificate(files, all));
    EXPECT_FALSE(admits_by_certificate(files, some));
    EXPECT_FALSE(admits_by_certificate(files, {}));
    EXPECT_FALSE(admits_by_certificate({}, all));
}

TEST(VolumeOption, consists_of_name_backend_and_words) {
    auto plain = parse_volume_option("disk0=aio:/dev/nvme0n1");
    ASSERT_TRUE(plain);
    EXPECT_EQ(plain->name, "disk0");
    EXPECT_EQ(plain->backend, "aio:/dev/nvme0n1");
    EXPECT_TRUE(plain->declared);
    auto all = parse_volume_option("d=aio:/a,b=c.img,size=10G,block=4096,ro,create");
    ASSERT_TRUE(all) << all.status().to_string();
    EXPECT_EQ(all->backend, "aio:/a,b=c.img") << "commas belong to the backend";
    EXPECT_EQ(all->size, uint64_t{10} << 30);
    EXPECT_EQ(all->block_size, 4096u);
    EXPECT_TRUE(all->read_only);
    EXPECT_TRUE(all->create);
    auto limited = parse_volume_option("d=ram:1M,iops=500,bandwidth=100M");
    ASSERT_TRUE(limited.is_ok()) << limited.status().to_string();
    EXPECT_EQ(limited->limits, (volume::RateLimits{.iops = 500, .bandwidth = 100 << 20}));
    EXPECT_FALSE(parse_volume_option("d=ram:1M,iops=-1"));
    EXPECT_FALSE(parse_volume_option("d=ram:1M,bandwidth=99999999999999999999"));
    auto filter = parse_volume_option("e=error:every=10,errno=EIO:ram:64M");
    ASSERT_TRUE(filter);
    EXPECT_EQ(filter->backend, "error:every=10,errno=EIO:ram:64M");
    for (const char* bad :
         {"", "x", "=ram:1M", "a=", "a=ram:1M,size=1X", "a=ram:1M,block=100", "a/b=ram:1M", "a=,ro"})
        EXPECT_FALSE(parse_volume_option(bad)) << bad;
}

}  // namespace
}  // namespace wss::control
