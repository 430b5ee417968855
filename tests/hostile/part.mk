# SPDX-License-Identifier: Apache-2.0
# Hostile peers against running programs. Use `make MODE=asan check-hostile`, so that sanitizers detect errors.
HOSTILE_OBJECTS := $(patsubst %.cc,$(BUILD)/%.o,$(sort $(wildcard tests/hostile/*.cc)))
ATTACK_SECONDS ?= 30

$(BUILD)/wss-attack: $(HOSTILE_OBJECTS) $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(LDLIBS)
-include $(HOSTILE_OBJECTS:.o=.d)

.PHONY: check-hostile
check-hostile: $(addprefix $(BUILD)/,wss-target wss-cache wssctl kvctl wss-attack nbdkit-wss-plugin.so) ## hostile initiators, targets, engines and HTTP clients against running programs (MODE=asan)
	$(MAKE) --no-print-directory MODE=release build/release/nbdkit-wss-plugin.so
	WSS_BUILD=build/release WSS_HOSTILE_BUILD=$(abspath $(BUILD)) WSS_ATTACK_SECONDS=$(ATTACK_SECONDS) \
		/usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/hostile
