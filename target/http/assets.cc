// SPDX-License-Identifier: Apache-2.0
#include "target/http/assets.h"

#include <array>

// The compiler is run in the top folder of the tree (target/part.mk names the files as needed for this one).
#define WSS_EMBED(name, file)                                                  \
    asm(".pushsection .rodata\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
        "_end:\n.byte 0\n.popsection\n");                                      \
    extern const char name##_begin[] asm(#name "_begin");                      \
    extern const char name##_end[] asm(#name "_end")

WSS_EMBED(wss_openapi, "Documentation/api/openapi.json");

namespace wss::http {

static std::string_view between(const char* begin, const char* end) {
    return {begin, static_cast<size_t>(end - begin)};
}

std::span<const Asset> assets() {
    static const std::array kAssets{
        Asset{"/api/v1/openapi.json", "application/json", between(wss_openapi_begin, wss_openapi_end)},
    };
    return kAssets;
}

}  // namespace wss::http
