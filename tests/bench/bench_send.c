/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sends UDP packets out of an interface as fast as it can, and prints what that took: nanoseconds
 * of this thread's CPU time, and of the clock.
 *
 *     bench_send INTERFACE MAC SOURCE ADDRESS PORT DESTINATIONS FLOWS PACKETS
 *
 * Without arguments it reads them from its input, a line for each sending, so that many short ones
 * cost no new process and find a warm one.
 *
 * Flow f goes from an address behind SOURCE, with a port of its own, to PORT of ADDRESS + f %
 * DESTINATIONS. Packet p belongs to flow p % FLOWS. Behind a veth pair the kernel works on a packet
 * before the send returns, in this thread, so its CPU time holds the whole way of the packets. What
 * the kernel leaves to ksoftirqd is not in it.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define AT_ONCE 32
#define FIRST_PORT 1024
#define PORTS 60000
#define WORDS 8

struct frame {
    struct ether_header link;
    struct iphdr ip;
    struct udphdr udp;
    char payload[18];
} __attribute__((packed));

static uint32_t source, destination, n_destinations, n_flows, n_packets;

static void die(const char *what)
{
    fprintf(stderr, "bench_send: %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static uint16_t checksum(const void *header)
{
    uint16_t words[sizeof(struct iphdr) / 2];
    uint32_t sum = 0;
    memcpy(words, header, sizeof(words));
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        sum += words[i];
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t) ~(sum + (sum >> 16));
}

static void aim(struct frame *frame, uint32_t packet)
{
    uint32_t flow = packet % n_flows;
    frame->ip.saddr = htonl(source + flow / PORTS);
    frame->ip.daddr = htonl(destination + flow % n_destinations);
    frame->ip.check = 0;
    frame->ip.check = checksum((const char *)frame + offsetof(struct frame, ip));
    frame->udp.source = htons((uint16_t)(FIRST_PORT + flow % PORTS));
}

static struct frame blank(const uint8_t *mac, uint16_t port)
{
    struct frame frame = {
        .link.ether_type = htons(ETHERTYPE_IP),
        .ip = {.version = 4,
               .ihl = 5,
               .tot_len = htons(sizeof(frame) - sizeof(frame.link)),
               .ttl = 64,
               .protocol = IPPROTO_UDP},
        .udp = {.dest = htons(port), .len = htons(sizeof(frame.udp) + sizeof(frame.payload))}};
    memcpy(frame.link.ether_dhost, mac, ETH_ALEN);
    frame.link.ether_shost[0] = 2;
    return frame;
}

static void send_all(int fd, const struct sockaddr_ll *link, const struct frame *first)
{
    struct frame frames[AT_ONCE];
    struct iovec parts[AT_ONCE];
    struct mmsghdr messages[AT_ONCE] = {0};
    for (int i = 0; i < AT_ONCE; i++) {
        frames[i] = *first;
        parts[i] = (struct iovec){&frames[i], sizeof(frames[i])};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
        messages[i].msg_hdr.msg_name = (void *)link;
        messages[i].msg_hdr.msg_namelen = sizeof(*link);
    }
    for (uint32_t packet = 0; packet < n_packets;) {
        unsigned n = n_packets - packet < AT_ONCE ? n_packets - packet : AT_ONCE;
        for (unsigned i = 0; i < n; i++)
            aim(&frames[i], packet + i);
        int sent = sendmmsg(fd, messages, n, 0);
        if (sent < 0 && errno != ENOBUFS)
            die("send");
        packet += sent > 0 ? (uint32_t)sent : 0;
    }
}

static double nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static uint32_t number(const char *text, uint32_t least)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    errno = EINVAL;
    if (*end || value < least || value > 100000000)
        die(text);
    return (uint32_t)value;
}

static uint32_t address(const char *text)
{
    struct in_addr parsed;
    errno = EINVAL;
    if (inet_pton(AF_INET, text, &parsed) != 1)
        die(text);
    return ntohl(parsed.s_addr);
}

/* One sending, from its eight words. */
static void run(char *const words[WORDS])
{
    uint8_t mac[ETH_ALEN];
    errno = EINVAL;
    if (sscanf(words[1], "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
               &mac[4], &mac[5]) != ETH_ALEN)
        die(words[1]);
    source = address(words[2]);
    destination = address(words[3]);
    struct frame frame = blank(mac, (uint16_t)number(words[4], 1));
    n_destinations = number(words[5], 1);
    n_flows = number(words[6], 1);
    n_packets = number(words[7], 0);
    struct sockaddr_ll link = {.sll_family = AF_PACKET,
                               .sll_protocol = htons(ETHERTYPE_IP),
                               .sll_ifindex = (int)if_nametoindex(words[0]),
                               .sll_halen = ETH_ALEN};
    int fd = socket(AF_PACKET, SOCK_RAW, 0); /* protocol 0: receives nothing */
    if (fd < 0 || link.sll_ifindex == 0)
        die(words[0]);
    double cpu = nanoseconds(CLOCK_THREAD_CPUTIME_ID), clock = nanoseconds(CLOCK_MONOTONIC);
    send_all(fd, &link, &frame);
    printf("{\"cpu\": %.0f, \"clock\": %.0f}\n", nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu,
           nanoseconds(CLOCK_MONOTONIC) - clock);
    fflush(stdout);
    close(fd);
}

static void run_line(char *line)
{
    char *words[WORDS], *rest = NULL, *word = strtok_r(line, " \n", &rest);
    unsigned n = 0;
    for (; word && n < WORDS; word = strtok_r(NULL, " \n", &rest))
        words[n++] = word;
    errno = EINVAL;
    if (n < WORDS || word)
        die("a line does not have eight words");
    run(words);
}

int main(int argc, char **argv)
{
    char *line = NULL;
    size_t size = 0;
    if (argc == WORDS + 1) {
        run(argv + 1);
    } else if (argc == 1) {
        while (getline(&line, &size, stdin) > 0)
            run_line(line);
        free(line);
    } else {
        fputs("Usage: bench_send [INTERFACE MAC SOURCE ADDRESS PORT DESTINATIONS FLOWS PACKETS]\n",
              stderr);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
