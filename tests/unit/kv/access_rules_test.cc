// SPDX-License-Identifier: Apache-2.0
// The rules of --kv-access: which are accepted, and which keys they cover.
#include "lib/kv/service/access_rules.h"

#include <gtest/gtest.h>

#include "lib/base/clock.h"

namespace wss::kv {
namespace {

AccessRules rules_of(const std::vector<std::string>& words) {
    auto rules = AccessRules::parse(words);
    EXPECT_TRUE(rules) << rules.status().to_string();
    return rules ? std::move(*rules) : AccessRules();
}

std::string fault_of(const std::vector<std::string>& words) {
    auto rules = AccessRules::parse(words);
    EXPECT_FALSE(rules) << words.front();
    return rules.status().to_string();
}

TEST(AccessRules, with_a_prefix_cover_the_keys_that_begin_with_it_and_no_others) {
    const AccessRules rules = rules_of({"alice=rw:a/"});
    const ClientRights& alice = rules.of("alice");
    for (const char* key : {"a/", "a/x", "a//"})
        EXPECT_TRUE(alice.may_read(key) && alice.may_write(key)) << key;
    for (const char* key : {"", "a", "b/", "A/x", "ab", "/a/"})
        EXPECT_FALSE(alice.may_read(key) || alice.may_write(key)) << key;
    EXPECT_FALSE(alice.reads_all() || alice.writes_all() || alice.is_partition());
}

TEST(AccessRules, without_a_prefix_or_with_an_empty_one_cover_every_key) {
    for (const char* word : {"alice=r", "alice=r:"}) {
        const AccessRules rules = rules_of({word});
        EXPECT_TRUE(rules.of("alice").reads_all()) << word;
        EXPECT_TRUE(rules.of("alice").may_read(std::string_view("\0\xff", 2))) << word;
        EXPECT_FALSE(rules.of("alice").may_write("a")) << word;
    }
}

TEST(AccessRules, of_one_name_add_up) {
    const AccessRules rules = rules_of({"alice=r:a/", "alice=w:a/b/", "alice=rw:c:", "alice=partition"});
    const ClientRights& alice = rules.of("alice");
    EXPECT_TRUE(alice.may_read("a/b/x") && alice.may_write("a/b/x"));
    EXPECT_TRUE(alice.may_read("a/c") && !alice.may_write("a/c"));
    EXPECT_TRUE(alice.may_write("c:1") && !alice.may_write("c")) << "a prefix may contain ':'";
    EXPECT_TRUE(alice.is_partition());
}

TEST(AccessRules, permit_a_scan_only_if_one_of_them_covers_its_prefix) {
    const AccessRules rules = rules_of({"alice=r:a/1", "alice=r:a/2", "alice=w:b/"});
    const ClientRights& alice = rules.of("alice");
    EXPECT_TRUE(alice.may_scan("a/1") && alice.may_scan("a/12"));
    for (const char* prefix : {"", "a", "a/", "b/"}) EXPECT_FALSE(alice.may_scan(prefix)) << prefix;
}

TEST(AccessRules, give_no_rights_to_a_name_without_a_rule_unless_there_are_rules_for_the_star) {
    const AccessRules rules = rules_of({"alice=rw"});
    EXPECT_FALSE(rules.of("bob").is_client() || rules.of("").is_client());
    const AccessRules with_star = rules_of({"*=r:public/", "alice=rw", "carol=none"});
    EXPECT_TRUE(with_star.of("bob").may_read("public/x") && with_star.of("").may_read("public/x"));
    EXPECT_FALSE(with_star.of("bob").may_write("public/x"));
    EXPECT_FALSE(with_star.of("carol").is_client()) << "a rule of its own excludes those for '*'";
    EXPECT_TRUE(with_star.of("alice").writes_all());
}

TEST(AccessRules, distinguish_a_partition_from_a_client) {
    const AccessRules rules = rules_of({"p=partition"});
    EXPECT_TRUE(rules.of("p").is_partition() && !rules.of("p").is_client());
    EXPECT_TRUE(rules.has_partition());
    EXPECT_FALSE(rules_of({"p=rw"}).has_partition());
}

TEST(AccessRules, accept_any_byte_of_a_prefix_in_hexadecimal) {
    const AccessRules rules = rules_of({"alice=r:%00%fF%25"});
    EXPECT_TRUE(rules.of("alice").may_read(std::string_view("\0\xff%x", 4)));
    EXPECT_FALSE(rules.of("alice").may_read("%00%fF%25"));
    for (const char* word : {"alice=r:%", "alice=r:%2", "alice=r:%2g", "alice=r:%-1"})
        EXPECT_NE(fault_of({word}).find("two hexadecimal digits"), std::string::npos) << word;
    EXPECT_NE(fault_of({"alice=r:\xc3\xa9"}).find("write it as %C3"), std::string::npos);
    EXPECT_NE(fault_of({"alice=r:a\n"}).find("write it as %0A"), std::string::npos);
}

TEST(AccessRules, that_are_invalid_are_refused_and_named_in_the_error) {
    for (const char* word :
         {"", "alice", "alice=", "alice=x", "alice=RW", "alice=wr", "=rw", "al ice=rw", "-a=r",
          "alice=none:a", "alice=partition:a", "*=partition", "alice:rw", "alice=rw a"})
        EXPECT_NE(fault_of({word}).find("rule '" + std::string(word) + "'"), std::string::npos) << word;
    EXPECT_FALSE(AccessRules::parse({"alice=none", "alice=r"}).is_ok());
    EXPECT_FALSE(AccessRules::parse({"alice=r", "alice=none"}).is_ok());
    EXPECT_FALSE(AccessRules::parse({"alice=r:" + std::string(1025, 'x')}).is_ok()) << "no key is that long";
}

TEST(AccessRules, are_limited_in_number) {
    std::vector<std::string> words(AccessRules::kRulesPerName, "alice=r:a");
    EXPECT_TRUE(AccessRules::parse(words).is_ok());
    words.emplace_back("alice=r:b");
    EXPECT_FALSE(AccessRules::parse(words).is_ok());
    words.clear();
    for (size_t i = 0; i < AccessRules::kRulesMax; ++i) words.push_back(fmt::format("n{}=r", i));
    EXPECT_TRUE(AccessRules::parse(words).is_ok());
    words.emplace_back("bob=r");
    EXPECT_FALSE(AccessRules::parse(words).is_ok());
}

// Random rules over a few letters, so that prefixes overlap and are equal often.
TEST(AccessRules, cover_a_key_exactly_if_one_rule_of_the_name_covers_it) {
    Random random(7);
    const auto text = [&](uint64_t longest) {
        std::string made;
        for (uint64_t i = random.below(longest + 1); i > 0; --i) made += "ab/"[random.below(3)];
        return made;
    };
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::string> words, reads, writes;
        for (uint64_t i = 1 + random.below(5); i > 0; --i) {
            const std::string prefix = text(3), rights = std::vector{"r", "w", "rw"}[random.below(3)];
            const bool is_hers = random.chance(2);
            words.push_back(fmt::format("{}={}:{}", is_hers ? "alice" : "bob", rights, prefix));
            if (is_hers && rights != "w") reads.push_back(prefix);
            if (is_hers && rights != "r") writes.push_back(prefix);
        }
        const AccessRules rules = rules_of(words);
        const ClientRights& alice = rules.of("alice");
        const auto covers = [](const std::vector<std::string>& prefixes, const std::string& key) {
            return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& prefix) {
                return key.compare(0, prefix.size(), prefix) == 0 && key.size() >= prefix.size();
            });
        };
        for (int i = 0; i < 20; ++i) {
            const std::string key = text(5);
            EXPECT_EQ(alice.may_read(key), covers(reads, key)) << key;
            EXPECT_EQ(alice.may_write(key), covers(writes, key)) << key;
            // Every key with a prefix that may be scanned may be read.
            EXPECT_TRUE(!alice.may_scan(key) || alice.may_read(key + text(2))) << key;
        }
        EXPECT_EQ(alice.reads_all(), covers(reads, ""));
        EXPECT_EQ(alice.writes_all(), covers(writes, ""));
    }
}

}  // namespace
}  // namespace wss::kv
