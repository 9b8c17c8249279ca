/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Times five requests over loopback: written, sent, acknowledged.
 *
 *     cc -Iinclude examples/requests.c -o requests -L../../target/debug -lwirelapse_timestamping
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wirelapse_timestamping.h"

static const char *const stages[] = {"sched", "driver", "nic", "completion", "ack"};

static void require(int done, const char *what) {
    if (!done) {
        perror(what);
        exit(1);
    }
}

static void succeeded(enum wlts_result result) {
    if (result != WLTS_OK) {
        fprintf(stderr, "%s\n", wlts_error_text());
        exit(1);
    }
}

/* Answers one connection with what it sends. */
static void *echo(void *listener) {
    int client = accept(*(int *)listener, NULL, NULL);
    char bytes[256];
    ssize_t count;
    require(client >= 0, "accept");
    while ((count = read(client, bytes, sizeof bytes)) > 0) {
        if (write(client, bytes, (size_t)count) != count) break;
    }
    close(client);
    return NULL;
}

/* One message of the error queue. */
static void take(void *matcher, const struct wlts_report *report) {
    if (report->kind != WLTS_STAMP) return;
    wlts_matcher_stamp(matcher, report);
    struct wlts_stats stats;
    if (report->stage == WLTS_ACK && report->stats != NULL) {
        succeeded(wlts_stats_read(report->stats, report->stats_length, &stats));
        if (stats.smoothed_rtt_ns.known) printf("  TCP's smoothed RTT: %" PRIu64 " ns\n", stats.smoothed_rtt_ns.value);
    }
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    require(bind(listener, (struct sockaddr *)&address, length) == 0, "bind");
    require(listen(listener, 1) == 0, "listen");
    require(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    pthread_t server;
    require(pthread_create(&server, NULL, echo, &listener) == 0, "pthread_create");
    require(connect(client, (struct sockaddr *)&address, length) == 0, "connect");
    require(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");

    /* A TCP socket has to be connected first: its ids are positions of bytes. */
    struct wlts_request request = {.stages = WLTS_SCHED | WLTS_DRIVER | WLTS_ACK, .stats = true};
    struct wlts_enabled *enabled;
    succeeded(wlts_enable(client, &request, &enabled));
    struct wlts_matcher *matcher = wlts_matcher_new(enabled, 1024);
    struct wlts_queue *queue = wlts_queue_new(0, 0, 0);

    for (uint64_t number = 1; number <= 5; number++) {
        char text[32], answer[32];
        int size = snprintf(text, sizeof text, "request %" PRIu64 "\n", number);
        uint64_t before = wlts_now_ns();
        size_t sent;
        succeeded(wlts_send(enabled, client, (const uint8_t *)text, (size_t)size, NULL, &sent));
        wlts_matcher_sent(matcher, sent, before, number);
        require(recv(client, answer, (size_t)size, MSG_WAITALL) == size, "recv");

        /* Until the stamps of this request are all there, or a second is over. */
        uint8_t found = WLTS_ERRORS;
        while (wlts_matcher_counts(matcher).pending > 0 && (found & WLTS_ERRORS)) {
            succeeded(wlts_wait(client, 0, 1000000000, &found));
            size_t count;
            succeeded(wlts_queue_read(queue, client, take, matcher, &count));
        }
        wlts_matcher_give_up(matcher, UINT64_MAX);
        struct wlts_matched matched;
        while (wlts_matcher_finished(matcher, &matched)) {
            printf("request %" PRIu64 ":", matched.tag);
            for (int stage = 0; stage < 5; stage++) {
                if (matched.got & 1 << stage) printf("  %s after %" PRIu64 " ns", stages[stage], matched.at_ns[stage] - matched.sent_ns);
                if (matched.missing & 1 << stage) printf("  %s never came", stages[stage]);
            }
            printf("\n");
        }
    }

    struct wlts_counts counts = wlts_matcher_counts(matcher);
    printf("%" PRIu64 " sends, %" PRIu64 " with every stamp\n", counts.sent, counts.complete);
    wlts_matcher_free(matcher);
    wlts_queue_free(queue);
    wlts_enabled_free(enabled);
    close(client);
    pthread_join(server, NULL);
    close(listener);
    return 0;
}
