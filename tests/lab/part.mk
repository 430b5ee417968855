# SPDX-License-Identifier: Apache-2.0
# The lab: virtual machines with soft RDMA (tests/lab/README.md). VM='--nvme 1G --cpus 2 …' shapes the machine of `make lab`.
LAB_ENV = BUILD=$(abspath $(BUILD)) MODE=$(MODE)
PYTEST = $(LAB_ENV) timeout $(SYSTEM_LIMIT) /usr/bin/python3 -B -m pytest -p no:cacheprovider
SYSTEM_LIMIT ?= 3240

.PHONY: lab lab-probe lab-clean check-system check-debug check-newer check-newest check-kernels
lab: ## an interactive shell in a VM with the tree's binaries on PATH (VM='--nvme 1G --vms 2')
	@$(LAB_ENV) tests/lab/lab shell $(VM)

lab-probe: ## print the kernel and the acceleration that the lab uses, and why
	@$(LAB_ENV) tests/lab/lab probe

lab-clean: ## remove logs, disks and caches of finished lab runs
	@$(LAB_ENV) tests/lab/lab clean

check-system: programs modules $(BUILD)/conformance_tests $(BUILD)/wss-attack ## run the system tests in the lab (FILTER=pattern, as for pytest -k)
	@$(PYTEST) tests/system --maxfail=3 -q $(if $(FILTER),-k '$(FILTER)')

check-debug: programs ## the driver's tests on a kernel with KASAN, lockdep, kmemleak, over rxe and siw (RDMA=siw TESTS=…)
	@tests/lab/kernels/check debug $(BUILD)

check-newer: programs ## the driver's tests on the newer kernel of Debian's backports, fetched once (TESTS=…)
	@tests/lab/kernels/check newer $(BUILD)

check-newest: programs ## the driver's tests on the newest kernel of Debian's stable release, fetched once (TESTS=…)
	@tests/lab/kernels/check newest $(BUILD)

check-kernels: programs ## build and test the driver on every supported kernel, and print a line with the result of each
	@tests/lab/kernels/each $(BUILD)
