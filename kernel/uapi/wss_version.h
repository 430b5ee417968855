/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The version of everything that is built from this tree: the driver, the programs, the libraries and the packages.
 * This is its only place; the makefiles read it from here.
 */
#ifndef WSS_UAPI_VERSION_H
#define WSS_UAPI_VERSION_H

#define WSS_VERSION "0.1.0"

#endif /* WSS_UAPI_VERSION_H */
