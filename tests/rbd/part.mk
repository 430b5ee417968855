# SPDX-License-Identifier: Apache-2.0
# The plug-in of Ceph images against librbd and librados in memory: it links neither.
RBD_TESTS := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard tests/rbd/*.cc)))

$(BUILD)/rbd_tests: $(RBD_TESTS) $(RBD_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ -lgtest_main -lgtest $(LDLIBS)

-include $(RBD_TESTS:.o=.d)
