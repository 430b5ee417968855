# SPDX-License-Identifier: Apache-2.0
# The status page of real programs, and the report of wssbench, in a browser. Screenshots are in build/page.
.PHONY: check-page
check-page: $(NATIVE_NEEDS) ## tests of the status page and of the report of wssbench in headless Chromium, with faults (WSS_THOROUGH=1, TESTS=pytest arguments); build/page/*.png
	WSS_BUILD=$(abspath $(BUILD)) /usr/bin/python3 -B -m pytest -q -p no:cacheprovider --durations=3 tests/page $(TESTS)
