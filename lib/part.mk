# SPDX-License-Identifier: Apache-2.0
# Flags of each MODE, the compile rule of every C++ file, and libwss.a.
CXX ?= g++
CCACHE := $(shell command -v ccache 2>/dev/null)
OPT_release := -O2 -g1
OPT_debug := -O0 -g
# Mode asan omits the checks before each pointer access, which double the compile time. Mode ubsan (part of
# check-all) and the fuzzers, which are built with clang, have these checks.
OPT_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
OPT_ubsan := -O1 -g1 -fsanitize=undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g1 -fsanitize=thread
OPT := $(OPT_$(MODE))
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
CXXFLAGS += -std=c++20 $(OPT) $(WARNINGS) -fPIC -pthread -I. -DSPDLOG_FMT_EXTERNAL -DSPDLOG_NO_EXCEPTIONS -D_FILE_OFFSET_BITS=64
LDFLAGS += $(OPT) -pthread
# --as-needed links a program only with the libraries that it calls: kvctl without libaio, libwss.so without RocksDB.
LDLIBS += -Wl,--as-needed -libverbs -lrdmacm -laio -luring -lspdlog -lfmt -lxxhash -lssl -lcrypto -lrocksdb -ldl

LIB_SOURCES := $(sort $(shell find lib -name '*.cc' -not -path 'lib/initiator/nbdkit/*' -not -path 'lib/io/rbd/plugin/*'))
LIB_OBJECTS := $(LIB_SOURCES:%.cc=$(BUILD)/%.o)

# Foreign headers take a quarter of the compile time of sanitizer modes, so they are precompiled. Release mode does not precompile,
# so a file with a missing #include fails there.
ifneq ($(filter asan ubsan tsan,$(MODE)),)
PRECOMPILED = $(BUILD)/$(PRECOMPILED_IN)/precompiled.h
PRECOMPILED_IN = lib
CXXFLAGS_PRECOMPILED = -Winvalid-pch -fpch-preprocess -include $(PRECOMPILED)
export CCACHE_SLOPPINESS := pch_defines,time_macros

$(BUILD)/%.h.gch: %.h
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -x c++-header -c $< -o $@
-include $(BUILD)/lib/precompiled.h.d $(BUILD)/tests/precompiled.h.d
endif

.SECONDEXPANSION:
$(BUILD)/%.o: %.cc $$(addsuffix .gch,$$(PRECOMPILED))
	@mkdir -p $(@D)
	@echo "  CXX     $<"
	$(Q)$(CCACHE) $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(CXXFLAGS_EXTRA) $(CXXFLAGS_PRECOMPILED) -MMD -MP -c $< -o $@

$(BUILD)/libwss.a: $(LIB_OBJECTS)
	@echo "  AR      $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

# The user-level initiator as an nbdkit plugin, for programs that use NBD (network block device).
NBDKIT_PLUGIN := $(BUILD)/nbdkit-wss-plugin.so
NBDKIT_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard lib/initiator/nbdkit/*.cc))
$(NBDKIT_PLUGIN): $(NBDKIT_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ $(LDLIBS)

# The backend of RBD images, loaded when a volume rbd:POOL/IMAGE is opened, so that programs do not link librbd. It contains its
# own, hidden copy of the code that it shares with programs.
RBD_PLUGIN := $(BUILD)/wss-rbd.so
# Refuse undefined symbols. Sanitizer modes cannot: the program defines the symbols of the sanitizers.
DEFINED_release := -Wl,-z,defs
DEFINED_debug := -Wl,-z,defs
RBD_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard lib/io/rbd/plugin/*.cc))
$(RBD_PLUGIN): $(RBD_OBJECTS) $(BUILD)/libwss.a lib/io/rbd/plugin/exports.map
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared $(DEFINED_$(MODE)) -Wl,--version-script=lib/io/rbd/plugin/exports.map -o $@ \
		$(RBD_OBJECTS) $(BUILD)/libwss.a -lrbd -lrados $(LDLIBS)

-include $(LIB_OBJECTS:.o=.d) $(RBD_OBJECTS:.o=.d) $(NBDKIT_OBJECTS:.o=.d)

-include lib/initiator/part.mk
