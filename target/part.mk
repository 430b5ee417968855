# SPDX-License-Identifier: Apache-2.0
# libtarget.a holds everything but the mains, so that tests link what ships; a main is target/<program>_main.cc.
TARGET_MAINS := $(wildcard target/*_main.cc)
TARGET_SOURCES := $(filter-out $(TARGET_MAINS),$(sort $(shell find target -name '*.cc')))
TARGET_OBJECTS := $(TARGET_SOURCES:%.cc=$(BUILD)/%.o)

# What a program that links libtarget.a may need beside LDLIBS.
TARGET_LIBS := -lprometheus-cpp-pull -lprometheus-cpp-core -lsystemd

$(BUILD)/libtarget.a: $(TARGET_OBJECTS)
	@echo "  AR      $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/wss-target: $(BUILD)/target/wss_target_main.o $(BUILD)/libtarget.a $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TARGET_LIBS) $(LDLIBS)

$(BUILD)/wss-cache: $(BUILD)/target/wss_cache_main.o $(BUILD)/libtarget.a $(BUILD)/libwss.a
	@echo "  LD      $@"
	$(Q)$(CXX) $(LDFLAGS) -o $@ $^ $(TARGET_LIBS) $(LDLIBS)

-include $(TARGET_OBJECTS:.o=.d) $(TARGET_MAINS:%.cc=$(BUILD)/%.d)
