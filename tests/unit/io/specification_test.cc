// SPDX-License-Identifier: Apache-2.0
// Facts that a specification gives before the storage is opened.
#include "lib/io/specification.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

TEST(Specification, shows_whether_its_storage_has_one_owner) {
    EXPECT_TRUE(has_owner("rbd:pool/image"));
    EXPECT_TRUE(has_owner("delay:read=1ms:error:every=9:rbd:pool/image?osd_timeout=5&steal=true"));
    EXPECT_FALSE(has_owner("rbd:pool/image@snapshot"));
    EXPECT_FALSE(has_owner("rs:disk"));
    EXPECT_FALSE(has_owner("aio:/tmp/rbd:x?steal=true"));
    EXPECT_FALSE(has_owner("ram:1M"));
}

TEST(Specification, names_its_storage_the_same_whatever_path_leads_to_it) {
    const TemporaryFolder folder;
    const std::string file = folder.file("disk");
    ASSERT_TRUE(open_backend("aio:" + file, {.size = 1 << 20, .create = true}));
    std::filesystem::create_symlink(file, folder.file("link"));
    const StorageName name = storage_name("aio:" + file);
    for (const std::string& other :
         {file, "uring:" + file, "pool:" + file, "pool:8:" + file, "spawn:" + file, "delay:us=5:aio:" + file,
          "aio:" + folder.file("x/../disk"), "aio:" + folder.file("link")})
        EXPECT_TRUE(storage_name(other).is_same(name)) << other;
    EXPECT_FALSE(storage_name("aio:" + file + "2").is_same(name));
    std::filesystem::rename(file, folder.file("another"));
    EXPECT_TRUE(storage_name("aio:" + folder.file("another")).is_same(name)) << "the same file";
    EXPECT_TRUE(storage_name("aio:" + file).is_same(name)) << "the same place";
    EXPECT_FALSE(storage_name("aio:a:disk").is_same(storage_name("aio:b:disk")));
    EXPECT_TRUE(storage_name("rbd:pool/image?steal=true").is_same(storage_name("rbd:pool/image")));
    EXPECT_FALSE(storage_name("rbd:pool/image@one").is_same(storage_name("rbd:pool/image")));
    EXPECT_FALSE(storage_name("rbd:pool/image?conf=/other").is_same(storage_name("rbd:pool/image")));
    EXPECT_FALSE(storage_name("rs:a").is_same(storage_name("rs:b")));
    for (const char* nobodys : {"ram:1M", "rbd:x", "", "nothing:x"})
        EXPECT_FALSE(storage_name(nobodys).is_same(storage_name(nobodys))) << nobodys;
}

TEST(Specification, distinguishes_files_of_file_systems_without_an_id) {
    EXPECT_NE(file_identity(0, 40, 7), file_identity(0, 41, 7));
    EXPECT_NE(file_identity(0, 40, 7), file_identity(0, 40, 8));
    EXPECT_EQ(file_identity(5, 40, 7), file_identity(5, 41, 7)) << "after a restart of the machine";
    EXPECT_NE(file_identity(5, 40, 7), file_identity(6, 40, 7));
    EXPECT_NE(file_identity(5, 40, 7), file_identity(0, 5, 7));
}

TEST(Specification, is_checked_without_creating_or_changing_anything) {
    const TemporaryFolder folder;
    const std::string file = folder.file("disk");
    EXPECT_EQ(check_backend("aio:" + file, {}).code(), Code::kNotFound);
    EXPECT_TRUE(check_backend("pool:3:" + file, {.create = true}));
    EXPECT_EQ(check_backend("aio:" + file + "/x/disk", {.create = true}).code(), Code::kNotFound);
    std::filesystem::create_directory(folder.file("a:b"));
    EXPECT_TRUE(check_backend("aio:" + folder.file("a:b/disk"), {.create = true}));
    EXPECT_FALSE(std::filesystem::exists(file));
    ASSERT_TRUE(open_backend("aio:" + file, {.size = 1 << 20, .create = true}));
    EXPECT_TRUE(check_backend("error:every=3:aio:" + file, {}));
    EXPECT_EQ(std::filesystem::file_size(file), uint64_t{1 << 20});
    EXPECT_TRUE(check_backend("ram:", {.size = 1 << 20}));
    for (const char* wrong : {"ram:", "ram:1000", "nothing:x", "rbd:x"})
        EXPECT_FALSE(check_backend(wrong, {}));
}

}  // namespace
}  // namespace wss::io::test
