// SPDX-License-Identifier: Apache-2.0
// Options of an RBD image, and the error message for each invalid one.
#include "lib/io/rbd/options.h"

#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

std::string error_of(const std::string& text) {
    auto parsed = parse_rbd_options(text);
    return parsed ? "" : parsed.status().to_string();
}

TEST(RbdOptions, need_only_a_pool_and_an_image) {
    auto parsed = parse_rbd_options("rbd/disk0");
    ASSERT_TRUE(parsed) << parsed.status().to_string();
    EXPECT_EQ(parsed->pool, "rbd");
    EXPECT_EQ(parsed->image, "disk0");
    EXPECT_EQ(parsed->user, "admin");
    EXPECT_FALSE(parsed->cache);
    EXPECT_FALSE(parsed->steal);
    EXPECT_TRUE(parsed->is_head());
    EXPECT_EQ(parsed->name(), "rbd/disk0");
}

TEST(RbdOptions, are_all_accepted) {
    auto parsed = parse_rbd_options(
        "p/i@s?conf=/etc/ceph/a.conf&id=wss&keyring=/k&cache=true&steal=0&mount_timeout=1&osd_timeout=2"
        "&mon_timeout=3&open_timeout=4&resize_timeout=5&close_timeout=3600&away_timeout=7");
    ASSERT_TRUE(parsed) << parsed.status().to_string();
    EXPECT_EQ(parsed->snapshot, "s");
    EXPECT_FALSE(parsed->is_head());
    EXPECT_EQ(parsed->conf, "/etc/ceph/a.conf");
    EXPECT_EQ(parsed->user, "wss");
    EXPECT_EQ(parsed->keyring, "/k");
    EXPECT_TRUE(parsed->cache);
    EXPECT_FALSE(parsed->steal);
    EXPECT_EQ(parsed->mount_timeout, 1u);
    EXPECT_EQ(parsed->osd_timeout, 2u);
    EXPECT_EQ(parsed->mon_timeout, 3u);
    EXPECT_EQ(parsed->open_timeout, 4u);
    EXPECT_EQ(parsed->resize_timeout, 5u);
    EXPECT_EQ(parsed->close_timeout, 3600u);
    EXPECT_EQ(parsed->away_timeout, 7u);
}

TEST(RbdOptions, errors_explain_each_invalid_word) {
    const std::pair<const char*, const char*> wrong[] = {
        {"", "write POOL/IMAGE"},
        {"disk0", "write POOL/IMAGE"},
        {"/disk0", "the pool has no name"},
        {"rbd/", "the image has no name"},
        {"rbd/@s", "the image has no name"},
        {"rbd/i@", "the snapshot has no name"},
        {"rbd/i@a@b", "more than one @"},
        {"rbd/ns/i", "namespace"},
        {"rbd/a\nb", "control character"},
        {"rbd/i?", "no option ''"},
        {"rbd/i?cache", "true or false"},
        {"rbd/i?cache=yes", "true or false"},
        {"rbd/i?keyrng=/k", "did you mean 'keyring'"},
        {"rbd/i?id=a&id=b", "given twice"},
        {"rbd/i?id=a&", "no option ''"},
        {"rbd/i?id=", "needs a value"},
        {"rbd/i?id=client.admin", "without 'client.'"},
        {"rbd/i?conf=ceph.conf", "start with /"},
        {"rbd/i?osd_timeout=0", "1 to 3600"},
        {"rbd/i?osd_timeout=3601", "1 to 3600"},
        {"rbd/i?osd_timeout=5s", "1 to 3600"},
        {"rbd/i?osd_timeout=99999999999", "1 to 3600"},
        {"rbd/i?away_timeout=4", "5 to 3600"},
        {"rbd/i@s?steal=1", "a snapshot does not have"},
    };
    for (const auto& [text, word] : wrong)
        EXPECT_NE(error_of(text).find(word), std::string::npos) << text << ": " << error_of(text);
    EXPECT_NE(error_of("rbd/" + std::string(96, 'x')).find("at most 95"), std::string::npos);
}

TEST(RbdOptions, errors_about_a_long_word_stay_short) {
    const std::string text(100'000, 'x');
    for (const char* before : {"", "a/b/", "a/b@", "a/b?", "a/b?conf=", "a/b?conf=/", "a/b?keyring=/",
                               "a/b?id=", "a/b?id=client.", "a/b?cache=", "a/b?osd_timeout="}) {
        const std::string error = error_of(before + text);
        EXPECT_NE(error, "") << before;
        EXPECT_LT(error.size(), 400u) << before;
    }
    EXPECT_NE(error_of("a/b?conf=/" + text).find("at most 4095"), std::string::npos);
    EXPECT_NE(error_of("a/b?id=" + text).find("at most 255"), std::string::npos);
    EXPECT_EQ(error_of("a/b?id=" + std::string(255, 'x')), "");
    EXPECT_EQ(error_of("a/b?conf=/" + std::string(4094, 'x')), "");
}

TEST(RbdOptions, are_checked_before_the_plug_in_is_searched_for) {
    auto opened = open_backend("rbd:rbd/i?cahce=1", {});
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.status().code(), Code::kInvalid) << opened.status().to_string();
}

}  // namespace
}  // namespace wss::io::test
