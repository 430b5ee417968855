# SPDX-License-Identifier: Apache-2.0
# Debian packages of all parts, and their tests.
PACKAGES := build/packages

.PHONY: packages check-packages check-units
packages: ## build the Debian packages into build/packages (after make deps)
	@tools/packaging/build $(PACKAGES) $(JOBS)

check-packages: packages check-units ## build the Debian packages, check them with lintian, compile the driver by DKMS, install and purge them in a chroot
	@tools/packaging/check $(PACKAGES)

check-units: $(BUILD)/wss-target $(BUILD)/wss-cache $(BUILD)/wssctl ## check the systemd units (hardening, syntax) and dkms.conf, without building packages
	@tools/packaging/check-units $(BUILD)
