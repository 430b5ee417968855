# SPDX-License-Identifier: Apache-2.0
# Fuzzers: one libFuzzer program per tests/fuzz/NAME_fuzz.cc, built by clang with sanitizers below $(BUILD)/fuzz.
#
# To add one: write the file. Set NAME_fuzz_SOURCES to the sources that it needs. (Without this variable it
# gets all of lib/ and target/, which takes minutes to build.) Put seeds into tests/fuzz/corpus/NAME_fuzz.hex
# if the input has a structure.
FUZZ_CXX ?= clang++
FUZZ_BUILD := $(BUILD)/fuzz
SECONDS ?= 30
FUZZ_SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all
FUZZ_CXXFLAGS = -std=c++20 -O1 -g $(FUZZ_SANITIZE) -fno-omit-frame-pointer $(WARNINGS) -I. -pthread \
	-DSPDLOG_FMT_EXTERNAL -DSPDLOG_NO_EXCEPTIONS -D_FILE_OFFSET_BITS=64

iu_fuzz_SOURCES := $(wildcard lib/wire/*.cc lib/base/*.cc)
cdb_fuzz_SOURCES := $(wildcard lib/wire/*.cc target/scsi/*.cc lib/base/*.cc) target/volume/reservations.cc
config_fuzz_SOURCES := $(wildcard lib/base/*.cc) lib/io/filter/filter.cc lib/io/specification.cc lib/io/rbd/options.cc \
	lib/fabric/address.cc lib/fabric/tls/credentials.cc lib/cache/policy.cc lib/kv/service/access_rules.cc target/control/config.cc \
	$(wildcard target/volume/access*.cc target/volume/state_*.cc) target/volume/volume.cc target/volume/rate_limit.cc
kv_message_fuzz_SOURCES := lib/wire/kv.cc lib/kv/metadata.cc
tcp_frame_fuzz_SOURCES := $(wildcard lib/fabric/stream/*.cc) lib/fabric/fabric.cc lib/fabric/address.cc lib/fabric/sources.cc $(wildcard lib/base/*.cc)
cache_record_fuzz_SOURCES := $(wildcard lib/wire/*.cc lib/base/*.cc) lib/cache/header.cc lib/cache/geometry.cc
kv_slot_fuzz_SOURCES := lib/kv/store/slot_format.cc lib/kv/store/index_format.cc lib/kv/client/index_lookup.cc lib/kv/store/log.cc lib/base/status.cc

$(FUZZ_BUILD)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  FUZZCXX $<"
	$(Q)$(CCACHE) $(FUZZ_CXX) $(FUZZ_CXXFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

define fuzzer
$(1)_SOURCES ?= $$(LIB_SOURCES) $$(TARGET_SOURCES)
$(1)_OBJECTS := $$(patsubst %.cc,$$(FUZZ_BUILD)/%.o,tests/fuzz/$(1).cc $$($(1)_SOURCES))
$$(FUZZ_BUILD)/$(1): $$($(1)_OBJECTS)
	@echo "  FUZZLD  $$@"
	$$(Q)$$(FUZZ_CXX) $$(FUZZ_SANITIZE) -fsanitize=fuzzer -pthread -o $$@ $$^ $$(LDLIBS)
.PHONY: fuzz-$(1)
fuzz-$(1): $$(FUZZ_BUILD)/$(1)
	@mkdir -p $$(FUZZ_BUILD)/found/$(1) $$(FUZZ_BUILD)/seeds/$(1)
	$$(Q)if [ -f tests/fuzz/corpus/$(1).hex ]; then \
		/usr/bin/python3 tests/fuzz/make_corpus.py tests/fuzz/corpus/$(1).hex $$(FUZZ_BUILD)/seeds/$(1); fi
	@echo "  FUZZ    $(1), $$(SECONDS) s; a failing input is kept as $$(FUZZ_BUILD)/failed-$(1)-*"
	$$(Q)$$(FUZZ_BUILD)/$(1) -max_total_time=$$(SECONDS) -timeout=10 -max_len=4200 -verbosity=0 -print_final_stats=1 \
		-artifact_prefix=$$(FUZZ_BUILD)/failed-$(1)- $$(FUZZ_BUILD)/found/$(1) $$(FUZZ_BUILD)/seeds/$(1) \
		>$$(FUZZ_BUILD)/$(1).log 2>&1 || { tail -n 60 $$(FUZZ_BUILD)/$(1).log; exit 1; }
	@sed -n 's/^stat::number_of_executed_units: */  inputs tried: /p' $$(FUZZ_BUILD)/$(1).log
-include $$($(1)_OBJECTS:.o=.d)
endef
$(foreach f,$(FUZZERS),$(eval $(call fuzzer,$(f))))

.PHONY: fuzz fuzz-build
fuzz: $(FUZZERS:%=fuzz-%) ## run every fuzzer for SECONDS=30 each
fuzz-build: $(FUZZERS:%=$(FUZZ_BUILD)/%) ## build the fuzzers
