// SPDX-License-Identifier: Apache-2.0
#include "lib/base/clock.h"

#include <sys/random.h>
#include <time.h>

#include <bit>

#include "lib/base/assert.h"

namespace wss {

Nanoseconds SystemClock::now() noexcept {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return {int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec};
}

// splitmix64 expands a small seed to the generator's 256 bits, as its authors recommend.
static uint64_t splitmix(uint64_t& state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

Random::Random(uint64_t seed) noexcept {
    for (uint64_t& word : state_) word = splitmix(seed);
}

uint64_t Random::entropy() noexcept {
    uint64_t seed = 0;
    ssize_t got = getrandom(&seed, sizeof seed, 0);
    WSS_ASSERT(got == sizeof seed, "getrandom of 8 bytes cannot be short after boot");
    return seed;
}

uint64_t Random::next() noexcept {
    uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
}

uint64_t Random::below(uint64_t bound) noexcept {
    if (bound == 0) return 0;
    // Lemire's multiply-shift. The rejection keeps the result unbiased.
    uint64_t threshold = -bound % bound;
    for (;;) {
        unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
        if (static_cast<uint64_t>(product) >= threshold) return static_cast<uint64_t>(product >> 64);
    }
}

}  // namespace wss
