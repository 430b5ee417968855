# SPDX-License-Identifier: Apache-2.0
# One program per folder of tools/, one sub-command per file.
TOOL_SOURCES := $(sort $(shell find tools -name '*.cc'))

define tool
$(BUILD)/$(1): $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tools/$(1)/*.cc)) $(BUILD)/libwss.a
	@echo "  LD      $$@"
	$$(Q)$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS)
endef
TOOLS := $(notdir $(patsubst %/,%,$(sort $(dir $(TOOL_SOURCES)))))
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

.PHONY: programs
programs: $(BUILD)/wss-target $(addprefix $(BUILD)/,$(TOOLS)) $(NBDKIT_PLUGIN)

-include $(TOOL_SOURCES:%.cc=$(BUILD)/%.d)
