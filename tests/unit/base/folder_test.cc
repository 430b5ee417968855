// SPDX-License-Identifier: Apache-2.0
#include "lib/base/folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace wss {
namespace {

TEST(Folder, is_created_once_and_only_in_an_existing_folder) {
    char name[] = "/tmp/wss-folder-XXXXXX";
    const std::string base = mkdtemp(name), made = base + "/made", orphan = base + "/absent/below";
    ASSERT_TRUE(make_folder(made));
    EXPECT_TRUE(std::filesystem::is_directory(made));
    EXPECT_TRUE(make_folder(made));
    EXPECT_EQ(make_folder(orphan).sys_errno(), ENOENT);
    EXPECT_EQ(sync_folder_of(orphan).sys_errno(), ENOENT);
    EXPECT_EQ(sync_folder_of(orphan + "/").sys_errno(), ENOENT);
    EXPECT_TRUE(sync_folder_of(made + "/"));
    EXPECT_TRUE(sync_folder_of("a-name-without-a-folder"));
    std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace wss
