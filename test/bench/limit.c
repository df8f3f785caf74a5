/*
 * The limit program sends netlink messages that were prepared in advance, 64 KB at a time with one
 * acknowledgement, and prints how long the kernel took. A proxy that sends these messages cannot be
 * faster.
 *
 *     limit FILE LINK
 *
 * FILE contains datagrams. Two u32 in host byte order precede each datagram: the netlink protocol
 * and the length in bytes. Messages of NETLINK_GENERIC get the number of the IPVS family, and
 * address messages get the index of LINK. Prints JSON.
 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/if_addr.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BUFFER_BYTES = 16 << 20, PROTOCOLS = 32 };

static int sockets[PROTOCOLS];
static double protocol_ms[PROTOCOLS];
static char reply[1 << 20];

static void die(const char *what) {
	perror(what);
	exit(1);
}

static double now_ms(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int socket_of(uint32_t protocol) {
	if (protocol >= PROTOCOLS) die("protocol");
	if (sockets[protocol] != 0) return sockets[protocol];
	int one = socket(AF_NETLINK, SOCK_RAW, (int)protocol);
	int bytes = BUFFER_BYTES, on = 1;
	if (one < 0) die("socket");
	setsockopt(one, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
	setsockopt(one, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
	setsockopt(one, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
	return sockets[protocol] = one;
}

static uint16_t resolve_ipvs(void) {
	struct {
		struct nlmsghdr header;
		struct genlmsghdr generic;
		struct nlattr attribute;
		char name[8];
	} request = {.name = "IPVS"};
	int generic = socket_of(NETLINK_GENERIC);
	request.header.nlmsg_len = sizeof request;
	request.header.nlmsg_type = GENL_ID_CTRL;
	request.header.nlmsg_flags = NLM_F_REQUEST;
	request.generic.cmd = CTRL_CMD_GETFAMILY;
	request.attribute.nla_type = CTRL_ATTR_FAMILY_NAME;
	request.attribute.nla_len = NLA_HDRLEN + 5;
	if (send(generic, &request, sizeof request, 0) < 0) die("send");
	ssize_t length = recv(generic, reply, sizeof reply, 0);
	struct nlmsghdr *header = (void *)reply;
	if (length < 0 || header->nlmsg_type == NLMSG_ERROR) die("no IPVS");
	char *end = reply + header->nlmsg_len;
	for (char *at = (char *)NLMSG_DATA(header) + GENL_HDRLEN; at < end;) {
		struct nlattr *attribute = (void *)at;
		if (attribute->nla_type == CTRL_ATTR_FAMILY_ID) return *(uint16_t *)(at + NLA_HDRLEN);
		at += NLA_ALIGN(attribute->nla_len);
	}
	die("no family id");
	return 0;
}

/*
 * Fills in values that depend on this kernel. Returns the number of messages and the last sequence
 * number.
 */
static int prepare(uint32_t protocol, char *datagram, uint32_t length, uint16_t family, int link,
		   uint32_t *last) {
	int count = 0;
	for (struct nlmsghdr *one = (void *)datagram; (char *)one < datagram + length;
	     one = (void *)((char *)one + NLMSG_ALIGN(one->nlmsg_len))) {
		if (protocol == NETLINK_GENERIC) one->nlmsg_type = family;
		if (protocol == NETLINK_ROUTE) ((struct ifaddrmsg *)NLMSG_DATA(one))->ifa_index = (uint32_t)link;
		*last = one->nlmsg_seq;
		count++;
	}
	return count;
}

/* Waits for the answer to the last message. Returns the number of rejected messages. */
static int await_acknowledgement(int netlink, uint32_t last) {
	for (int refused = 0;;) {
		int length = (int)recv(netlink, reply, sizeof reply, 0);
		if (length < 0 && errno == ENOBUFS) continue;
		if (length < 0) die("recv");
		for (struct nlmsghdr *one = (void *)reply; NLMSG_OK(one, length); one = NLMSG_NEXT(one, length)) {
			if (one->nlmsg_type != NLMSG_ERROR) continue;
			refused += ((struct nlmsgerr *)NLMSG_DATA(one))->error != 0;
			if (one->nlmsg_seq == last) return refused;
		}
	}
}

static char *read_file(const char *path, size_t *size) {
	FILE *file = fopen(path, "rb");
	if (file == NULL) die(path);
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	char *bytes = malloc(*size);
	if (bytes == NULL || fread(bytes, 1, *size, file) != *size) die(path);
	fclose(file);
	return bytes;
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: limit FILE LINK\n");
		return 2;
	}
	size_t size;
	char *bytes = read_file(argv[1], &size);
	uint16_t family = resolve_ipvs();
	int link = (int)if_nametoindex(argv[2]);
	int messages = 0, datagrams = 0, refused = 0;
	double total_ms = 0;
	for (char *at = bytes; at < bytes + size;) {
		uint32_t head[2], last = 0;
		memcpy(head, at, sizeof head);
		at += sizeof head;
		int netlink = socket_of(head[0]);
		messages += prepare(head[0], at, head[1], family, link, &last);
		double began_ms = now_ms();
		if (send(netlink, at, head[1], 0) < 0) die("send");
		refused += await_acknowledgement(netlink, last);
		double elapsed_ms = now_ms() - began_ms;
		protocol_ms[head[0]] += elapsed_ms;
		total_ms += elapsed_ms;
		datagrams++;
		at += head[1];
	}
	printf("{\"ms\":%.3f,\"datagrams\":%d,\"messages\":%d,\"refused\":%d,"
	       "\"addressesMs\":%.3f,\"setsMs\":%.3f,\"ipvsMs\":%.3f}\n",
	       total_ms, datagrams, messages, refused, protocol_ms[NETLINK_ROUTE],
	       protocol_ms[NETLINK_NETFILTER], protocol_ms[NETLINK_GENERIC]);
	return refused == 0 ? 0 : 1;
}
