/*
 * Tests the socket with its queue and thread on the real kernel, in a separate network namespace.
 */
#include <errno.h>
#include <linux/if.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "netlink-socket.h"

static struct delivery *next_delivery(struct owner *owner) {
  return next_item(owner);
}

static struct delivery *take_delivery(struct owner *owner) {
  return completion_queue_take(owner->completion_queue);
}

static struct netlink_socket *open_route(struct owner *owner, int receive_bytes, uint32_t group) {
  struct open_options options = {.receive_buffer_bytes = receive_bytes,
                                 .extended_ack = true,
                                 .cap_ack = true,
                                 .strict_check = true,
                                 .groups = &group,
                                 .group_count = group == 0 ? 0 : 1,
                                 .context = owner};
  const char *failed;
  struct netlink_socket *socket =
      netlink_socket_open(NETLINK_ROUTE, &options, owner->completion_queue, &failed);
  CHECK(socket != NULL);
  return socket;
}

/* A request that the kernel only acknowledges. */
static struct nlmsghdr noop(uint32_t sequence) {
  return (struct nlmsghdr){.nlmsg_len = sizeof(struct nlmsghdr),
                           .nlmsg_type = NLMSG_NOOP,
                           .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                           .nlmsg_seq = sequence};
}

/* Submits a NOOP with the number `id`, which waits for the acknowledgment of `last_sequence`. */
static int submit(struct netlink_socket *socket, uint32_t sequence, uint32_t last_sequence,
                  int64_t timeout_ms, int id) {
  struct nlmsghdr request = noop(sequence);
  struct call call = {.request = (const uint8_t *)&request,
                      .request_length = sizeof request,
                      .last_sequence = last_sequence,
                      .deadline_ns = in_ms(timeout_ms),
                      .id = id};
  return netlink_socket_submit(socket, &call);
}

static void expect_delivery(struct owner *owner, int call, int error) {
  struct delivery *delivery = next_delivery(owner);
  CHECK(delivery->context == owner);
  CHECK_EQUAL(delivery->call, call);
  CHECK_EQUAL(delivery->exchange.error, error);
  delivery_free(delivery);
}

static void delivers_in_order(void) {
  enum { CALLS = 500 };
  struct owner owner;
  start_owner(&owner);
  struct netlink_socket *socket = open_route(&owner, 0, 0);
  for (int id = 1; id <= CALLS; id++)
    CHECK_EQUAL(submit(socket, (uint32_t)id, (uint32_t)id, 5000, id), 0);
  for (int id = 1; id <= CALLS; id++) expect_delivery(&owner, id, 0);
  netlink_socket_close(socket);
  stop_owner(&owner);
}

/* A request hangs in send(2) beyond its own deadline and that of the next call. */
static void skips_what_waited_too_long_and_recovers(void) {
  struct owner owner;
  start_owner(&owner);
  struct netlink_socket *socket = open_route(&owner, 0, 0);
  stall_sends();
  CHECK_EQUAL(submit(socket, 1, 1, 20, 1), 0);
  wait_for_stalled_send();
  CHECK_EQUAL(submit(socket, 2, 2, 40, 2), 0);
  pause_ms(60);
  CHECK_EQUAL(submit(socket, 4, 4, 5000, 3), 0);
  let_sends_go();
  struct delivery *stuck = next_delivery(&owner);
  CHECK_EQUAL(stuck->call, 1);
  delivery_free(stuck);
  struct delivery *unsent = next_delivery(&owner);
  CHECK_EQUAL(unsent->call, 2);
  CHECK_EQUAL(unsent->exchange.error, ETIMEDOUT);
  CHECK_EQUAL(unsent->exchange.replies.length, 0);
  delivery_free(unsent);
  expect_delivery(&owner, 3, 0);
  CHECK_EQUAL(submit(socket, 5, 5, 5000, 4), 0);
  expect_delivery(&owner, 4, 0);
  netlink_socket_close(socket);
  stop_owner(&owner);
}

/*
 * Closing a socket does not wait for the kernel. The descriptor and the calls are released when the
 * hanging call returns.
 */
static void closes_while_stuck(void) {
  struct owner owner;
  start_owner(&owner);
  int before = count_entries("/proc/self/fd");
  struct netlink_socket *socket = open_route(&owner, 0, 0);
  stall_sends();
  CHECK_EQUAL(submit(socket, 1, 1, 5000, 1), 0);
  wait_for_stalled_send();
  CHECK_EQUAL(submit(socket, 2, 2, 5000, 2), 0);
  netlink_socket_close(socket);
  CHECK(count_entries("/proc/self/fd") > before);
  let_sends_go();
  wait_for_threads();
  CHECK_EQUAL(count_entries("/proc/self/fd"), before);
  CHECK(take_delivery(&owner) == NULL);
  stop_owner(&owner);
}

/*
 * The owner goes away while a call is running. After that, nothing may be added to its completion
 * queue.
 */
static void outlives_its_owner(void) {
  struct owner owner;
  start_owner(&owner);
  struct netlink_socket *socket = open_route(&owner, 0, 0);
  stall_sends();
  CHECK_EQUAL(submit(socket, 1, 1, 5000, 1), 0);
  wait_for_stalled_send();
  netlink_socket_close(socket);
  completion_queue_free(owner.completion_queue);
  let_sends_go();
  wait_for_threads();
  close(owner.bell);
}

static void refuses_what_it_cannot_do(void) {
  struct owner owner;
  start_owner(&owner);
  struct netlink_socket *socket = open_route(&owner, 0, RTNLGRP_LINK);
  CHECK_EQUAL(netlink_socket_watch(socket), 0);
  CHECK_EQUAL(netlink_socket_watch(socket), EBUSY);
  CHECK_EQUAL(submit(socket, 1, 1, 1000, 1), EBUSY);
  netlink_socket_close(socket);

  wait_for_threads();
  int files = count_entries("/proc/self/fd");
  const char *failed = NULL;
  uint32_t group = 4096;
  struct open_options options = {.groups = &group, .group_count = 1};
  CHECK(netlink_socket_open(NETLINK_ROUTE, &options, owner.completion_queue, &failed) == NULL);
  CHECK(errno == EINVAL && strcmp(failed, "join group") == 0);
  CHECK(netlink_socket_open(31, &(struct open_options){0}, owner.completion_queue, &failed) == NULL);
  CHECK(errno == EPROTONOSUPPORT && strcmp(failed, "socket") == 0);
  CHECK_EQUAL(count_entries("/proc/self/fd"), files);
  stop_owner(&owner);
}

/* Sets `lo` up and down `count` times. Each change is an event in RTNLGRP_LINK. */
static void flap_loopback(int fd, int count) {
  struct {
    struct nlmsghdr header;
    struct ifinfomsg link;
  } request = {.header = {.nlmsg_len = sizeof request,
                          .nlmsg_type = RTM_NEWLINK,
                          .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
               .link = {.ifi_index = 1, .ifi_change = IFF_UP}};
  for (int index = 0; index < count; index++) {
    request.link.ifi_flags = index % 2 == 0 ? IFF_UP : 0;
    request.header.nlmsg_seq = (uint32_t)index;
    struct exchange exchange = exchange_for((uint32_t)index, 5000);
    exchange.request = (const uint8_t *)&request;
    exchange.request_length = sizeof request;
    exchange_run(&exchange, fd, -1);
    CHECK_EQUAL(exchange.error, 0);
    reply_buffer_free(&exchange.replies);
  }
}

/* Takes the items that the thread added in the meantime. Returns the number of reported losses. */
static int losses_in_full_queue(struct owner *owner) {
  struct delivery *taken[100];
  int count = 0, losses = 0;
  while (count < 100 && (taken[count] = take_delivery(owner)) != NULL) count++;
  CHECK_EQUAL(count, 64);
  while (count > 0) {
    if (taken[--count]->exchange.error == ENOBUFS) losses++;
    delivery_free(taken[count]);
  }
  return losses;
}

/*
 * The completion queue is not emptied in the meantime. It holds 64 items and the kernel's buffer a
 * few more; the rest is lost.
 */
static void watches_and_tells_of_loss(void) {
  struct owner owner;
  start_owner(&owner);
  struct netlink_socket *watched = open_route(&owner, 8192, RTNLGRP_LINK);
  int actor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  CHECK(actor >= 0);
  CHECK_EQUAL(netlink_socket_watch(watched), 0);
  flap_loopback(actor, 2);
  struct delivery *first = next_delivery(&owner);
  CHECK(first->call == 0 && first->context == &owner && first->exchange.error == 0);
  CHECK(first->exchange.replies.length > sizeof(struct nlmsghdr));
  delivery_free(first);

  for (int burst = 0; burst < 100; burst++) {
    flap_loopback(actor, 4);
    pause_ms(1);
  }
  int losses = losses_in_full_queue(&owner);
  while (losses == 0) {
    struct delivery *delivery = next_delivery(&owner);
    if (delivery->exchange.error == ENOBUFS) losses++;
    delivery_free(delivery);
  }
  close(actor);
  netlink_socket_close(watched);
  stop_owner(&owner);
}

static void opens_and_closes_without_leaking(void) {
  struct owner owner;
  start_owner(&owner);
  int before = count_entries("/proc/self/fd");
  for (int index = 0; index < 1000; index++) {
    struct netlink_socket *socket = open_route(&owner, 0, index % 3 == 0 ? RTNLGRP_LINK : 0);
    if (index % 3 == 0) CHECK_EQUAL(netlink_socket_watch(socket), 0);
    else CHECK_EQUAL(submit(socket, 1, 1, 5000, 1), 0);
    if (index % 3 == 1) expect_delivery(&owner, 1, 0);
    netlink_socket_close(socket);
  }
  wait_for_threads();
  for (struct delivery *left; (left = take_delivery(&owner)) != NULL;) delivery_free(left);
  CHECK_EQUAL(count_entries("/proc/self/fd"), before);
  stop_owner(&owner);
}

void run_socket_cases(void) {
  static const struct test_case cases[] = {
      {"calls are executed and delivered in order", delivers_in_order},
      {"calls behind a stuck call are not sent after their deadline",
       skips_what_waited_too_long_and_recovers},
      {"closing does not wait for a stuck call", closes_while_stuck},
      {"a running call outlives its owner", outlives_its_owner},
      {"watched and closed sockets reject calls, and open names the failure",
       refuses_what_it_cannot_do},
      {"a watch delivers events and reports lost ones", watches_and_tells_of_loss},
      {"1,000 sockets with threads leave nothing behind", opens_and_closes_without_leaking},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}
