# SPDX-License-Identifier: Apache-2.0
# libtarget.a holds everything but the main functions (target/<program>_main.cc), so that tests link the code
# that is shipped.
TARGET_MAINS := $(wildcard target/*_main.cc)
TARGET_SOURCES := $(filter-out $(TARGET_MAINS),$(sort $(shell find target -name '*.cc')))
TARGET_OBJECTS := $(TARGET_SOURCES:%.cc=$(BUILD)/%.o)

# The flags with which cpp-httplib was built, because its class layout depends on them.
HTTPLIB_CFLAGS := $(shell pkg-config --cflags cpp-httplib 2>/dev/null)
HTTPLIB_LIBS := $(shell pkg-config --libs cpp-httplib 2>/dev/null || echo -lcpp-httplib)
$(BUILD)/target/http/assets.o: Documentation/api/openapi.json Documentation/licenses/uPlot.txt $(wildcard target/http/page/*.* target/http/page/uplot/*)
$(BUILD)/target/http/conversation.o: CXXFLAGS_EXTRA += $(HTTPLIB_CFLAGS)

# Libraries that a program with libtarget.a may need in addition to LDLIBS.
TARGET_LIBS := -lprometheus-cpp-core -lsystemd $(HTTPLIB_LIBS)

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
