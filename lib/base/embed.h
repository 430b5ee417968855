// SPDX-License-Identifier: Apache-2.0
// Embeds a file of the source tree in a program. Paths are relative to the top directory, where the compiler
// runs. The makefiles list the files as prerequisites.
#pragma once

#include <string_view>

// Use this once for each name, outside all namespaces.
#define WSS_EMBED(name, file)                                                  \
    asm(".pushsection .rodata\n" #name "_begin:\n.incbin \"" file "\"\n" #name \
        "_end:\n.byte 0\n.popsection\n");                                      \
    extern const char name##_begin[] asm(#name "_begin");                      \
    extern const char name##_end[] asm(#name "_end")

// The contents of the file.
#define WSS_EMBEDDED(name)                                           \
    std::string_view {                                               \
        name##_begin, static_cast<size_t>(name##_end - name##_begin) \
    }
