// SPDX-License-Identifier: Apache-2.0
// What builds with sanitizers compile once and put before every file (lib/part.mk): the headers of others
// that many files include. Each file names what it uses nevertheless: builds without sanitizers need it.
// Guarded like this since GCC refuses "#pragma once" in what it precompiles.
#ifndef WSS_LIB_PRECOMPILED_H
#define WSS_LIB_PRECOMPILED_H

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#endif
