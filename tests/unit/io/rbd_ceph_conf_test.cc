// SPDX-License-Identifier: Apache-2.0
// Settings in a ceph.conf that would make librados end the process.
#include "lib/io/rbd/ceph_conf.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

TEST(RbdCephConf, with_a_value_that_makes_librados_end_the_process_is_refused) {
    const std::pair<const char*, const char*> lethal[] = {
        {"ms_type", "nonsense"},
        {"ms_type", ""},
        {"ms_type", "simple"},
        {"ms_type", "async+rdma"},
        {"ms_type", "async+dpdk"},
        {"ms_public_type", "nonsense"},
        {"heartbeat_interval", "-1"},
        {"librados_thread_count", "257"},
        {"librados_thread_count", "9223372036854775807"},
        {"rbd_op_threads", "9223372036854775807"},
        {"objecter_completion_locks_per_session", "0"},
        {"objecter_completion_locks_per_session", "9223372036854775807"},
        {"auth_client_required", "gss"},
        {"auth_client_required", "cephx, gss"},
        {"auth_supported", "gss;none"},
    };
    for (const auto& [name, value] : lethal) {
        Status status = check_ceph_setting(name, value, "/etc/ceph/a.conf");
        ASSERT_FALSE(status) << name << " = " << value;
        EXPECT_EQ(status.code(), Code::kInvalid);
        const std::string names = std::string(name) + " = " + value + " in /etc/ceph/a.conf";
        EXPECT_NE(status.to_string().find(names), std::string::npos) << status.to_string();
    }
}

TEST(RbdCephConf, with_a_value_that_librados_accepts_is_accepted) {
    const std::pair<const char*, const char*> fine[] = {{"ms_type", "async+posix"},
                                                        {"ms_type", "async"},
                                                        {"ms_public_type", ""},
                                                        {"ms_public_type", "async"},
                                                        {"heartbeat_interval", "0"},
                                                        {"heartbeat_interval", "5"},
                                                        {"librados_thread_count", "2"},
                                                        {"ms_client_mode", "nonsense"},
                                                        {"auth_supported", ""},
                                                        {"auth_supported", "cephx"},
                                                        {"auth_client_required", "cephx none"}};
    for (const auto& [name, value] : fine)
        EXPECT_TRUE(check_ceph_setting(name, value, "ceph.conf")) << name << " = " << value;
}

TEST(RbdCephConf, settings_that_are_checked_are_all_listed) {
    const auto names = lethal_ceph_settings();
    for (const char* name :
         {"ms_type", "ms_public_type", "heartbeat_interval", "librados_thread_count", "rbd_op_threads",
          "objecter_completion_locks_per_session", "auth_client_required", "auth_supported"})
        EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
}

TEST(RbdCephConf, with_a_list_that_has_no_word_that_librados_knows_is_refused) {
    const std::pair<const char*, std::vector<const char*>> wrong[] = {
        {"ms_client_mode", {"nonsense", "", "CRC", "crc2 securely"}},
        {"ms_mon_client_mode", {"nonsense", " , ;"}},
        {"auth_client_required", {"junk", "", "cephy"}},
        {"auth_supported", {"junk"}},
    };
    for (const auto& [name, values] : wrong) {
        for (const char* value : values) {
            const Status status = check_setting_to_connect(name, value, "/etc/ceph/a.conf");
            const std::string names = fmt::format("{} = {} in /etc/ceph/a.conf", name, value);
            EXPECT_NE(status.to_string().find(names), std::string::npos) << status.to_string();
        }
    }
}

TEST(RbdCephConf, with_a_list_that_has_a_word_that_librados_knows_is_accepted) {
    const std::pair<const char*, const char*> fine[] = {{"ms_client_mode", "crc"},
                                                        {"ms_client_mode", "nonsense;secure"},
                                                        {"ms_mon_client_mode", "secure crc"},
                                                        {"auth_client_required", "junk, cephx"},
                                                        {"auth_client_required", "none"},
                                                        {"auth_supported", ""},
                                                        {"ms_service_mode", "nonsense"}};
    for (const auto& [name, value] : fine)
        EXPECT_TRUE(check_setting_to_connect(name, value, "ceph.conf")) << name << " = " << value;
    EXPECT_EQ(settings_to_connect().size(), 4u);
}

TEST(RbdCephConf, errors_stay_short_and_give_the_length_of_a_long_value) {
    const std::string status = check_ceph_setting("ms_type", std::string(4000, 'x'), "c").to_string();
    EXPECT_LT(status.size(), 400u);
    EXPECT_NE(status.find("4000 characters"), std::string::npos) << status;
}

TEST(RbdCephConf, throttles_are_limits_of_requests_and_bytes_per_second) {
    EXPECT_TRUE(is_throttle("rbd_qos_iops_limit", "1"));
    EXPECT_TRUE(is_throttle("rbd_qos_write_bps_limit", "1M"));
    EXPECT_FALSE(is_throttle("rbd_qos_iops_limit", "0"));
    EXPECT_FALSE(is_throttle("rbd_qos_iops_burst", "9"));
    EXPECT_FALSE(is_throttle("rbd_qos_schedule_tick_min", "50"));
    EXPECT_FALSE(is_throttle("rbd_readahead_trigger_requests_limit", "1"));
}

class RbdCephFile : public ::testing::Test {
  protected:
    std::string error_of(const std::string& path) { return check_ceph_file("keyring", path).to_string(); }
    std::string path(const char* name) const { return folder_ + "/" + name; }

    void SetUp() override { ASSERT_NE(mkdtemp(folder_.data()), nullptr); }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string folder_ = "/tmp/wss-ceph-conf-XXXXXX";
};

TEST_F(RbdCephFile, that_is_not_a_regular_file_is_refused) {
    ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
    EXPECT_NE(error_of(path("fifo")).find("is a FIFO"), std::string::npos) << error_of(path("fifo"));
    EXPECT_NE(error_of(folder_).find(folder_ + " is a directory"), std::string::npos) << error_of(folder_);
    EXPECT_NE(error_of("/dev/zero").find("is a device"), std::string::npos) << error_of("/dev/zero");
}

TEST_F(RbdCephFile, that_is_longer_than_the_limit_is_refused) {
    std::ofstream(path("long")) << "[global]";
    EXPECT_TRUE(check_ceph_file("keyring", path("long")));
    std::filesystem::resize_file(path("long"), 1 << 20);
    EXPECT_TRUE(check_ceph_file("keyring", path("long")));
    std::filesystem::resize_file(path("long"), (1 << 20) + 1);
    EXPECT_NE(error_of(path("long")).find("1048577 bytes"), std::string::npos) << error_of(path("long"));
}

TEST_F(RbdCephFile, lists_are_checked_up_to_the_file_that_librados_uses) {
    ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
    std::ofstream(path("file")) << "[client.admin]";
    auto error = [](const std::string& list) { return check_ceph_files("keyring", list).to_string(); };
    std::string missing;
    while (missing.size() < 10'000) missing += path("none") + ",";
    for (const char* between : {",", ";", " ", "\t", "="}) {
        const std::string list = path("none") + between + path("fifo");
        EXPECT_NE(error(list).find("is a FIFO"), std::string::npos) << list;
    }
    EXPECT_NE(error(missing + path("fifo")).find("is a FIFO"), std::string::npos);
    EXPECT_TRUE(check_ceph_files("keyring", missing + path("file") + "," + path("fifo")));
    EXPECT_TRUE(check_ceph_files("keyring", ""));
}

TEST_F(RbdCephFile, that_is_missing_is_left_to_librados) {
    EXPECT_TRUE(check_ceph_file("keyring", path("none")));
}

}  // namespace
}  // namespace wss::io::test
