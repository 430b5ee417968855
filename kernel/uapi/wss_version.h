/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/*
 * The version of everything that is built from this tree: driver, programs, libraries and packages.
 * The makefiles read it from this file; it is defined nowhere else.
 */
#ifndef WSS_UAPI_VERSION_H
#define WSS_UAPI_VERSION_H

#define WSS_VERSION "0.1.0"

#endif /* WSS_UAPI_VERSION_H */
