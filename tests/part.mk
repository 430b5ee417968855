# SPDX-License-Identifier: Apache-2.0
# Test programs: one GoogleTest program for each kind, built from all files below tests/<kind>/.
TEST_KINDS := unit conformance
TEST_LIBS := -lrapidcheck -lgtest_main -lgmock -lgtest

define test_kind
$(1)_OBJECTS := $$(patsubst %.cc,$$(BUILD)/%.o,$$(sort $$(shell find tests/$(1) -name '*.cc' 2>/dev/null)))
$$(BUILD)/$(1)_tests: $$($(1)_OBJECTS) $$(YCSB) $$(WSSBENCH) $$(BUILD)/libtarget.a $$(BUILD)/libwss.a
	@echo "  LD      $$@"
	$$(Q)$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(TEST_LIBS) $$(TARGET_LIBS) $$(LDLIBS)
-include $$($(1)_OBJECTS:.o=.d)
endef
$(foreach k,$(TEST_KINDS),$(eval $(call test_kind,$(k))))

# The modes release, asan and tsan optimize the tested code but not the tests, because that would double the
# compile time.
UNOPTIMIZED := $(foreach m,release asan tsan,$(patsubst %,build/$(m)/tests/%/%.o,$(TEST_KINDS) rbd) build/$(m)/tests/precompiled.h.gch)
$(UNOPTIMIZED): private CXXFLAGS += -O0
$(UNOPTIMIZED): PRECOMPILED_IN = tests

# Fuzzers: one libFuzzer program per file of tests/fuzz, built by clang with sanitizers in its own directory.
FUZZERS := $(patsubst tests/fuzz/%.cc,%,$(wildcard tests/fuzz/*_fuzz.cc))

.PHONY: unit
unit: $(BUILD)/unit_tests ## build and run the unit tests (FILTER=pattern)
	$(BUILD)/unit_tests --gtest_brief=1 $(if $(FILTER),--gtest_filter='$(FILTER)')

-include tests/lab/part.mk tests/native/part.mk tests/page/part.mk tests/rbd/part.mk tests/sim/part.mk tests/fuzz/part.mk tests/bench/part.mk tests/demo/part.mk tests/hardware/part.mk tests/hostile/part.mk tests/chaos/part.mk tests/mutation/part.mk

CXX_FILES := $(shell git ls-files -co --exclude-standard '*.cc' '*.h' | grep -v '^kernel/')

lint: ## check layers, sizes, licences and format
	@tests/lint/check
	@clang-format --dry-run -Werror $(CXX_FILES)

format: ## format the C++ files in place
	@clang-format -i $(CXX_FILES)

check: deps ## build and run all tests that CI runs (half an hour on two processors, once built)
	@tests/check

check-all: deps ## run all tests: check, long fuzzing, many simulation seeds, the comparison with peers, the demo
	@tests/check --all
