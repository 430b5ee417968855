// SPDX-License-Identifier: Apache-2.0
// A configuration is either accepted as a whole or refused with the file, line and key of the error.
#include "lib/base/config.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "lib/base/file.h"
#include "lib/base/suggest.h"

namespace wss {
namespace {

struct Disk {
    std::string name;
    uint64_t size = 0;
};
struct Everything {
    std::string text = "default";
    bool flag = false;
    uint32_t number = 7;
    uint64_t size = 1;
    std::vector<std::string> texts;
    std::vector<Disk> disks;
};

Status read(const std::string& text, Everything& all) {
    ConfigSchema schema;
    schema.text("text", all.text, [&] {
        return all.text == "forbidden" ? Status(Code::kInvalid, "is forbidden") : Status::ok();
    });
    schema.flag("flag", all.flag);
    schema.number("number", all.number, 2, 100);
    schema.size("size", all.size);
    schema.texts("texts", all.texts);
    schema.tables("disk", [&](ConfigSchema& row) {
        Disk& disk = all.disks.emplace_back();
        row.text("name", disk.name);
        row.required();
        row.size("size", disk.size);
    });
    return schema.read_text(text, "x.toml");
}

std::string error_of(const std::string& text) {
    Everything all;
    Status status = read(text, all);
    EXPECT_FALSE(status) << text;
    return status.to_string();
}

TEST(Config, sets_the_given_keys_and_leaves_defaults_for_the_others) {
    Everything all;
    Status status = read(
        "flag = true\nsize = \"64M\"\ntexts = [\"a\", \"b\"]\n[[disk]]\nname = "
        "\"d0\"\n[[disk]]\nname='d1'\nsize=512\n",
        all);
    ASSERT_TRUE(status) << status.to_string();
    EXPECT_EQ(all.text, "default");
    EXPECT_EQ(all.number, 7u);
    EXPECT_TRUE(all.flag);
    EXPECT_EQ(all.size, 64u << 20);
    EXPECT_EQ(all.texts, (std::vector<std::string>{"a", "b"}));
    ASSERT_EQ(all.disks.size(), 2u);
    EXPECT_EQ(all.disks[1].name, "d1");
    EXPECT_EQ(all.disks[1].size, 512u);
    ASSERT_TRUE(read("texts = 'one'", all));
    EXPECT_EQ(all.texts, (std::vector<std::string>{"one"}));
}

TEST(Config, names_file_line_and_key_in_errors) {
    EXPECT_EQ(error_of("\n\nnumber = 1"), "x.toml:3: number: must be a number from 2 to 100");
    EXPECT_EQ(error_of("number = 4294967298"), "x.toml:1: number: must be a number from 2 to 100");
    EXPECT_EQ(error_of("flag = 1"), "x.toml:1: flag: must be true or false");
    EXPECT_EQ(error_of("text = 5"), "x.toml:1: text: must be a string in quotes");
    EXPECT_EQ(error_of("text = 'forbidden'"), "x.toml:1: text: is forbidden");
    EXPECT_EQ(error_of("texts = ['a', 1]"), "x.toml:1: texts: must be a string or an array of strings");
    EXPECT_EQ(error_of("disk = 3"), "x.toml:1: disk: must be a list of tables: write [[disk]]");
    EXPECT_EQ(error_of("[[disk]]\nname = 'a'\n[[disk]]\nname = 'b'\nsize = '1X'")
                  .rfind("x.toml:5: disk[1].size: ", 0),
              0u);
    EXPECT_EQ(error_of("[[disk]]\nsize = 1"), "x.toml:1: disk[0].name: is missing");
    EXPECT_EQ(error_of("size = -1").rfind("x.toml:1: size: ", 0), 0u);
}

TEST(Config, reports_an_unknown_key_and_suggests_the_right_one) {
    EXPECT_EQ(error_of("a = 1\n").rfind("x.toml:1: a: unknown key", 0), 0u);
    EXPECT_EQ(error_of("nubmer = 5"), "x.toml:1: nubmer: unknown key, did you mean 'number'?");
    EXPECT_EQ(error_of("[[disk]]\nname = 'a'\nsice = 3"),
              "x.toml:3: disk[0].sice: unknown key, did you mean 'size'?");
}

TEST(Config, names_the_line_of_a_syntax_error) {
    EXPECT_EQ(error_of("flag = true\nnumber = = 5").rfind("x.toml:2: ", 0), 0u);
    EXPECT_EQ(error_of("text = \"unfinished").rfind("x.toml:1: ", 0), 0u);
    EXPECT_EQ(error_of("flag = true\nflag = false").rfind("x.toml:2: ", 0), 0u);
    // Deep nesting and invalid characters must not crash the parser.
    error_of("texts = " + std::string(100000, '['));
    for (const char* text :
         {"[$]", "[[\x01]]", "[[", "[", "a.$ = 1", "a = {$ = 1}", "a = {", "a = \"\\", "\xff = 1"})
        error_of(text);
}

TEST(Config, names_the_file_that_cannot_be_read_in_the_error) {
    ConfigSchema schema;
    Status missing = schema.read_file("/nonexistent/x.toml");
    EXPECT_EQ(missing.code(), Code::kNotFound);
    EXPECT_NE(missing.to_string().find("/nonexistent/x.toml"), std::string::npos);
    EXPECT_FALSE(schema.read_file(std::filesystem::temp_directory_path().string()));
    EXPECT_FALSE(schema.read_file("/dev/zero")) << "reads are bounded, whatever the file";
}

// An operator may pass a configuration through a pipe, as `--config <(…)` does.
TEST(Config, reads_a_pipe_but_does_not_wait_for_its_writer) {
    char folder[] = "/tmp/wss-config-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    const std::string path = std::string(folder) + "/pipe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    uint32_t number = 0;
    ConfigSchema schema;
    schema.number("number", number, 2, 100);
    alarm(60);
    const Status unwritten = schema.read_file(path);
    alarm(0);
    EXPECT_NE(unwritten.to_string().find(path + ": a pipe"), std::string::npos) << unwritten.to_string();
    Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));  // keeps the text in the pipe
    Descriptor writer(::open(path.c_str(), O_WRONLY));
    std::thread other([&writer] {
        EXPECT_EQ(::write(writer.get(), "number = 9\n", 11), 11);
        writer.reset();
    });
    EXPECT_TRUE(schema.read_file(path));
    EXPECT_EQ(number, 9u);
    other.join();
    std::filesystem::remove_all(folder);
}

TEST(Suggest, offers_the_closest_word_or_all_words) {
    EXPECT_EQ(suggestion("volune", {"volume", "session"}), ", did you mean 'volume'?");
    EXPECT_EQ(suggestion("gte", {"put", "get"}), ", did you mean 'get'?") << "a swap is one error";
    EXPECT_EQ(suggestion("xyz", {"volume", "session"}), "; known: volume, session");
    EXPECT_EQ(suggestion(std::string(10000, 'v'), {"volume"}), "; known: volume");
}

}  // namespace
}  // namespace wss
