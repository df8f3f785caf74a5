/*
 * Reports when the kernel reaches a requested state. While a request is pending, it uses about a
 * tenth of the processor that it shares with the daemon. Otherwise it is idle.
 *
 *     observe PORT
 *
 * Requests and answers are UDP datagrams of text:
 *     TAG servers ADDRESS PORT COUNT   virtual server TCP ADDRESS:PORT has COUNT real servers of weight > 0
 *     TAG lines COUNT                  /proc/net/ip_vs has at least COUNT lines after its header
 *     TAG entries COUNT                the nat table of legacy iptables, IPv4, has at least COUNT entries
 *     TAG other-entries COUNT          this table has a number of entries other than COUNT
 * The answer is `TAG COUNT`. It is sent when the condition is true, or with the current number after 300 s.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/genetlink.h>
#include <linux/ip_vs.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { POLL_NANOSECONDS = 300 * 1000, SLOW_POLL_NANOSECONDS = 5 * 1000 * 1000, PATIENCE_SECONDS = 300 };

static int netlink_socket;
static int raw_socket;
static unsigned short family;
static char reply[1 << 20];

static void die(const char *what) {
	perror(what);
	exit(1);
}

struct request {
	struct nlmsghdr header;
	struct genlmsghdr generic;
	char attributes[256];
};

static void *append(struct request *request, int type, const void *data, int length) {
	struct nlattr *attribute = (void *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
	attribute->nla_type = type;
	attribute->nla_len = NLA_HDRLEN + length;
	if (data != NULL) memcpy((char *)attribute + NLA_HDRLEN, data, length);
	request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
	return attribute;
}

static struct request new_request(unsigned short type, int flags, unsigned char command) {
	struct request request = {0};
	request.header.nlmsg_type = type;
	request.header.nlmsg_flags = NLM_F_REQUEST | flags;
	request.header.nlmsg_len = NLMSG_LENGTH(GENL_HDRLEN);
	request.generic.cmd = command;
	request.generic.version = 1;
	return request;
}

static struct nlattr *attribute_of(void *start, int length, int type) {
	for (struct nlattr *one = start; length >= NLA_HDRLEN && one->nla_len >= NLA_HDRLEN;) {
		if ((one->nla_type & NLA_TYPE_MASK) == type) return one;
		int step = NLA_ALIGN(one->nla_len);
		length -= step;
		one = (void *)((char *)one + step);
	}
	return NULL;
}

static void *payload(struct nlattr *attribute) {
	return (char *)attribute + NLA_HDRLEN;
}

static void resolve_family(void) {
	struct request request = new_request(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY);
	append(&request, CTRL_ATTR_FAMILY_NAME, "IPVS", 5);
	if (send(netlink_socket, &request, request.header.nlmsg_len, 0) < 0) die("send");
	ssize_t length = recv(netlink_socket, reply, sizeof reply, 0);
	struct nlmsghdr *header = (void *)reply;
	if (length < 0 || header->nlmsg_type == NLMSG_ERROR) die("no IPVS");
	char *attributes = (char *)NLMSG_DATA(header) + GENL_HDRLEN;
	struct nlattr *id =
	    attribute_of(attributes, (int)(reply + header->nlmsg_len - attributes), CTRL_ATTR_FAMILY_ID);
	family = *(unsigned short *)payload(id);
}

static int is_serving(struct nlmsghdr *header) {
	char *attributes = (char *)NLMSG_DATA(header) + GENL_HDRLEN;
	int length = (int)((char *)header + header->nlmsg_len - attributes);
	struct nlattr *server = attribute_of(attributes, length, IPVS_CMD_ATTR_DEST);
	if (server == NULL) return 0;
	struct nlattr *weight =
	    attribute_of(payload(server), server->nla_len - NLA_HDRLEN, IPVS_DEST_ATTR_WEIGHT);
	return weight != NULL && *(int *)payload(weight) > 0;
}

static int count_servers(const char *address, int port) {
	struct request request = new_request(family, NLM_F_DUMP, IPVS_CMD_GET_DEST);
	struct nlattr *service = append(&request, NLA_F_NESTED | IPVS_CMD_ATTR_SERVICE, NULL, 0);
	unsigned short values[] = {AF_INET, IPPROTO_TCP, htons((unsigned short)port)};
	unsigned char bytes[16] = {0};
	inet_pton(AF_INET, address, bytes);
	append(&request, IPVS_SVC_ATTR_AF, &values[0], 2);
	append(&request, IPVS_SVC_ATTR_PROTOCOL, &values[1], 2);
	append(&request, IPVS_SVC_ATTR_ADDR, bytes, sizeof bytes);
	append(&request, IPVS_SVC_ATTR_PORT, &values[2], 2);
	service->nla_len = (char *)&request + request.header.nlmsg_len - (char *)service;
	if (send(netlink_socket, &request, request.header.nlmsg_len, 0) < 0) die("send");
	for (int count = 0;;) {
		int length = (int)recv(netlink_socket, reply, sizeof reply, 0);
		if (length < 0) die("recv");
		for (struct nlmsghdr *one = (void *)reply; NLMSG_OK(one, length); one = NLMSG_NEXT(one, length)) {
			if (one->nlmsg_type == NLMSG_DONE || one->nlmsg_type == NLMSG_ERROR) return count;
			count += is_serving(one);
		}
	}
}

static int count_lines(void) {
	int table = open("/proc/net/ip_vs", O_RDONLY);
	if (table < 0) die("/proc/net/ip_vs");
	int count = -3;
	for (ssize_t length; (length = read(table, reply, sizeof reply)) > 0;) {
		for (char *at = reply; (at = memchr(at, '\n', reply + length - at)) != NULL; at++) count++;
	}
	close(table);
	return count;
}

/*
 * Returns the number of entries: all rules, and one entry each at the beginning and end of a chain.
 * The kernel reports this number without returning the entries.
 */
static int count_entries(void) {
	struct ipt_getinfo info = {.name = "nat"};
	socklen_t size = sizeof info;
	if (getsockopt(raw_socket, IPPROTO_IP, IPT_SO_GET_INFO, &info, &size) < 0) return 0;
	return (int)info.num_entries;
}

static double seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int wait_for(const char *question) {
	char kind[16] = "", address[64] = "";
	int port = 0, wanted = 0, found = -1;
	if (sscanf(question, "%*s %15s", kind) != 1) return -1;
	int is_servers = strcmp(kind, "servers") == 0, is_lines = strcmp(kind, "lines") == 0;
	int is_other = strcmp(kind, "other-entries") == 0;
	if (is_servers) sscanf(question, "%*s %*s %63s %d %d", address, &port, &wanted);
	else sscanf(question, "%*s %*s %d", &wanted);
	struct timespec rest = {0, is_servers ? POLL_NANOSECONDS : SLOW_POLL_NANOSECONDS};
	for (double end = seconds() + PATIENCE_SECONDS; seconds() < end; nanosleep(&rest, NULL)) {
		found = is_servers ? count_servers(address, port) : is_lines ? count_lines() : count_entries();
		if (is_servers ? found == wanted : is_other ? found != wanted : found >= wanted) break;
	}
	return found;
}

int main(int argc, char **argv) {
	netlink_socket = socket(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
	if (netlink_socket < 0) die("netlink");
	raw_socket = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (raw_socket < 0) die("raw socket");
	resolve_family();
	int questions = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in here = {.sin_family = AF_INET};
	here.sin_port = htons((unsigned short)(argc > 1 ? atoi(argv[1]) : 0));
	if (bind(questions, (void *)&here, sizeof here) < 0) die("bind");
	puts("observing");
	fflush(stdout);
	for (;;) {
		char question[256] = {0}, answer[256], tag[64] = "";
		struct sockaddr_in asker;
		socklen_t size = sizeof asker;
		if (recvfrom(questions, question, sizeof question - 1, 0, (void *)&asker, &size) < 0) die("recvfrom");
		sscanf(question, "%63s", tag);
		int length = snprintf(answer, sizeof answer, "%s %d", tag, wait_for(question));
		sendto(questions, answer, (size_t)length, 0, (void *)&asker, size);
	}
}
