/* Tests the receive loop with a scripted kernel: a socket pair that sends prepared datagrams. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

enum { OTHER_TYPE = 0x1c, HEADER = 16, SILENCE_MS = 60 };

/* Runs an exchange that waits for `last_sequence`, checks its result, and frees the replies. */
static void expect(struct pair pair, uint32_t last_sequence, int error, size_t reply_bytes) {
  struct exchange exchange = exchange_for(last_sequence, error == ETIMEDOUT ? SILENCE_MS : 10000);
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, error);
  CHECK_EQUAL(exchange.replies.length, reply_bytes);
  reply_buffer_free(&exchange.replies);
}

static void ends_at_acknowledgement(void) {
  struct pair pair = open_pair();
  play_message(pair, NLMSG_ERROR, 7, 20);
  expect(pair, 7, 0, HEADER + 20);
  close_pair(pair);
}

static void keeps_errors_of_earlier_requests(void) {
  struct pair pair = open_pair();
  play_message(pair, NLMSG_ERROR, 5, 20);
  play_message(pair, NLMSG_ERROR, 6, 40);
  play_message(pair, NLMSG_ERROR, 7, 20);
  expect(pair, 7, 0, 3 * HEADER + 80);
  close_pair(pair);
}

static void ends_a_dump_at_done(void) {
  struct pair pair = open_pair();
  for (int part = 0; part < 5; part++) play_message(pair, OTHER_TYPE, 9, 1000);
  play_message(pair, NLMSG_DONE, 9, 4);
  expect(pair, 9, 0, 6 * HEADER + 5004);
  close_pair(pair);
}

static void ends_at_a_piece_and_goes_on(void) {
  struct pair pair = open_pair();
  for (int part = 0; part < 5; part++) play_message(pair, OTHER_TYPE, 9, 1000);
  play_message(pair, NLMSG_DONE, 9, 4);
  static const size_t pieces[] = {2 * HEADER + 2000, 2 * HEADER + 2000, 2 * HEADER + 1004};
  for (size_t piece = 0; piece < 3; piece++) {
    struct exchange exchange = exchange_for(9, 10000);
    exchange.piece_bytes = HEADER + 1001;
    if (piece > 0) exchange.request_length = 0;
    exchange_run(&exchange, pair.fd, -1);
    CHECK_EQUAL(exchange.error, 0);
    CHECK_EQUAL(exchange.replies.length, pieces[piece]);
    reply_buffer_free(&exchange.replies);
  }
  /* One request was sent, regardless of the number of pieces. */
  uint8_t sent[64];
  CHECK_EQUAL(recv(pair.kernel, sent, sizeof sent, MSG_DONTWAIT), 16);
  CHECK_EQUAL(recv(pair.kernel, sent, sizeof sent, MSG_DONTWAIT), -1);
  close_pair(pair);
}

static void finds_the_end_inside_a_datagram(void) {
  struct pair pair = open_pair();
  uint8_t bytes[256];
  size_t length = put_message(bytes, OTHER_TYPE, 9, 8);
  length += put_message(bytes + length, NLMSG_DONE, 9, 4);
  length += put_message(bytes + length, NLMSG_ERROR, 10, 20);
  play(pair, bytes, length);
  expect(pair, 9, 0, length);
  close_pair(pair);
}

static void never_ends_at_a_stale_reply(void) {
  struct pair pair = open_pair();
  play_message(pair, NLMSG_ERROR, 6, 20);
  play_message(pair, NLMSG_DONE, 6, 4);
  play_message(pair, OTHER_TYPE, 7, 4);
  expect(pair, 7, ETIMEDOUT, 3 * HEADER + 28);
  close_pair(pair);
}

static void times_out_with_nothing(void) {
  struct pair pair = open_pair();
  int64_t start = monotonic_ns();
  expect(pair, 7, ETIMEDOUT, 0);
  CHECK(monotonic_ns() - start >= SILENCE_MS * (int64_t)MS);
  close_pair(pair);
}

static void reports_malformed_datagrams(void) {
  static const struct {
    uint32_t claimed;
    size_t length;
  } cases[] = {{16, 1},  {16, 15},   {0, 16},          {15, 16}, {17, 16},
               {20, 18}, {1000, 64}, {UINT32_MAX, 64}, {0, 64},  {0x80000000u, 16}};
  for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
    struct pair pair = open_pair();
    uint8_t bytes[64] = {0};
    put_message(bytes, NLMSG_ERROR, 7, 4);
    memcpy(bytes, &cases[index].claimed, sizeof cases[index].claimed);
    play(pair, bytes, cases[index].length);
    expect(pair, 7, EBADMSG, cases[index].length);
    close_pair(pair);
  }
}

static void reports_a_malformed_tail(void) {
  struct pair pair = open_pair();
  uint8_t bytes[64] = {0};
  size_t length = put_message(bytes, OTHER_TYPE, 7, 4) + 7;
  play(pair, bytes, length);
  expect(pair, 7, EBADMSG, length);
  close_pair(pair);
}

static void receives_a_large_datagram_whole(void) {
  struct pair pair = open_pair();
  play_message(pair, OTHER_TYPE, 7, RECEIVE_BYTES - HEADER - 3);
  play_message(pair, NLMSG_ERROR, 7, 20);
  /*
   * The first datagram ends at an unaligned offset. The second one starts at the next multiple of
   * four.
   */
  expect(pair, 7, 0, RECEIVE_BYTES + HEADER + 20);
  close_pair(pair);
}

static void refuses_a_datagram_that_no_kernel_sends(void) {
  struct pair pair = open_pair();
  play_message(pair, OTHER_TYPE, 7, RECEIVE_BYTES);
  expect(pair, 7, EMSGSIZE, RECEIVE_BYTES);
  close_pair(pair);
}

/*
 * Three requests in one call. Each is a separate datagram, which is sent after the answer to the
 * previous one.
 */
static struct exchange exchange_of_three(uint8_t *request) {
  size_t length = 0;
  for (uint32_t sequence = 4; sequence < 7; sequence++)
    length += put_message(request + length, OTHER_TYPE, sequence, 4);
  struct exchange exchange = exchange_for(0, 10000);
  exchange.request = request;
  exchange.request_length = length;
  exchange.one_by_one = true;
  return exchange;
}

static int datagrams_sent(struct pair pair, size_t length) {
  uint8_t sent[64];
  int count = 0;
  while (recv(pair.kernel, sent, sizeof sent, MSG_DONTWAIT) == (ssize_t)length) count++;
  return count;
}

static void carries_out_one_by_one(void) {
  struct pair pair = open_pair();
  uint8_t request[64];
  struct exchange exchange = exchange_of_three(request);
  for (uint32_t sequence = 4; sequence < 7; sequence++) {
    play_message(pair, OTHER_TYPE, sequence, 100);
    play_message(pair, NLMSG_DONE, sequence, 4);
  }
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, 0);
  CHECK_EQUAL(exchange.replies.length, 3 * (2 * HEADER + 104));
  CHECK_EQUAL(datagrams_sent(pair, HEADER + 4), 3);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

static void ends_a_piece_between_two(void) {
  struct pair pair = open_pair();
  uint8_t request[64];
  struct exchange exchange = exchange_of_three(request);
  exchange.piece_bytes = 2 * HEADER + 105;
  for (uint32_t sequence = 4; sequence < 7; sequence++) {
    play_message(pair, OTHER_TYPE, sequence, 100);
    play_message(pair, NLMSG_DONE, sequence, 4);
  }
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, 0);
  CHECK_EQUAL(exchange.replies.length, 2 * (2 * HEADER + 104));
  CHECK_EQUAL(datagrams_sent(pair, HEADER + 4), 2);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

static void sends_no_more_after_silence(void) {
  struct pair pair = open_pair();
  uint8_t request[64];
  struct exchange exchange = exchange_of_three(request);
  exchange.deadline_ns = in_ms(SILENCE_MS);
  play_message(pair, NLMSG_DONE, 4, 4);
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, ETIMEDOUT);
  CHECK_EQUAL(datagrams_sent(pair, HEADER + 4), 2);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

static void refuses_requests_without_ends(void) {
  static const uint32_t lengths[] = {0, 15, 21, UINT32_MAX};
  for (size_t index = 0; index < sizeof lengths / sizeof lengths[0]; index++) {
    struct pair pair = open_pair();
    uint8_t request[64];
    struct exchange exchange = exchange_of_three(request);
    memcpy(request + 2 * (HEADER + 4), &lengths[index], sizeof lengths[index]);
    play_message(pair, NLMSG_DONE, 4, 4);
    play_message(pair, NLMSG_DONE, 5, 4);
    exchange_run(&exchange, pair.fd, -1);
    CHECK_EQUAL(exchange.error, EBADMSG);
    CHECK_EQUAL(datagrams_sent(pair, HEADER + 4), 2);
    reply_buffer_free(&exchange.replies);
    close_pair(pair);
  }
}

static void ignores_empty_datagrams(void) {
  struct pair pair = open_pair();
  play(pair, "", 0);
  play_message(pair, NLMSG_ERROR, 7, 20);
  expect(pair, 7, 0, HEADER + 20);
  close_pair(pair);
}

static void ends_when_woken(void) {
  struct pair pair = open_pair();
  int wake_fd = eventfd(1, EFD_CLOEXEC);
  struct exchange exchange = exchange_for(7, 60000);
  exchange_run(&exchange, pair.fd, wake_fd);
  CHECK_EQUAL(exchange.error, ECANCELED);
  reply_buffer_free(&exchange.replies);
  close(wake_fd);
  close_pair(pair);
}

static void reports_a_bad_descriptor(void) {
  struct exchange exchange = exchange_for(7, 60000);
  exchange_run(&exchange, -1, -1);
  CHECK_EQUAL(exchange.error, EBADF);
}

static void reports_a_request_too_large(void) {
  struct pair pair = open_pair();
  size_t length = 64 * 1024 * 1024;
  uint8_t *request = calloc(1, length);
  CHECK(request != NULL);
  struct exchange exchange = exchange_for(7, 1000);
  exchange.request = request;
  exchange.request_length = length;
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, EMSGSIZE);
  free(request);
  close_pair(pair);
}

/* The other end is never read, so sending blocks and times out. */
static void times_out_while_sending(void) {
  struct pair pair = open_pair();
  int smallest = 1;
  CHECK(setsockopt(pair.fd, SOL_SOCKET, SO_SNDBUF, &smallest, sizeof smallest) == 0);
  struct pollfd end = {.fd = pair.fd, .events = POLLOUT};
  bool was_writable = true;
  for (int sent = 0; was_writable && sent < 1000; sent++) {
    was_writable = poll(&end, 1, 0) == 1;
    struct exchange exchange = exchange_for(7, 10);
    exchange_run(&exchange, pair.fd, -1);
    CHECK_EQUAL(exchange.error, ETIMEDOUT);
    reply_buffer_free(&exchange.replies);
  }
  CHECK(!was_writable);
  close_pair(pair);
}

static atomic_int alarms;
static void count_alarm(int signal) {
  (void)signal;
  alarms++;
}

/* The other thread answers late, so that the loop is interrupted while it waits. */
static void *answer_late(void *argument) {
  const struct pair *pair = argument;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  pause_ms(60);
  play_message(*pair, NLMSG_ERROR, 7, 20);
  return NULL;
}

static void goes_on_after_signals(void) {
  struct pair pair = open_pair();
  /*
   * The handler stays installed, because an alarm may still be pending after the timer has been
   * stopped.
   */
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = count_alarm}, NULL);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, answer_late, &pair) == 0);
  struct itimerval every_ms = {.it_interval.tv_usec = 1000, .it_value.tv_usec = 1000};
  setitimer(ITIMER_REAL, &every_ms, NULL);
  struct exchange exchange = exchange_for(7, 60000);
  exchange_run(&exchange, pair.fd, -1);
  setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
  pthread_join(thread, NULL);
  CHECK_EQUAL(exchange.error, 0);
  CHECK(alarms > 0);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

static void ends_at_the_deadline_with_more_queued(void) {
  struct pair pair = open_pair();
  for (int count = 0; count < 5; count++) play_message(pair, OTHER_TYPE, 3, 4);
  struct exchange exchange = exchange_for(7, 0);
  exchange_run(&exchange, pair.fd, -1);
  CHECK_EQUAL(exchange.error, ETIMEDOUT);
  CHECK_EQUAL(exchange.replies.length, HEADER + 4);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

static atomic_bool is_flooding;
static void *flood(void *argument) {
  const struct pair *pair = argument;
  uint8_t bytes[64];
  size_t length = put_message(bytes, OTHER_TYPE, 3, 32);
  while (is_flooding) {
    if (send(pair->kernel, bytes, length, MSG_DONTWAIT) < 0) {
      struct pollfd room = {.fd = pair->kernel, .events = POLLOUT};
      poll(&room, 1, 1);
    }
  }
  return NULL;
}

static void ends_at_the_deadline_under_a_flood(void) {
  struct pair pair = open_pair();
  pthread_t thread;
  is_flooding = true;
  CHECK(pthread_create(&thread, NULL, flood, &pair) == 0);
  struct exchange exchange = exchange_for(7, 50);
  exchange_run(&exchange, pair.fd, -1);
  is_flooding = false;
  pthread_join(thread, NULL);
  CHECK_EQUAL(exchange.error, ETIMEDOUT);
  CHECK(exchange.replies.length > 0);
  reply_buffer_free(&exchange.replies);
  close_pair(pair);
}

void run_exchange_cases(void) {
  static const struct test_case cases[] = {
      {"an acknowledgement of the last request ends the call", ends_at_acknowledgement},
      {"errors of earlier requests are kept", keeps_errors_of_earlier_requests},
      {"a dump ends at DONE", ends_a_dump_at_done},
      {"a long reply arrives in pieces, for one request", ends_at_a_piece_and_goes_on},
      {"the end may be inside a datagram", finds_the_end_inside_a_datagram},
      {"stale replies never end a call", never_ends_at_a_stale_reply},
      {"silence causes ETIMEDOUT", times_out_with_nothing},
      {"malformed headers cause EBADMSG and keep the bytes", reports_malformed_datagrams},
      {"a malformed tail causes EBADMSG", reports_a_malformed_tail},
      {"a large datagram is received completely", receives_a_large_datagram_whole},
      {"a datagram larger than any kernel datagram causes EMSGSIZE",
       refuses_a_datagram_that_no_kernel_sends},
      {"requests are executed one by one", carries_out_one_by_one},
      {"a piece of their replies ends between two requests", ends_a_piece_between_two},
      {"no request is sent after an unanswered one", sends_no_more_after_silence},
      {"requests without an end are not sent", refuses_requests_without_ends},
      {"empty datagrams are ignored", ignores_empty_datagrams},
      {"the wake descriptor ends a wait", ends_when_woken},
      {"a bad descriptor causes EBADF", reports_a_bad_descriptor},
      {"a request that is too large causes EMSGSIZE", reports_a_request_too_large},
      {"a timeout also covers sending", times_out_while_sending},
      {"signals do not end a wait", goes_on_after_signals},
      {"more queued data does not extend the deadline", ends_at_the_deadline_with_more_queued},
      {"unrelated messages do not extend the deadline", ends_at_the_deadline_under_a_flood},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}
