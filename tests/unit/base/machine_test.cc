// SPDX-License-Identifier: Apache-2.0
#include "lib/base/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace wss {
namespace {

// A processor that this process may use. Not all machines allow number 0.
int some_cpu() {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    EXPECT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
    int cpu = 0;
    while (!CPU_ISSET(static_cast<size_t>(cpu), &cpus)) ++cpu;
    return cpu;
}

TEST(Cpus, are_parsed_from_numbers_and_ranges) {
    const std::string one = std::to_string(some_cpu());
    EXPECT_EQ(*parse_cpus(one), std::vector<int>{some_cpu()});
    EXPECT_EQ(*parse_cpus(one + "-" + one), std::vector<int>{some_cpu()});
}

TEST(Cpus, of_an_invalid_list_are_refused_with_an_example) {
    for (const char* text : {"", ",", "a", "0,", "-1", "1-0", "0-", "0 1", "99999999999999", "0x1"}) {
        auto cpus = parse_cpus(text);
        ASSERT_FALSE(cpus) << text;
        EXPECT_EQ(cpus.status().code(), Code::kInvalid);
    }
    EXPECT_NE(parse_cpus("many").status().text().find("2,4-7"), std::string::npos);
}

TEST(Cpus, that_are_missing_or_repeated_are_refused) {
    EXPECT_NE(parse_cpus("1000000").status().text().find("processor 1000000"), std::string::npos);
    const std::string one = std::to_string(some_cpu());
    EXPECT_NE(parse_cpus(one + "," + one).status().text().find("twice"), std::string::npos);
    // A range up to the largest integer ends at the first processor that does not exist.
    EXPECT_FALSE(parse_cpus(one + "-2147483647"));
}

TEST(Cpus, run_a_pinned_thread_on_its_processor_only) {
    std::vector<int> allowed;
    std::thread thread([&] {
        ASSERT_TRUE(pin_thread(pthread_self(), some_cpu()));
        cpu_set_t cpus;
        ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus), 0);
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
            if (CPU_ISSET(static_cast<size_t>(cpu), &cpus)) allowed.push_back(cpu);
    });
    thread.join();
    EXPECT_EQ(allowed, std::vector<int>{some_cpu()});
}

}  // namespace
}  // namespace wss
