# SPDX-License-Identifier: Apache-2.0
# The kernel module. Kbuild writes next to the sources, so it gets a directory with links to them.
#   KDIR=...       kernel to build against (newest of /lib/modules/*/build)
#   KBUILD_IN=...  a command that runs the kernel's make, for instance in another root directory
KDIR ?= $(lastword $(sort $(wildcard /lib/modules/*/build)))
KERNEL_OUT := $(abspath $(BUILD))/kernel
KERNEL_SOURCES := $(wildcard kernel/*.c kernel/*.h kernel/Kbuild kernel/uapi/*.h)
KERNEL_LINKS := $(KERNEL_SOURCES:kernel/%=$(KERNEL_OUT)/%)
KBUILD_RUN = $(KBUILD_IN) $(MAKE) --no-print-directory -C $(KDIR) M=$(KERNEL_OUT) W=1 KCFLAGS=-Werror

.PHONY: modules modules-sparse modules-install

$(KERNEL_OUT)/%: kernel/%
	@mkdir -p $(@D)
	@ln -sf $(abspath $<) $@

modules: $(KERNEL_LINKS) ## build the driver, BUILD/kernel/wss.ko (KDIR=...)
	$(Q)test -n "$(KDIR)" || { echo "no kernel headers: apt install linux-headers-amd64" >&2; exit 1; }
	+$(Q)$(KBUILD_RUN) modules

modules-sparse: $(KERNEL_LINKS) ## check the driver with sparse; any finding fails
	+$(Q)$(KBUILD_RUN) C=2 CHECK="sparse" modules 2>&1 | tee $(KERNEL_OUT)/sparse.log
	$(Q)! grep -E "(warning|error):" $(KERNEL_OUT)/sparse.log

modules-install: modules ## install the driver for the running kernel version of KDIR
	+$(Q)$(KBUILD_RUN) modules_install
