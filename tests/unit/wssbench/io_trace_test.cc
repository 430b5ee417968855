// SPDX-License-Identifier: Apache-2.0
// Traces of `wssbench replay` stay within the measured storage.
#include "tools/wssbench/io_trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace wss::wssbench {
namespace {

constexpr uint32_t kPage = 4096;

void expect_within(const IoTrace& trace, uint64_t span) {
    for (const Access& access : trace.accesses) {
        ASSERT_LE(access.length, span);
        ASSERT_LE(access.offset, span - access.length);
    }
}

TEST(IoTrace, of_a_file_stays_within_the_storage_or_is_refused) {
    char path[] = "/tmp/wss-trace-XXXXXX";
    ::close(mkstemp(path));
    std::ofstream(path) << "R 0 0 4096\nW 1 1048576 65536\n";
    for (const uint64_t span : {65536, 66048, 1 << 20}) {
        const auto trace = read_io_trace(path, span);
        ASSERT_TRUE(trace) << trace.status().to_string();
        expect_within(*trace, span);
    }
    for (const uint64_t span : {65024, 4096, 512}) EXPECT_FALSE(read_io_trace(path, span)) << span;
    ::unlink(path);
}

TEST(IoTrace, that_is_generated_stays_within_the_storage_or_is_refused) {
    const auto trace = make_q3_trace(kPage, 64 * kPage, 1000, 1);
    ASSERT_TRUE(trace) << trace.status().to_string();
    expect_within(*trace, 64 * kPage);
    EXPECT_FALSE(make_q3_trace(kPage, 64 * kPage - 1, 1000, 1));
    EXPECT_FALSE(make_q3_trace(kPage, 0, 1000, 1));
}

}  // namespace
}  // namespace wss::wssbench
