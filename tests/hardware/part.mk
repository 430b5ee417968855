# SPDX-License-Identifier: Apache-2.0
# Tests over RDMA cards. `tests/hardware/check --help` describes the variables, which are options there.
HARDWARE_VALUES := TARGET CLIENT TARGET_ADDRESS CLIENT_ADDRESS PORT DIRECTORY ONLY
HARDWARE_FLAGS := LOCAL DRIVER FAULTS QUICK PLAN
lower = $(shell echo '$(1)' | tr 'A-Z_' 'a-z-')
HARDWARE_OPTIONS = $(foreach name,$(HARDWARE_VALUES),$(if $($(name)),--$(call lower,$(name)) $($(name)))) \
	$(foreach name,$(HARDWARE_FLAGS),$(if $($(name)),--$(call lower,$(name)))) $(if $(RUNNER),--ssh '$(RUNNER)')

.PHONY: check-hardware
check-hardware: $(if $(PLAN)$(if $(TARGET),,none),,programs $(BUILD)/conformance_tests $(if $(DRIVER),modules)) ## test RDMA cards and write a report to send (TARGET=HOST CLIENT=HOST, or LOCAL=1 TARGET=ADDRESS; PLAN=1 DRIVER=1 FAULTS=1 QUICK=1)
	@tests/hardware/check --build $(BUILD) $(HARDWARE_OPTIONS)
