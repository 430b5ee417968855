# SPDX-License-Identifier: Apache-2.0
# libwss.so: the C API of lib/initiator/wss.h for programs that link at run time.
$(BUILD)/libwss.so: $(BUILD)/libwss.a lib/initiator/libwss.map
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -shared -Wl,-soname,libwss.so.0 -Wl,--version-script=lib/initiator/libwss.map \
		-o $@ -Wl,--whole-archive $(BUILD)/libwss.a -Wl,--no-whole-archive $(LDLIBS)
