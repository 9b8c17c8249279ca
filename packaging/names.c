/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with the C library in it would load the machine's modules for names and users. They are
 * made for another C library, and it could crash in them. Files and DNS, which it has itself, are
 * enough. */
#include <nss.h>

__attribute__((constructor)) static void use_what_is_linked(void) {
    __nss_configure_lookup("hosts", "files dns");
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
}
