# SPDX-License-Identifier: Apache-2.0
# A random operator beside random faults, on the real programs. CHAOS_MODE picks the build of the programs under test.
CHAOS_LOAD_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(filter-out %_test.cc,$(sort $(wildcard tests/chaos/block/load/*.cc))))

$(BUILD)/wss-chaos-load: $(CHAOS_LOAD_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(CHAOS_LOAD_OBJECTS:.o=.d)

# The ledger decides what is a wrong byte: its own tests run before each chaos run.
$(BUILD)/chaos_tests: $(BUILD)/tests/chaos/block/load/ledger.o $(BUILD)/tests/chaos/block/load/ledger_test.o
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) -lfmt
-include $(BUILD)/tests/chaos/block/load/ledger_test.d

.PHONY: chaos
chaos: $(BUILD)/wss-target $(BUILD)/wss-cache $(BUILD)/wss-attack $(BUILD)/wss-chaos-load $(BUILD)/chaos_tests $(RBD_PLUGIN) ## a random operator beside random faults (MODE=asan SECONDS=n SEED=s ONLY=block|ceph|ceph-soak REPLAY=file RESUME=file JSON=file)
	@$(BUILD)/chaos_tests --gtest_brief=1
	@/usr/bin/python3 -B -m tests.chaos --build $(BUILD) $(if $(filter command% environment%,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(REPLAY),--replay $(REPLAY)) $(if $(WITHOUT),--without $(WITHOUT)) $(if $(RESUME),--resume $(RESUME)) $(if $(JSON),--json $(JSON))
