/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every timestamp that Linux gives for a socket's packets: SO_TIMESTAMPING.
 *
 * Made of crates/timestamping-c by its test; `WIRELAPSE_WRITE_SNAPSHOTS=1` writes it again. Link
 * with -lwirelapse_timestamping. examples/requests.c is a whole program.
 *
 * Times are nanoseconds: of the kernel on CLOCK_REALTIME, of a NIC on its own clock (PHC). What a
 * function is handed is only borrowed, and what it hands to a callback is valid until that returns.
 * An object may be used by one thread at a time. A function that gives an enum wlts_result leaves
 * the reason of a failure in wlts_error_text() of its thread.
 */

#ifndef WIRELAPSE_TIMESTAMPING_H
#define WIRELAPSE_TIMESTAMPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A stage: the packet enters the packet scheduler.
#define WLTS_SCHED (1 << 0)

// A stage: the packet is handed to the driver.
#define WLTS_DRIVER (1 << 1)

// A stage: the NIC put the packet on the wire.
#define WLTS_NIC (1 << 2)

// A stage: the device reported that the packet went out.
#define WLTS_COMPLETION (1 << 3)

// A stage: the peer acknowledged the last byte. TCP only.
#define WLTS_ACK (1 << 4)

// What wlts_wait() waits for or found: something is on the error queue.
#define WLTS_ERRORS (1 << 0)

// What wlts_wait() waits for or found: something can be received.
#define WLTS_READABLE (1 << 1)

// What wlts_wait() waits for or found: something can be sent.
#define WLTS_WRITABLE (1 << 2)

// What lay on the error queue.
enum wlts_kind {
  // A stamp of a send: `stage`, `id`, the times, `interface`, `payload`, `stats`.
  WLTS_STAMP = 0,
  // An ICMP error: `icmp_v6`, `icmp_type`, `icmp_code`, `error`, `info`, the times, `payload` as
  // far as it came back, `text` with what it says, `offender`.
  WLTS_ICMP = 1,
  // An error of this host itself: `error`, and `info` with the MTU for EMSGSIZE.
  WLTS_LOCAL = 2,
  // MSG_ZEROCOPY sends `first` to `last` are done with their buffers; `copied` says whether the
  // kernel copied after all.
  WLTS_ZERO_COPY = 3,
  // Well-formed, of an origin that is not known: `error`, `info`.
  WLTS_OTHER = 4,
  // It cannot be read: `text` says why.
  WLTS_BROKEN = 5,
};

// How a function ended.
enum wlts_result {
  // It did what was asked.
  WLTS_OK = 0,
  // The kernel is too old: the text names the option and the version that brought it.
  WLTS_UNSUPPORTED = 1,
  // A TCP socket has to be connected before its bytes can be counted.
  WLTS_NOT_CONNECTED = 2,
  // A socket of this type cannot do this.
  WLTS_WRONG_SOCKET = 3,
  // The options contradict each other.
  WLTS_CONTRADICTION = 4,
  // The process may not do this.
  WLTS_NOT_PERMITTED = 5,
  // A message of the kernel cannot be read.
  WLTS_UNREADABLE = 6,
  // A system call failed: wlts_error_number() has its error.
  WLTS_SYSTEM = 7,
  // An argument is null, not a descriptor, or not what it should be.
  WLTS_ARGUMENT = 8,
};

// What a socket has after wlts_enable().
struct wlts_enabled;

// Matches stamps to the sends they are of, and counts what never came.
struct wlts_matcher;

// A reader of error queues, with its buffers.
struct wlts_queue;

// A receiver, with its buffers.
struct wlts_receiver;

// The times of a stamp, each where it is there.
struct wlts_times {
  // Whether the kernel took a time.
  bool has_software;
  // Whether the NIC took one.
  bool has_hardware;
  // The kernel's, nanoseconds on CLOCK_REALTIME.
  uint64_t software_ns;
  // The NIC's, nanoseconds on its own clock.
  uint64_t hardware_ns;
};

// One message of an error queue. `kind` says which fields it has; the others are 0.
struct wlts_report {
  // What it is.
  enum wlts_kind kind;
  // One of `WLTS_SCHED`, ….
  uint8_t stage;
  // Whether `interface` is known.
  bool has_interface;
  // ICMPv6, not ICMP.
  bool icmp_v6;
  // The ICMP type.
  uint8_t icmp_type;
  // The ICMP code.
  uint8_t icmp_code;
  // Whether the kernel copied the data of zero-copy sends.
  bool copied;
  // The send's id modulo 2³²: the number of the datagram, or the position of its last byte.
  uint32_t id;
  // Index of the interface that it left by.
  uint32_t interface;
  // The error number (errno).
  uint32_t error;
  // The path MTU, where the packet was too big.
  uint32_t info;
  // The first of the zero-copy sends.
  uint32_t first;
  // The last of them.
  uint32_t last;
  // When.
  struct wlts_times times;
  // The packet, from its link-layer header on, where it was asked for.
  const uint8_t *payload;
  // Its bytes.
  size_t payload_length;
  // TCP's figures, for wlts_stats_read(); null without.
  const uint8_t *stats;
  // Their bytes.
  size_t stats_length;
  // What an ICMP error or a broken message says; null otherwise.
  const char *text;
  // The address of who sent the ICMP error; null where it is not known.
  const char *offender;
};

// A send with the stamps that came for it.
struct wlts_matched {
  // Its id in 64 bits.
  uint64_t id;
  // What the program gave with the send.
  uint64_t tag;
  // When the program says it sent, nanoseconds on CLOCK_REALTIME.
  uint64_t sent_ns;
  // The stages that it has stamps of.
  uint8_t got;
  // The stages whose stamps never came.
  uint8_t missing;
  // The kernel's times, nanoseconds on CLOCK_REALTIME, in the order of the stages' bits; 0 for
  // those that are not in `got`, and for the NIC's, which is `nic_ns`.
  uint64_t at_ns[5];
  // When the NIC put it on the wire, nanoseconds on its own clock, where `got` has `WLTS_NIC`.
  uint64_t nic_ns;
};

// What became of the stamps: `sent` = `complete` + `incomplete` + the pending ones, always.
struct wlts_counts {
  // Sends that were noted.
  uint64_t sent;
  // Of these, finished with every stamp.
  uint64_t complete;
  // Of these, finished with stamps missing.
  uint64_t incomplete;
  // Stamps that never came, in the order of the stages' bits.
  uint64_t never_came[5];
  // Stamps matched to a send.
  uint64_t matched;
  // Second stamps of a stage: the first is kept.
  uint64_t repeated;
  // Stamps of sends that are not known.
  uint64_t unknown;
  // Sends that wait for stamps.
  uint64_t pending;
};

// What a callback is handed.
typedef void (*wlts_each_report)(void *context, const struct wlts_report *report);

// One datagram, or what a stream had to give.
struct wlts_received {
  // What came, as far as there was room.
  const uint8_t *payload;
  // Its bytes.
  size_t payload_length;
  // Whether more came than there was room for.
  bool cut;
  // Whether `interface` is known.
  bool has_interface;
  // Whether `link_interface` and `link_length` are known.
  bool has_link;
  // Whether `ttl` is known.
  bool has_ttl;
  // Whether `dropped` is known.
  bool has_dropped;
  // TTL or hop limit.
  uint8_t ttl;
  // Index of the interface that it came in by.
  uint32_t interface;
  // Index of the interface that the NIC's stamp was taken on.
  uint32_t link_interface;
  // Its bytes on the link there.
  uint32_t link_length;
  // Datagrams that the socket dropped so far, modulo 2³².
  uint32_t dropped;
  // When it entered the stack, and when the NIC received it.
  struct wlts_times times;
  // Address and port of who sent it; null for a stream.
  const char *from;
  // Why its control messages cannot be read; null where they can. Then there is nothing else.
  const char *broken;
};

// What a callback is handed.
typedef void (*wlts_each_received)(void *context, const struct wlts_received *received);

// What to ask of a socket. All zeroes ask nothing.
struct wlts_request {
  // Stages (`WLTS_SCHED | …`) at which to stamp what is sent.
  uint8_t stages;
  // Stamp only sends that ask for it (wlts_send_options), not every one.
  bool per_send;
  // Stamp what is received where it enters the stack.
  bool receive_software;
  // Stamp what is received in the NIC.
  bool receive_hardware;
  // No receive stamps that only other sockets asked for (Linux 6.12).
  bool only_own_receive_stamps;
  // TCP's own figures with each stamp.
  bool stats;
  // The interface with each stamp.
  bool packet_info;
  // The packet with each stamp of a send.
  bool with_payload;
  // No ids.
  bool without_ids;
  // ICMP errors on the error queue too.
  bool icmp_errors;
  // TTL or hop limit with what is received.
  bool ttl;
  // How many datagrams the socket dropped, with what is received.
  bool count_drops;
  // Go on without options that the kernel lacks; wlts_enabled_left_out() has them.
  bool lenient;
  // Hardware stamps on the virtual PTP clock `phc`.
  bool bind_phc;
  // Index of that clock.
  uint32_t phc;
  // Further flags, SOF_TIMESTAMPING_* of <linux/net_tstamp.h>.
  uint32_t flags;
};

// What one send asks for. All zeroes ask nothing.
struct wlts_send_options {
  // Stamp this send at `stages`, whatever the socket's own are.
  bool has_stages;
  // `WLTS_SCHED | …`; 0 for none.
  uint8_t stages;
  // `id` is the id of its stamps, in place of the kernel's count (Linux 6.13; not for TCP).
  bool has_id;
  // That id.
  uint32_t id;
  // Where to, for a socket that is not connected: `192.0.2.1:53` or `[2001:db8::1]:53`. Null
  // otherwise.
  const char *to;
};

// One of TCP's figures, where the kernel sent it.
struct wlts_figure {
  // Whether it did: older kernels know fewer.
  bool known;
  // The figure.
  uint64_t value;
};

// TCP's own figures at the moment of a stamp (`TCP_NLA_*` of <linux/tcp.h>).
struct wlts_stats {
  // How long there was data to send, ns.
  struct wlts_figure busy_ns;
  // How long the peer's window was what limited it, ns.
  struct wlts_figure window_limited_ns;
  // How long the send buffer was what limited it, ns.
  struct wlts_figure buffer_limited_ns;
  // Data segments sent, with retransmissions.
  struct wlts_figure data_segments_out;
  // Segments retransmitted.
  struct wlts_figure total_retransmissions;
  // Pacing rate, bytes a second.
  struct wlts_figure pacing_rate;
  // Delivery rate, bytes a second.
  struct wlts_figure delivery_rate;
  // Congestion window, segments.
  struct wlts_figure congestion_window;
  // Reordering metric, segments.
  struct wlts_figure reordering;
  // Minimum RTT seen, ns.
  struct wlts_figure min_rtt_ns;
  // How often the first unacknowledged segment has been retransmitted.
  struct wlts_figure recurring_retransmissions;
  // Whether `delivery_rate` was limited by the application, 0 or 1.
  struct wlts_figure delivery_rate_application_limited;
  // Bytes in the send queue.
  struct wlts_figure send_queue_bytes;
  // State of congestion control (`enum tcp_ca_state`).
  struct wlts_figure congestion_state;
  // Slow-start threshold, segments.
  struct wlts_figure slow_start_threshold;
  // Segments delivered, also out of order.
  struct wlts_figure delivered;
  // Of these, with a congestion mark.
  struct wlts_figure delivered_ce;
  // Bytes sent, with retransmissions.
  struct wlts_figure bytes_sent;
  // Bytes retransmitted.
  struct wlts_figure bytes_retransmitted;
  // DSACK blocks received: retransmissions that were not needed.
  struct wlts_figure dsack_duplicates;
  // Reordering events.
  struct wlts_figure reordering_events;
  // Smoothed round-trip time, ns.
  struct wlts_figure smoothed_rtt_ns;
  // New flow hashes picked after a timeout.
  struct wlts_figure timeout_rehashes;
  // Bytes in the write queue that were never sent.
  struct wlts_figure bytes_not_sent;
  // Earliest departure time of the packet, ns on CLOCK_MONOTONIC.
  struct wlts_figure earliest_departure_ns;
  // TTL or hop limit of the packet that brought the ACK.
  struct wlts_figure ttl;
  // New flow hashes picked after a timeout or by protective load balancing.
  struct wlts_figure rehashes;
  // Figures that have no name here: the kernel is newer.
  uint32_t unknown;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A matcher for the socket of `enabled`, that holds up to `capacity` sends; null for null. To be
// freed by wlts_matcher_free().
//
// # Safety
// `enabled` is null or from wlts_enable().
struct wlts_matcher *wlts_matcher_new(const struct wlts_enabled *enabled, size_t capacity);

// Frees it.
//
// # Safety
// `matcher` is null or from wlts_matcher_new(), and is not used again.
void wlts_matcher_free(struct wlts_matcher *matcher);

// Notes a send of `bytes` at `at_ns` (wlts_now_ns() before it), after it succeeded. False for
// null, and for a write of no bytes, which has no id.
//
// # Safety
// `matcher` is null or from wlts_matcher_new().
bool wlts_matcher_sent(struct wlts_matcher *matcher, size_t bytes, uint64_t at_ns, uint64_t tag);

// Notes a send of `bytes` that asked for no stamps: on a stream its bytes count all the same.
//
// # Safety
// `matcher` is null or from wlts_matcher_new().
void wlts_matcher_sent_unstamped(struct wlts_matcher *matcher, size_t bytes);

// Notes a send with an id that the program chose, which must be larger than those before. False
// where it is not, and for null.
//
// # Safety
// `matcher` is null or from wlts_matcher_new().
bool wlts_matcher_sent_with_id(struct wlts_matcher *matcher,
                               uint64_t id,
                               uint64_t at_ns,
                               uint64_t tag);

// Matches a stamp to its send. False where it is no stamp or no send waits for it, and for null.
//
// # Safety
// `matcher` is null or from wlts_matcher_new(); `report` is null or what a callback was handed.
bool wlts_matcher_stamp(struct wlts_matcher *matcher, const struct wlts_report *report);

// The next send that no stamp is expected for, in the order of sending. False where there is none,
// and for null.
//
// # Safety
// `matcher` is null or from wlts_matcher_new(), `matched` null or points to room for a send.
bool wlts_matcher_finished(struct wlts_matcher *matcher, struct wlts_matched *matched);

// Gives up every send before `moment_ns`, so that wlts_matcher_finished() gives it with the stamps
// that came; UINT64_MAX gives up all.
//
// # Safety
// `matcher` is null or from wlts_matcher_new().
void wlts_matcher_give_up(struct wlts_matcher *matcher, uint64_t moment_ns);

// What became of the stamps so far; all zeroes for null.
//
// # Safety
// `matcher` is null or from wlts_matcher_new().
struct wlts_counts wlts_matcher_counts(const struct wlts_matcher *matcher);

// A reader that takes up to `messages` with one system call and keeps up to `payload` and
// `control` bytes of each; 0 for 64, 128 and 512. To be freed by wlts_queue_free().
struct wlts_queue *wlts_queue_new(size_t messages, size_t payload, size_t control);

// Frees it.
//
// # Safety
// `queue` is null or from wlts_queue_new(), and is not used again.
void wlts_queue_free(struct wlts_queue *queue);

// Reads up to one batch of the error queue of `socket` and hands each message to `each`; `*count`
// is how many there were. Never waits: an empty queue gives 0.
//
// # Safety
// `queue` is null or from wlts_queue_new(), and `count` is null or points to room for the number.
// `each` takes `context`, and does not use `queue`.
enum wlts_result wlts_queue_read(struct wlts_queue *queue,
                                 int socket,
                                 wlts_each_report each,
                                 void *context,
                                 size_t *count);

// A receiver that takes up to `messages` with one system call and keeps up to `payload` and
// `control` bytes of each; 0 for 64, 128 and 512. To be freed by wlts_receiver_free().
struct wlts_receiver *wlts_receiver_new(size_t messages, size_t payload, size_t control);

// Frees it.
//
// # Safety
// `receiver` is null or from wlts_receiver_new(), and is not used again.
void wlts_receiver_free(struct wlts_receiver *receiver);

// Receives what is there, at most a batch, and hands each message to `each`; `*count` is how many
// there were. Never waits. A stream that has ended gives messages of length 0.
//
// # Safety
// `receiver` is null or from wlts_receiver_new(), and `count` is null or points to room for the
// number. `each` takes `context`, and does not use `receiver`.
enum wlts_result wlts_receiver_read(struct wlts_receiver *receiver,
                                    int socket,
                                    wlts_each_received each,
                                    void *context,
                                    size_t *count);

// Asks `socket` for timestamps. `*enabled` is to be freed by wlts_enabled_free().
//
// # Safety
// `request` points to a request, `enabled` to room for a pointer; or they are null.
enum wlts_result wlts_enable(int socket,
                             const struct wlts_request *request,
                             struct wlts_enabled **enabled);

// Frees it; the socket stays as it is.
//
// # Safety
// `enabled` is null or from wlts_enable(), and is not used again.
void wlts_enabled_free(struct wlts_enabled *enabled);

// The flags that are set, SOF_TIMESTAMPING_* of <linux/net_tstamp.h>; 0 for null.
//
// # Safety
// `enabled` is null or from wlts_enable().
uint32_t wlts_enabled_flags(const struct wlts_enabled *enabled);

// The flags that a lenient request went on without; 0 for null.
//
// # Safety
// `enabled` is null or from wlts_enable().
uint32_t wlts_enabled_left_out(const struct wlts_enabled *enabled);

// The stages at which sends are stamped; 0 for null.
//
// # Safety
// `enabled` is null or from wlts_enable().
uint8_t wlts_enabled_stages(const struct wlts_enabled *enabled);

// Whether ids are positions of bytes (TCP) and not numbers of datagrams; false for null.
//
// # Safety
// `enabled` is null or from wlts_enable().
bool wlts_enabled_counts_bytes(const struct wlts_enabled *enabled);

// The flags that the running kernel knows, found by trying each.
//
// # Safety
// `flags` is null or points to room for them.
enum wlts_result wlts_supported(uint32_t *flags);

// Waits until `socket` has something on its error queue, or what `what` names beside that
// (`WLTS_READABLE | WLTS_WRITABLE`); at most `timeout_ns`. `*found` is 0 where the time is over or
// a signal came.
//
// # Safety
// `found` is null or points to room for it.
enum wlts_result wlts_wait(int socket, uint8_t what, uint64_t timeout_ns, uint8_t *found);

// CLOCK_REALTIME, on which the kernel's stamps are, in nanoseconds.
uint64_t wlts_now_ns(void);

// Makes room for so many stamps in the receive buffer of `socket`, which they share with what is
// received. `*room` is for how many there is then: fewer where the machine's limit is lower.
//
// # Safety
// `room` is null or points to room for the number.
enum wlts_result wlts_reserve_stamps(int socket, uint32_t stamps, uint32_t *room);

// Why the last function of this thread that failed did so: a sentence, valid until another one
// fails.
const char *wlts_error_text(void);

// The kernel's error number (errno) of that failure, or 0 where no system call failed.
int wlts_error_number(void);

// Sends `length` bytes as one write or one datagram; `*sent` is how many of them were taken.
//
// # Safety
// `enabled` is null or from wlts_enable(); `bytes` points to `length` bytes, and `options` to
// options with text in `to`; or they are null. `sent` is null or points to room for the number.
enum wlts_result wlts_send(const struct wlts_enabled *enabled,
                           int socket,
                           const uint8_t *bytes,
                           size_t length,
                           const struct wlts_send_options *options,
                           size_t *sent);

// Reads the figures that came with a stamp: `stats` and `stats_length` of its report.
//
// # Safety
// `bytes` is null or points to `length` bytes, `stats` is null or points to room for the figures.
enum wlts_result wlts_stats_read(const uint8_t *bytes, size_t length, struct wlts_stats *stats);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* WIRELAPSE_TIMESTAMPING_H */
