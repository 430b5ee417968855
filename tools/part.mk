# SPDX-License-Identifier: Apache-2.0
# Builds one program for each directory of tools/ with C++ sources, except ycsb, which is a library.
TOOL_SOURCES := $(sort $(shell find tools -name '*.cc'))

# Workloads of the key-value store, for kvctl and the tests.
YCSB := $(BUILD)/libycsb.a
$(YCSB): $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tools/ycsb/*.cc))
	@echo "  AR      $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

# wssbench without its main function, for the tests of figures and reports.
WSSBENCH := $(BUILD)/libwssbench.a
$(WSSBENCH): $(patsubst %.cc,$(BUILD)/%.o,$(filter-out %/main.cc,$(wildcard tools/wssbench/*.cc)))
	@echo "  AR      $@"
	@rm -f $@
	$(Q)ar rcs $@ $^

$(BUILD)/tools/wssbench/report.o: $(wildcard tools/wssbench/page/*)

# Line editing of kvctl's shell.
LDLIBS_kvctl := -ledit

define tool
$(BUILD)/$(1): $(patsubst %.cc,$(BUILD)/%.o,$(wildcard tools/$(1)/*.cc)) $$(LIBS_$(1)) $(BUILD)/libwss.a
	@echo "  LD      $$@"
	$$(Q)$$(CXX) $$(LDFLAGS) -o $$@ $$^ $$(LDLIBS) $$(LDLIBS_$(1))
endef
LIBS_kvctl := $(YCSB)
# provides the text format of Prometheus (wssctl metrics)
LIBS_wssctl := $(BUILD)/libtarget.a
LDLIBS_wssctl := -lprometheus-cpp-core
TOOLS := $(filter-out ycsb,$(notdir $(patsubst %/,%,$(sort $(dir $(TOOL_SOURCES))))))
$(foreach t,$(TOOLS),$(eval $(call tool,$(t))))

.PHONY: programs
programs: $(BUILD)/wss-target $(BUILD)/wss-cache $(addprefix $(BUILD)/,$(TOOLS)) $(NBDKIT_PLUGIN) $(BUILD)/libwss.so $(RBD_PLUGIN)

# make install DESTDIR=... PREFIX=/usr/local. The module is installed by `make modules-install`, because that
# needs the matching kernel.
PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
VERSION := $(shell sed -n 's/^\#define WSS_VERSION "\(.*\)"$$/\1/p' kernel/uapi/wss_version.h)
NBDKIT_PLUGIN_DIR ?= $(shell pkg-config --variable=plugindir nbdkit 2>/dev/null || echo $(LIBDIR)/nbdkit/plugins)
UDEV_RULES_DIR ?= /lib/udev/rules.d
# bash-completion loads the file with a program's name at the first completion for that program.
BASH_COMPLETIONS ?= $(PREFIX)/share/bash-completion/completions
install: programs ## install programs, library, header, nbdkit plugin, udev rule, completion, dashboards and alerts (PREFIX=, DESTDIR=)
	install -D -t $(DESTDIR)$(PREFIX)/bin $(addprefix $(BUILD)/,$(TOOLS)) $(BUILD)/wss-target $(BUILD)/wss-cache
	install -D -m 644 $(BUILD)/libwss.so $(DESTDIR)$(LIBDIR)/libwss.so.0
	ln -sf libwss.so.0 $(DESTDIR)$(LIBDIR)/libwss.so
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include lib/initiator/wss.h lib/kv/client/wss_kv.h
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' tools/packaging/wss.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/wss.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/wss $(RBD_PLUGIN)
	install -D -m 644 -t $(DESTDIR)$(NBDKIT_PLUGIN_DIR) $(NBDKIT_PLUGIN)
	install -D -m 644 -t $(DESTDIR)$(UDEV_RULES_DIR) tools/udev/60-wss.rules
	install -d $(DESTDIR)$(BASH_COMPLETIONS)
	set -e; for p in $(TOOLS) wss-target wss-cache; do install -m 644 tools/completion/wss.bash $(DESTDIR)$(BASH_COMPLETIONS)/$$p; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/wss/monitoring tools/monitoring/alerts.yaml
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/wss/monitoring/dashboards tools/monitoring/dashboards/*.json
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/wss README.md Documentation/*.md Documentation/examples/*.toml
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/wss/ycsb Documentation/examples/ycsb/*
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/wss/kv Documentation/examples/kv/*

-include tools/packaging/part.mk

-include $(TOOL_SOURCES:%.cc=$(BUILD)/%.d)
