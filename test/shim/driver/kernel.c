/*
 * Tests the receive loop with the real kernel: NETLINK_ROUTE and NETLINK_USERSOCK in a separate
 * network namespace.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

static int open_netlink(int protocol, int receive_bytes) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  CHECK(fd >= 0);
  if (receive_bytes > 0)
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes) == 0);
  struct sockaddr_nl address = {.nl_family = AF_NETLINK};
  CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
  return fd;
}

/*
 * Writes a batch of NOOPs. The kernel only acknowledges them if requested, and no privilege is
 * needed.
 */
static size_t put_noops(uint8_t *at, int count, bool acknowledge_all) {
  size_t length = 0;
  for (int index = 1; index <= count; index++) {
    bool acknowledge = acknowledge_all || index == count;
    struct nlmsghdr header = {.nlmsg_len = sizeof header,
                              .nlmsg_type = NLMSG_NOOP,
                              .nlmsg_flags = NLM_F_REQUEST | (acknowledge ? NLM_F_ACK : 0),
                              .nlmsg_seq = (uint32_t)index};
    memcpy(at + length, &header, sizeof header);
    length += sizeof header;
  }
  return length;
}

static struct exchange run_noops(int fd, int count, bool acknowledge_all) {
  uint8_t *request = malloc((size_t)count * sizeof(struct nlmsghdr));
  CHECK(request != NULL);
  struct exchange exchange = exchange_for((uint32_t)count, 5000);
  exchange.request = request;
  exchange.request_length = put_noops(request, count, acknowledge_all);
  exchange_run(&exchange, fd, -1);
  free(request);
  return exchange;
}

static void dumps_links(void) {
  int fd = open_netlink(NETLINK_ROUTE, 0);
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
  } request = {.header = {.nlmsg_len = sizeof request,
                          .nlmsg_type = RTM_GETLINK,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
                          .nlmsg_seq = 3}};
  struct exchange exchange = exchange_for(3, 5000);
  exchange.request = (const uint8_t *)&request;
  exchange.request_length = sizeof request;
  exchange_run(&exchange, fd, -1);
  CHECK_EQUAL(exchange.error, 0);
  CHECK(exchange.replies.length > 100);
  reply_buffer_free(&exchange.replies);
  close(fd);
}

static void acknowledges_the_last_only(void) {
  int fd = open_netlink(NETLINK_ROUTE, 0);
  struct exchange exchange = run_noops(fd, 1000, false);
  CHECK_EQUAL(exchange.error, 0);
  CHECK_EQUAL(exchange.replies.length, sizeof(struct nlmsghdr) + sizeof(struct nlmsgerr));
  reply_buffer_free(&exchange.replies);
  close(fd);
}

/*
 * Requests more acknowledgements than the receive buffer can hold. The last one is among the lost
 * ones.
 */
static void keeps_what_enobufs_left(void) {
  int fd = open_netlink(NETLINK_ROUTE, 4096);
  struct exchange exchange = run_noops(fd, 1000, true);
  size_t one = sizeof(struct nlmsghdr) + sizeof(struct nlmsgerr);
  CHECK_EQUAL(exchange.error, ENOBUFS);
  CHECK(exchange.replies.length >= one && exchange.replies.length < 1000 * one);
  reply_buffer_free(&exchange.replies);

  exchange = run_noops(fd, 1, true);
  CHECK_EQUAL(exchange.error, 0);
  CHECK_EQUAL(exchange.replies.length, one);
  reply_buffer_free(&exchange.replies);
  close(fd);
}

/* Any process may write to a NETLINK_USERSOCK socket; its port id shows that it is not the kernel.
 */
static void ignores_other_senders(void) {
  int fd = open_netlink(NETLINK_USERSOCK, 0);
  int stranger = open_netlink(NETLINK_USERSOCK, 0);
  struct sockaddr_nl address;
  socklen_t length = sizeof address;
  CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
  uint8_t forged[64];
  size_t forged_length = put_message(forged, NLMSG_ERROR, 7, 20);
  ssize_t sent = sendto(stranger, forged, forged_length, 0, (struct sockaddr *)&address, length);
  CHECK_EQUAL(sent, forged_length);

  struct reply_buffer replies = {0};
  CHECK_EQUAL(receive_datagram(fd, &replies), 0);
  CHECK_EQUAL(replies.length, 0);
  CHECK_EQUAL(receive_datagram(fd, &replies), EAGAIN);
  reply_buffer_free(&replies);
  close(stranger);
  close(fd);
}

void run_kernel_cases(void) {
  static const struct test_case cases[] = {
      {"the kernel's links are dumped", dumps_links},
      {"a batch with only its last request acknowledged gets one reply", acknowledges_the_last_only},
      {"ENOBUFS is reported, queued replies are kept, the socket lives on",
       keeps_what_enobufs_left},
      {"datagrams from other processes are ignored", ignores_other_senders},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}
