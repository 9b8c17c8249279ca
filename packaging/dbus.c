/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Debian's libpcap can read the messages of D-Bus, and its static library asks for libdbus. The
 * tarball leaves that source out, so that it needs no libdbus: each of these fails, and libpcap
 * reports that it cannot be opened. */
#define STUB(name) void *name(void); void *name(void) { return 0; }
STUB(dbus_bus_add_match)
STUB(dbus_bus_get)
STUB(dbus_bus_register)
STUB(dbus_connection_flush)
STUB(dbus_connection_open)
STUB(dbus_connection_pop_message)
STUB(dbus_connection_read_write)
STUB(dbus_connection_send)
STUB(dbus_connection_set_max_received_size)
STUB(dbus_connection_unref)
STUB(dbus_error_free)
STUB(dbus_error_is_set)
STUB(dbus_free)
STUB(dbus_message_demarshal)
STUB(dbus_message_is_signal)
STUB(dbus_message_marshal)
STUB(dbus_message_unref)
