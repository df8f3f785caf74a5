/*
 * Opens TCP connections as fast as they are answered, and reports their number and latencies. Also
 * implements the server side.
 *
 *     connect serve PORT WORKERS                 answers each byte with one byte
 *     connect load ADDRESS PORT WORKERS MILLISECONDS EXCHANGES
 *     connect transfer ADDRESS PORT MILLISECONDS DIRECTION
 *
 * For each connection, the client connects, sends one byte and receives one byte EXCHANGES times,
 * and closes. Its latency ends when the last byte is received. Each worker has one connection at a
 * time. Prints JSON: connections per second, failures, and latencies in µs.
 *
 * A transfer uses one connection. If the DIRECTION is `down`, the server sends as fast as it can,
 * and if it is `up`, the client does. Prints the number of bytes per second as JSON.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 1 << 16, MOST_WORKERS = 64, MOST_TIMES = 1 << 16, PATIENCE_SECONDS = 5 };

struct tally {
	unsigned count, failures;
	unsigned microseconds[MOST_TIMES];
};

static void die(const char *what) {
	perror(what);
	exit(1);
}

static double now_us(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int have_patience(int one) {
	struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
	setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

static char chunk[CHUNK];

/* Both end at this time, or when the other side closes the connection. They return the number of bytes. */
static double send_until(int one, double end_us) {
	double total = 0;
	while (now_us() < end_us) {
		ssize_t count = send(one, chunk, CHUNK, MSG_NOSIGNAL);
		if (count <= 0) break;
		total += (double)count;
	}
	return total;
}

static double receive_until(int one, double end_us) {
	double total = 0;
	while (now_us() < end_us) {
		ssize_t count = recv(one, chunk, CHUNK, 0);
		if (count <= 0) break;
		total += (double)count;
	}
	return total;
}

static void answer_all(int listener) {
	for (;;) {
		char byte;
		int one = accept(listener, NULL, NULL);
		if (one < 0) continue;
		have_patience(one);
		while (recv(one, &byte, 1, 0) == 1) {
			if (byte == 'd') send_until(one, 1e18);
			if (byte == 'u') receive_until(one, 1e18);
			send(one, &byte, 1, MSG_NOSIGNAL);
		}
		close(one);
	}
}

static int serve(int port, int workers) {
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (bind(listener, (void *)&here, sizeof here) < 0) die("bind");
	if (listen(listener, 1024) < 0) die("listen");
	for (int worker = 1; worker < workers; worker++) {
		if (fork() == 0) answer_all(listener);
	}
	puts("serving");
	fflush(stdout);
	answer_all(listener);
	return 0;
}

/* Returns 0 if all answers were received. */
static int connect_once(const struct sockaddr_in *there, int exchanges) {
	char byte = 'x';
	int one = socket(AF_INET, SOCK_STREAM, 0);
	if (one < 0) die("socket");
	have_patience(one);
	int is_answered = connect(one, (const void *)there, sizeof *there) == 0;
	for (int done = 0; is_answered && done < exchanges; done++)
		is_answered = send(one, &byte, 1, MSG_NOSIGNAL) == 1 && recv(one, &byte, 1, 0) == 1;
	close(one);
	return is_answered ? 0 : -1;
}

static void load_until(const struct sockaddr_in *there, double end_us, int exchanges, struct tally *tally) {
	for (double began = now_us(); began < end_us && tally->count < MOST_TIMES;) {
		int failed = connect_once(there, exchanges);
		double now = now_us();
		if (failed) {
			tally->failures++;
		} else {
			tally->microseconds[tally->count++] = (unsigned)(now - began);
		}
		began = now;
	}
}

static void print_tallies(const struct tally *tallies, int workers, double elapsed_us) {
	unsigned count = 0, failures = 0;
	const char *separator = "";
	printf("{\"microseconds\":[");
	for (int worker = 0; worker < workers; worker++) {
		for (unsigned at = 0; at < tallies[worker].count; at++) {
			printf("%s%u", separator, tallies[worker].microseconds[at]);
			separator = ",";
		}
		count += tallies[worker].count;
		failures += tallies[worker].failures;
	}
	printf("],\"perSecond\":%.2f,\"failures\":%u}\n", count / (elapsed_us / 1e6), failures);
}

static int load(const char *address, int port, int workers, double milliseconds, int exchanges) {
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	if (inet_pton(AF_INET, address, &there.sin_addr) != 1) die(address);
	size_t size = (size_t)workers * sizeof(struct tally);
	struct tally *tallies = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tallies == MAP_FAILED) die("mmap");
	double began_us = now_us(), end_us = began_us + milliseconds * 1e3;
	for (int worker = 0; worker < workers; worker++) {
		if (fork() != 0) continue;
		load_until(&there, end_us, exchanges, &tallies[worker]);
		_exit(0);
	}
	while (wait(NULL) > 0 || errno == EINTR) continue;
	print_tallies(tallies, workers, now_us() - began_us);
	return 0;
}

static int transfer(const char *address, int port, double milliseconds, char direction) {
	struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
	if (inet_pton(AF_INET, address, &there.sin_addr) != 1) die(address);
	int one = socket(AF_INET, SOCK_STREAM, 0);
	if (one < 0) die("socket");
	have_patience(one);
	if (connect(one, (const void *)&there, sizeof there) < 0) die("connect");
	double began_us = now_us(), end_us = began_us + milliseconds * 1e3;
	if (send(one, &direction, 1, MSG_NOSIGNAL) != 1) die("send");
	double total = direction == 'd' ? receive_until(one, end_us) : send_until(one, end_us);
	printf("{\"perSecond\":%.0f}\n", total / ((now_us() - began_us) / 1e6));
	return 0;
}

int main(int argc, char **argv) {
	if (argc == 6 && strcmp(argv[1], "transfer") == 0)
		return transfer(argv[2], atoi(argv[3]), atof(argv[4]), argv[5][0]);
	int workers = argc == 4 ? atoi(argv[3]) : argc == 7 ? atoi(argv[4]) : 0;
	if (workers >= 1 && workers <= MOST_WORKERS) {
		if (strcmp(argv[1], "serve") == 0) return serve(atoi(argv[2]), workers);
		if (strcmp(argv[1], "load") == 0) {
			return load(argv[2], atoi(argv[3]), workers, atof(argv[5]), atoi(argv[6]));
		}
	}
	fprintf(stderr,
		"usage: connect serve PORT WORKERS | connect load ADDRESS PORT WORKERS MILLISECONDS EXCHANGES"
		" | connect transfer ADDRESS PORT MILLISECONDS DIRECTION\n");
	return 2;
}
