# SPDX-License-Identifier: Apache-2.0
# A random operator and random faults act on the real programs at the same time.
CHAOS_LOAD_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(filter-out %_test.cc,$(sort $(wildcard tests/chaos/block/load/*.cc))))

$(BUILD)/wss-chaos-load: $(CHAOS_LOAD_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(CHAOS_LOAD_OBJECTS:.o=.d)

# Wrong results are detected by the ledgers, so the ledgers' own tests run before each chaos run.
CHAOS_TESTED := ledger history
CHAOS_TEST_OBJECTS := $(foreach name,$(CHAOS_TESTED),$(BUILD)/tests/chaos/block/load/$(name).o $(BUILD)/tests/chaos/block/load/$(name)_test.o)
$(BUILD)/chaos_tests: $(CHAOS_TEST_OBJECTS)
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) -lfmt
-include $(CHAOS_TEST_OBJECTS:.o=.d)

# Passes the value of a variable only if the user has set it, because its default may be for another target.
given = $(if $(filter command% environment%,$(origin $(1))),$($(1)))
chaos_option = $(if $(call given,$(1)),--$(2) $($(1)))

.PHONY: chaos chaos-programs chaos-run
chaos: ## a random operator and random faults, under AddressSanitizer (MODE=m SECONDS=n SEED=s SEEDS=n ONLY=block|ceph|ceph-soak|kv REPLAY=file RESUME=file JSON=file)
	@$(MAKE) --no-print-directory MODE=$(or $(call given,MODE),asan) chaos-run

chaos-programs: $(BUILD)/wss-target $(BUILD)/wss-cache $(BUILD)/wss-attack $(BUILD)/wss-chaos-load $(BUILD)/kvctl $(BUILD)/chaos_tests $(RBD_PLUGIN)

chaos-run: chaos-programs
	@$(BUILD)/chaos_tests --gtest_brief=1
	@/usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/chaos
	@/usr/bin/python3 -B -m tests.chaos --build $(BUILD) $(call chaos_option,SECONDS,seconds) $(call chaos_option,SEED,seed) \
		$(call chaos_option,SEEDS,seeds) $(call chaos_option,ONLY,only) $(call chaos_option,REPLAY,replay) $(call chaos_option,WITHOUT,without) \
		$(call chaos_option,RESUME,resume) $(call chaos_option,JSON,json)

.PHONY: chaos-mutations chaos-mutations-run
chaos-mutations: ## check that chaos catches known bugs in a copy of the tree (MODE=m SECONDS=n SEED=s ONLY=mutation)
	@$(MAKE) --no-print-directory MODE=$(or $(call given,MODE),asan) chaos-mutations-run

chaos-mutations-run: chaos-programs
	@/usr/bin/python3 -B -m tests.chaos.mutations --mode $(MODE) --jobs $(JOBS) $(call chaos_option,SECONDS,seconds) $(call chaos_option,SEED,seed) $(ONLY)
