# SPDX-License-Identifier: Apache-2.0
# The key-value store, built with the switches of lib/kv/mutation.h, to check that tests catch a wrong store.
MUTATED := $(BUILD)/mutated
MUTATED_OBJECTS := $(patsubst %.cc,$(MUTATED)/%.o,$(wildcard lib/kv/*.cc lib/kv/*/*.cc lib/base/*.cc tests/mutation/*.cc \
	tests/sim/scenarios/kv*.cc))

$(MUTATED)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX     $< (mutated)"
	$(Q)$(CCACHE) $(CXX) $(CXXFLAGS) -DWSS_KV_MUTATIONS -MMD -MP -c $< -o $@

# The library provides the files without switches.
$(BUILD)/mutation_tests: $(MUTATED_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TEST_LIBS) $(LDLIBS)

.PHONY: mutations
mutations: $(BUILD)/mutation_tests ## check that the tests catch known bugs in a separate build
	$(BUILD)/mutation_tests --gtest_brief=1
-include $(MUTATED_OBJECTS:.o=.d)
