# SPDX-License-Identifier: Apache-2.0
# Tests of the plug-in for Ceph images, against librbd and librados in memory: the real ones are not linked.
RBD_TESTS := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard tests/rbd/*.cc)))

$(BUILD)/rbd_tests: $(RBD_TESTS) $(RBD_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lgtest_main -lgtest $(LDLIBS)

-include $(RBD_TESTS:.o=.d)
