/*
 * A minimal forwarder for comparison with userspace mode: one thread, epoll, and one buffer for
 * each direction.
 *
 *     forward HOST PORT LOCAL-PORT [PORT LOCAL-PORT …]
 *
 * Prints `ready` when it is listening. Exits on a signal.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { buffer_size = 65536, max_events = 256, max_files = 8192, max_ways = 8 };

/*
 * One end of a connection, with the received data that the other end has not accepted yet.
 */
struct end {
	int fd;
	struct end *other;
	size_t from, to;
	int is_ended; /* No more data will be received from this end. */
	int is_told;  /* The other end has been shut down for writing. */
	char bytes[buffer_size];
};

struct way {
	int fd;
	struct sockaddr_in to;
};

static struct way ways[max_ways];
static int way_count;
static int queue;

static void fail(const char *what) {
	perror(what);
	exit(1);
}

static void watch(int fd, void *data, unsigned events) {
	struct epoll_event event = {.events = events, .data.ptr = data};
	if (epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

static struct sockaddr_in address_of(const char *host, const char *port) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(port))};
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("inet_pton");
	return address;
}

static void open_way(const char *host, const char *port, const char *local_port) {
	struct sockaddr_in local = address_of("127.0.0.1", local_port);
	int one = 1;
	struct way *way = &ways[way_count++];
	way->to = address_of(host, port);
	way->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (way->fd < 0) fail("socket");
	setsockopt(way->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(way->fd, (struct sockaddr *)&local, sizeof local) < 0) fail("bind");
	if (listen(way->fd, 2048) < 0) fail("listen");
	watch(way->fd, way, EPOLLIN);
}

static struct end *new_end(int fd) {
	struct end *end = calloc(1, sizeof *end);
	int one = 1;
	if (end == NULL) fail("calloc");
	end->fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return end;
}

static void take(struct way *way) {
	for (;;) {
		int fd = accept4(way->fd, NULL, NULL, SOCK_NONBLOCK);
		if (fd < 0) return;
		int to = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (to < 0) fail("socket");
		if (connect(to, (struct sockaddr *)&way->to, sizeof way->to) < 0 && errno != EINPROGRESS)
			fail("connect");
		struct end *client = new_end(fd), *server = new_end(to);
		client->other = server;
		server->other = client;
		watch(fd, client, EPOLLIN | EPOLLOUT | EPOLLET);
		watch(to, server, EPOLLIN | EPOLLOUT | EPOLLET);
	}
}

/* Transfers as much data as possible. Returns 0 if the connection is broken. */
static int move(struct end *end) {
	for (;;) {
		if (end->from == end->to && !end->is_ended) {
			ssize_t got = read(end->fd, end->bytes, buffer_size);
			if (got < 0) return errno == EAGAIN || errno == ENOTCONN;
			end->from = 0;
			end->to = (size_t)got;
			end->is_ended = got == 0;
		}
		if (end->from < end->to) {
			ssize_t put = send(end->other->fd, end->bytes + end->from, end->to - end->from, MSG_NOSIGNAL);
			if (put < 0) return errno == EAGAIN || errno == ENOTCONN;
			end->from += (size_t)put;
		} else if (end->is_ended) {
			if (!end->is_told) shutdown(end->other->fd, SHUT_WR);
			end->is_told = 1;
			return 1;
		}
	}
}

/* Closed connections. Remaining events of this round may still refer to either end. */
static struct end *over;

static void serve(struct end *end) {
	struct end *other = end->other;
	if (end->fd < 0) return;
	if (move(end) && move(other) && !(end->is_told && other->is_told)) return;
	close(end->fd);
	close(other->fd);
	end->fd = other->fd = -1;
	/* The list is linked through the clients' pointers. Both ends are freed after the round. */
	end->other = over;
	over = end;
	other->other = over;
	over = other;
}

static void forget(void) {
	while (over != NULL) {
		struct end *next = over->other;
		free(over);
		over = next;
	}
}

int main(int argc, char **argv) {
	struct rlimit files = {max_files, max_files};
	struct epoll_event events[max_events];
	if (argc < 4 || argc % 2 != 0 || argc > 2 + 2 * max_ways) {
		fprintf(stderr, "usage: forward HOST PORT LOCAL-PORT [PORT LOCAL-PORT …]\n");
		return 2;
	}
	setrlimit(RLIMIT_NOFILE, &files);
	queue = epoll_create1(0);
	if (queue < 0) fail("epoll_create1");
	for (int at = 2; at < argc; at += 2) open_way(argv[1], argv[at], argv[at + 1]);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int count = epoll_wait(queue, events, max_events, -1);
		if (count < 0 && errno != EINTR) fail("epoll_wait");
		for (int at = 0; at < count; at += 1) {
			struct way *way = events[at].data.ptr;
			if (way >= ways && way < ways + max_ways) take(way);
			else serve(events[at].data.ptr);
		}
		forget();
	}
}
