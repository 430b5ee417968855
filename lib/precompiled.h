// SPDX-License-Identifier: Apache-2.0
// The precompiled header of builds with sanitizers, included before every file (lib/part.mk): headers of
// other projects that many files include. Each file nevertheless includes what it uses, because builds
// without sanitizers need that. It has an include guard because GCC rejects "#pragma once" in a precompiled
// header.
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
