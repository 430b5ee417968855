# SPDX-License-Identifier: Apache-2.0
# General targets. The rules of each part are in <part>/part.mk. `make help` prints the list.
#
# MODE selects the flags (release, debug, asan, ubsan, tsan), BUILD the directory. Each mode has its own
# directory.
MODE ?= release
BUILD ?= build/$(MODE)
V ?= 0
JOBS ?= $(shell nproc)
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
Q := $(if $(filter 1,$(V)),,@)

.PHONY: help all deps demo check check-all lint format clean install
all: programs ## build the programs, the library and the nbdkit plugin (MODE=release|debug|asan|ubsan|tsan)

include lib/part.mk target/part.mk tools/part.mk tests/part.mk
-include kernel/part.mk

help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install the Debian packages that are missing (.ci/packages; PURPOSE=build: those of one purpose)
	@.ci/deps $(PURPOSE)

clean: ## remove all build results
	rm -rf build
