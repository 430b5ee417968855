# SPDX-License-Identifier: Apache-2.0
# The deterministic simulation: tests of a few seeds, and a program for one seed or many.
SIM_LIB := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard tests/sim/checkers/*.cc tests/sim/scenarios/*.cc)))
# The tests use the raw initiator of the unit tests.
SIM_TESTS := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard tests/sim/tests/*.cc)) tests/unit/target/world.cc)
SCENARIO ?= block
SEED ?= 1
SEEDS ?= 1000
FIRST_SEED ?= 1

$(BUILD)/sim_tests: $(SIM_TESTS) $(SIM_LIB) $(BUILD)/libtarget.a $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(LDLIBS)

$(BUILD)/wss-sim: $(BUILD)/tests/sim/main.o $(BUILD)/tests/sim/soak.o $(SIM_LIB) $(BUILD)/libtarget.a $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)

.PHONY: sim sim-soak sim-cache sim-cache-soak
sim: $(BUILD)/wss-sim ## one deterministic simulation, replayed exactly (SCENARIO=block|cache|kv|storage SEED=n; WSS_LOG=info: print the target's log)
	@$(BUILD)/wss-sim $(SCENARIO) $(SEED)

sim-soak: $(BUILD)/wss-sim ## many seeds (SCENARIO=…, SEEDS=n, FIRST_SEED=n)
	@$(BUILD)/wss-sim $(SCENARIO) $(FIRST_SEED) $(SEEDS)

sim-cache: $(BUILD)/wss-sim ## the simulation of the cache cluster (SEED=n)
	@$(BUILD)/wss-sim cache $(SEED)

sim-cache-soak: $(BUILD)/wss-sim ## many seeds of the cache cluster (SEEDS=n, FIRST_SEED=n)
	@$(BUILD)/wss-sim cache $(FIRST_SEED) $(SEEDS)

-include $(SIM_LIB:.o=.d) $(SIM_TESTS:.o=.d) $(BUILD)/tests/sim/main.d $(BUILD)/tests/sim/soak.d
