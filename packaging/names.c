/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with the C library in it would load that machine's modules for names and users, made for
 * another C library, and could crash in them. What it has itself is enough: files, and DNS. */
#include <nss.h>

__attribute__((constructor)) static void use_what_is_linked(void) {
    __nss_configure_lookup("hosts", "files dns");
    __nss_configure_lookup("passwd", "files");
    __nss_configure_lookup("group", "files");
}
