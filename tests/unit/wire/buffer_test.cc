// SPDX-License-Identifier: Apache-2.0
#include "lib/wire/buffer.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace wss::wire {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const KvBuffer& buffer) {
    return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

TEST(KvBuffer, has_written_data_in_the_lent_memory) {
    std::array<std::byte, 16> lent{};
    KvBuffer buffer;
    buffer.lend(lent);
    buffer.append(bytes_of("in place"));
    EXPECT_EQ(buffer.data(), lent.data());
    EXPECT_TRUE(buffer.is_lent());
    buffer.clear();
    EXPECT_FALSE(buffer.is_lent());
    buffer.append(bytes_of("elsewhere"));
    EXPECT_NE(buffer.data(), lent.data());
    EXPECT_EQ(text_of(buffer), "elsewhere");
}

TEST(KvBuffer, moves_data_that_outgrows_the_lent_memory_completely) {
    std::array<std::byte, 16> lent{};
    KvBuffer buffer;
    std::string all;
    for (int round = 0; round < 3; ++round) {
        buffer.clear();
        all.clear();
        buffer.lend(lent);
        for (int i = 0; i < 100; ++i) {
            buffer.append(bytes_of("piece " + std::to_string(i)));
            all += "piece " + std::to_string(i);
        }
        EXPECT_FALSE(buffer.is_lent());
        EXPECT_EQ(text_of(buffer), all);
    }
}

TEST(KvBuffer, can_abandon_lent_memory_at_any_time) {
    std::array<std::byte, 16> lent{};
    KvBuffer buffer;
    buffer.append(bytes_of(std::string(100, 'x')));  // the buffer has memory of its own
    buffer.clear();
    buffer.lend(lent);
    buffer.append(bytes_of("stays"));
    buffer.leave_lent();
    lent.fill(std::byte{0});
    EXPECT_EQ(text_of(buffer), "stays");
    EXPECT_FALSE(buffer.is_lent());
}

TEST(KvBuffer, keeps_its_memory_up_to_the_given_limit) {
    KvBuffer buffer;
    buffer.append(bytes_of(std::string(5000, 'x')));
    const std::byte* own = buffer.data();
    buffer.clear(10'000);
    buffer.append(bytes_of("short"));
    EXPECT_EQ(buffer.data(), own);
    buffer.clear(100);
    EXPECT_TRUE(buffer.empty());
    buffer.append(bytes_of("short"));
    EXPECT_EQ(text_of(buffer), "short");
}

}  // namespace
}  // namespace wss::wire
