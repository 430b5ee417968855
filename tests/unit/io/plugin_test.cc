// SPDX-License-Identifier: Apache-2.0
// Which shared objects this process loads, and which it must refuse.
#include "lib/io/plugin.h"

#include <sys/stat.h>

#include <fstream>

#include "tests/unit/io/harness.h"

namespace wss::io::test {
namespace {

// The program folder of a build tree or of an installation, and the places of plug-ins.
struct Tree {
    explicit Tree(const std::string& program_folder = "") {
        folder = std::filesystem::canonical(temporary.path());
        program = folder / program_folder / "wss-target";
        touch(program);
    }
    static void touch(const std::filesystem::path& path) {
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << "x";
        chmod(path.c_str(), 0755);
    }
    Result<std::string> find() const { return find_plugin(program.string(), "rbd"); }

    TemporaryFolder temporary;
    std::filesystem::path folder, program;
};

TEST(Plugin, is_found_next_to_the_program_in_a_build_tree) {
    Tree tree;
    Tree::touch(tree.folder / "wss-rbd.so");
    auto found = tree.find();
    ASSERT_TRUE(found) << found.status().to_string();
    EXPECT_EQ(*found, (tree.folder / "wss-rbd.so").string());
}

TEST(Plugin, is_found_where_make_install_puts_it) {
    Tree tree("bin");
    Tree::touch(tree.folder / "lib/wss/wss-rbd.so");
    auto found = tree.find();
    ASSERT_TRUE(found) << found.status().to_string();
    EXPECT_EQ(*found, (tree.folder / "lib/wss/wss-rbd.so").string());
}

TEST(Plugin, that_is_not_installed_causes_an_error_with_the_command_that_installs_it) {
    Tree tree;
    auto found = tree.find();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.status().code(), Code::kNotFound);
    EXPECT_NE(found.status().text().find("make install"), std::string::npos) << found.status().to_string();
}

TEST(Plugin, that_others_could_have_written_is_refused) {
    for (mode_t mode : {0775, 0757}) {
        Tree tree;
        Tree::touch(tree.folder / "wss-rbd.so");
        chmod((tree.folder / "wss-rbd.so").c_str(), mode);
        auto found = tree.find();
        ASSERT_FALSE(found) << "mode " << mode;
        EXPECT_EQ(found.status().code(), Code::kPermission) << found.status().to_string();
    }
}

TEST(Plugin, in_a_folder_that_others_can_write_is_refused) {
    Tree tree("bin");
    Tree::touch(tree.folder / "lib/wss/wss-rbd.so");
    chmod((tree.folder / "lib/wss").c_str(), 0777);
    auto found = tree.find();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.status().code(), Code::kPermission) << found.status().to_string();
}

TEST(Plugin, of_another_user_is_refused) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can change the owner of a file";
    Tree tree;
    Tree::touch(tree.folder / "wss-rbd.so");
    ASSERT_EQ(chown((tree.folder / "wss-rbd.so").c_str(), 12345, 12345), 0);
    auto found = tree.find();
    ASSERT_FALSE(found);
    EXPECT_EQ(found.status().code(), Code::kPermission) << found.status().to_string();
}

TEST(Plugin, of_another_version_is_refused) {
    Plugin older{.abi = kPluginAbi + 1};
    EXPECT_EQ(check_plugin("/x/wss-rbd.so", older).code(), Code::kUnsupported);
    Plugin other_flags;
    other_flags.request_bytes += 8;
    EXPECT_EQ(check_plugin("/x/wss-rbd.so", other_flags).code(), Code::kUnsupported);
    EXPECT_TRUE(check_plugin("/x/wss-rbd.so", Plugin{}));
}

}  // namespace
}  // namespace wss::io::test
