# SPDX-License-Identifier: Apache-2.0
# The demonstration. Installing and building print their own progress.
LAB ?= vm
demo: deps ## install, build, and show the whole system at work in a VM (LAB=host: on this machine)
	@+$(MAKE) --no-print-directory -j$(JOBS) programs modules
	@BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m tests.demo --build $(BUILD) $(if $(filter host,$(LAB)),--host)
