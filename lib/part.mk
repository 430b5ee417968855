# SPDX-License-Identifier: Apache-2.0
# Flags of each MODE, the compile rule of every C++ file, and libwss.a.
CXX ?= g++
CCACHE := $(shell command -v ccache 2>/dev/null)
OPT_release := -O2 -g1
OPT_debug := -O0 -g
# Without the checks before each use of a pointer, which double the time to compile: mode ubsan, of check-all, has them, and the
# fuzzers, which clang builds.
OPT_asan := -O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,alignment,object-size,vptr -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
OPT_ubsan := -O1 -g1 -fsanitize=undefined -fno-sanitize-recover=all
OPT_tsan := -O1 -g1 -fsanitize=thread
OPT := $(OPT_$(MODE))
WARNINGS := -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
CXXFLAGS += -std=c++20 $(OPT) $(WARNINGS) -fPIC -pthread -I. -DSPDLOG_FMT_EXTERNAL -DSPDLOG_NO_EXCEPTIONS -D_FILE_OFFSET_BITS=64
LDFLAGS += $(OPT) -pthread
# A program needs the libraries that it calls and no others: kvctl no libaio, libwss.so no RocksDB.
LDLIBS += -Wl,--as-needed -libverbs -lrdmacm -laio -luring -lspdlog -lfmt -lxxhash -lssl -lcrypto -lrocksdb -ldl

LIB_SOURCES := $(sort $(shell find lib -name '*.cc' -not -path 'lib/initiator/nbdkit/*' -not -path 'lib/io/rbd/plugin/*'))
LIB_OBJECTS := $(LIB_SOURCES:%.cc=$(BUILD)/%.o)

# A quarter of the time that sanitizers take to compile goes into the headers of others: they are compiled once. Release has none
# of this, so a file that does not include what it uses fails there.
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

# The user-level initiator behind nbdkit: everything that speaks network block device reaches a volume with it.
NBDKIT_PLUGIN := $(BUILD)/nbdkit-wss-plugin.so
NBDKIT_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard lib/initiator/nbdkit/*.cc))
$(NBDKIT_PLUGIN): $(NBDKIT_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared -o $@ $^ $(LDLIBS)

# The backend of RBD images, loaded when a volume rbd:POOL/IMAGE is opened: programs do not link librbd. What it has in
# common with them it brings along, hidden.
RBD_PLUGIN := $(BUILD)/wss-rbd.so
# All that it uses is there. Sanitizers leave theirs to the program.
DEFINED_release := -Wl,-z,defs
DEFINED_debug := -Wl,-z,defs
RBD_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(wildcard lib/io/rbd/plugin/*.cc))
$(RBD_PLUGIN): $(RBD_OBJECTS) $(BUILD)/libwss.a lib/io/rbd/plugin/exports.map
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared $(DEFINED_$(MODE)) -Wl,--version-script=lib/io/rbd/plugin/exports.map -o $@ \
		$(RBD_OBJECTS) $(BUILD)/libwss.a -lrbd -lrados $(LDLIBS)

-include $(LIB_OBJECTS:.o=.d) $(RBD_OBJECTS:.o=.d) $(NBDKIT_OBJECTS:.o=.d)

-include lib/initiator/part.mk
