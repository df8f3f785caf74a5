#include "receive-loop.h"

#include <errno.h>
#include <limits.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { NS_PER_MS = 1000000 };

/* How a datagram affects the exchange in progress. */
enum progress { GO_ON, FINISHED, MALFORMED };

int64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

void reply_buffer_free(struct reply_buffer *buffer) {
  free(buffer->bytes);
  *buffer = (struct reply_buffer){0};
}

int reply_buffer_grow(struct reply_buffer *buffer, size_t needed) {
  if (needed <= buffer->capacity) return 0;
  size_t capacity = buffer->capacity * 2 > needed ? buffer->capacity * 2 : needed;
  uint8_t *bytes = realloc(buffer->bytes, capacity);
  if (bytes == NULL) return ENOMEM;
  buffer->bytes = bytes;
  buffer->capacity = capacity;
  return 0;
}

/*
 * Offset of the next datagram. Messages stay aligned even if a datagram's length is not a
 * multiple of four.
 */
static size_t next_start(const struct reply_buffer *buffer) {
  return NLMSG_ALIGN(buffer->length);
}

/* Makes room for a datagram of `extra` bytes. Returns 0, ENOMEM or EMSGSIZE. */
static int reserve(struct reply_buffer *buffer, size_t extra) {
  size_t start = next_start(buffer);
  if (extra > MAX_REPLY_BYTES || start > MAX_REPLY_BYTES - extra) return EMSGSIZE;
  return reply_buffer_grow(buffer, start + extra);
}

/*
 * Milliseconds until the deadline, for poll(2). Rounded up, to avoid busy polling in the last
 * millisecond.
 */
static int remaining_ms(int64_t deadline_ns) {
  int64_t left_ns = deadline_ns - monotonic_ns();
  if (left_ns <= 0) return 0;
  int64_t left_ms = (left_ns + NS_PER_MS - 1) / NS_PER_MS;
  return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

int wait_for(int fd, short events, int wake_fd, int64_t deadline_ns) {
  for (;;) {
    struct pollfd sources[] = {{.fd = fd, .events = events}, {.fd = wake_fd, .events = POLLIN}};
    int ready = poll(sources, 2, remaining_ms(deadline_ns));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return errno;
    if (ready == 0) return ETIMEDOUT;
    if (sources[1].revents != 0) return ECANCELED;
    return (sources[0].revents & POLLNVAL) != 0 ? EBADF : 0;
  }
}

/*
 * send(2). An unconnected netlink socket sends to the kernel. The kernel executes the requests
 * inside this call and may block there on one of its locks; MSG_DONTWAIT only avoids waiting for
 * buffer space.
 */
static int send_request(const struct exchange *exchange, size_t at, size_t length, int fd,
                        int wake_fd) {
  while (length > 0) {
    ssize_t sent = send(fd, exchange->request + at, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    int error = wait_for(fd, POLLOUT, wake_fd, exchange->deadline_ns);
    if (error != 0) return error;
  }
  return 0;
}

/*
 * Port ID 0 is the kernel. The test driver's socket pairs have no netlink address and are treated
 * as the kernel.
 */
static bool from_kernel(const struct msghdr *message) {
  const struct sockaddr_nl *sender = message->msg_name;
  return message->msg_namelen < sizeof *sender || sender->nl_pid == 0;
}

int receive_datagram(int fd, struct reply_buffer *replies) {
  int error = reserve(replies, RECEIVE_BYTES);
  if (error != 0) return error;

  size_t start = next_start(replies);
  struct sockaddr_nl sender;
  struct iovec part = {.iov_base = replies->bytes + start, .iov_len = RECEIVE_BYTES};
  struct msghdr message = {
      .msg_name = &sender, .msg_namelen = sizeof sender, .msg_iov = &part, .msg_iovlen = 1};
  ssize_t received;
  do {
    received = recvmsg(fd, &message, MSG_DONTWAIT);
  } while (received < 0 && errno == EINTR);
  if (received < 0) return errno;
  if (!from_kernel(&message)) return 0;
  memset(replies->bytes + replies->length, 0, start - replies->length);
  replies->length = start + (size_t)received;
  return (message.msg_flags & MSG_TRUNC) != 0 ? EMSGSIZE : 0;
}

/*
 * Searches the messages from `start` on for the end of the exchange. The end is recognized by its
 * sequence number, not by the number of replies, because errors for earlier requests in a batch and
 * late replies to an earlier call arrive before it.
 */
static enum progress scan(const struct reply_buffer *replies, size_t start,
                          uint32_t last_sequence) {
  size_t end = replies->length;
  struct nlmsghdr header;
  for (size_t at = start; at < end; at += NLMSG_ALIGN((size_t)header.nlmsg_len)) {
    size_t left = end - at;
    if (left < sizeof header) return MALFORMED;
    memcpy(&header, replies->bytes + at, sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) return MALFORMED;
    bool ends = header.nlmsg_type == NLMSG_ERROR || header.nlmsg_type == NLMSG_DONE;
    if (ends && header.nlmsg_seq == last_sequence) return FINISHED;
  }
  return GO_ON;
}

/*
 * Receives until the last request is answered. ENOBUFS means that the kernel executed everything
 * but some replies are lost, perhaps including the last one. In that case, the function reads the
 * queued replies without waiting and returns ENOBUFS.
 */
static int receive_replies(struct exchange *exchange, size_t piece_bytes, int fd, int wake_fd) {
  struct reply_buffer *replies = &exchange->replies;
  int outcome = 0;
  for (;;) {
    size_t start = next_start(replies);
    int error = receive_datagram(fd, replies);
    if (error == ENOBUFS) {
      outcome = ENOBUFS;
      continue;
    }
    if (error == EAGAIN && outcome != 0) return outcome;
    if (error == EAGAIN) error = wait_for(fd, POLLIN, wake_fd, exchange->deadline_ns);
    if (error != 0) return error;
    enum progress progress = scan(replies, start, exchange->last_sequence);
    if (progress == FINISHED) return outcome;
    if (progress == MALFORMED) return EBADMSG;
    if (piece_bytes != 0 && replies->length >= piece_bytes) return outcome;
    if (monotonic_ns() >= exchange->deadline_ns) return outcome != 0 ? outcome : ETIMEDOUT;
  }
}

/* Sends part of the request and receives until `last_sequence` is answered. */
static void run_part(struct exchange *exchange, size_t at, size_t length, size_t piece_bytes, int fd,
                     int wake_fd) {
  exchange->error = send_request(exchange, at, length, fd, wake_fd);
  if (exchange->error == 0)
    exchange->error = receive_replies(exchange, piece_bytes, fd, wake_fd);
}

/*
 * Returns the length of the message at `at` and sets its sequence number. Returns 0 if there is no
 * valid message.
 */
static size_t message_at(const struct exchange *exchange, size_t at, uint32_t *sequence) {
  size_t left = exchange->request_length - at;
  struct nlmsghdr header;
  if (left < sizeof header) return 0;
  memcpy(&header, exchange->request + at, sizeof header);
  if (header.nlmsg_len < sizeof header || header.nlmsg_len > left) return 0;
  *sequence = header.nlmsg_seq;
  return header.nlmsg_len;
}

static void run_one_by_one(struct exchange *exchange, int fd, int wake_fd) {
  size_t end = exchange->request_length, piece_bytes = exchange->piece_bytes;
  for (size_t at = 0, length; at < end; at += NLMSG_ALIGN(length)) {
    length = message_at(exchange, at, &exchange->last_sequence);
    if (length == 0) exchange->error = EBADMSG;
    else run_part(exchange, at, length, 0, fd, wake_fd);
    if (exchange->error != 0) return;
    if (piece_bytes != 0 && exchange->replies.length >= piece_bytes) return;
  }
}

void exchange_run(struct exchange *exchange, int fd, int wake_fd) {
  if (exchange->one_by_one) run_one_by_one(exchange, fd, wake_fd);
  else run_part(exchange, 0, exchange->request_length, exchange->piece_bytes, fd, wake_fd);
}
