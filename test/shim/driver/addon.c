/*
 * Tests the addon with a Node-API in which any call may fail: it must not crash or leak, and every
 * call must settle.
 */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "check.h"
#include "fake-node-api.h"

static bool has_failed(const char *name) {
  return failed_call() != NULL && strcmp(failed_call(), name) == 0;
}

/* Without these functions, the addon cannot notify JavaScript, which then uses its own timer. */
static bool is_deaf(void) {
  return has_failed("napi_call_function") || has_failed("napi_get_reference_value") ||
         has_failed("napi_get_undefined") || has_failed("napi_create_int32");
}

/* `calls` counts deliveries. */
static napi_value open_socket(int *calls) {
  const napi_value arguments[] = {number_value(NETLINK_ROUTE), number_value(0), number_value(0),
                                  bytes_value("", 0), counting_function(calls)};
  return call_addon("open", 5, arguments);
}

/* Submits a NOOP that the kernel acknowledges. Returns whether a delivery must follow. */
static bool submit(napi_value socket, double timeout_ms) {
  const struct nlmsghdr request = {.nlmsg_len = sizeof request,
                                   .nlmsg_type = NLMSG_NOOP,
                                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                                   .nlmsg_seq = 7};
  const napi_value arguments[] = {socket,
                                  number_value(1),
                                  bytes_value(&request, sizeof request),
                                  number_value(7),
                                  number_value(timeout_ms),
                                  number_value(0),
                                  number_value(0)};
  napi_value error = call_addon("submit", 7, arguments);
  return error != NULL && number_of(error) == 0;
}

/* Waits up to ten seconds for the callback. */
static void expect_call(const int *calls) {
  for (int turn = 0; turn < 1000 && *calls == 0 && !is_deaf(); turn++) {
    turn_event_loop();
    if (*calls == 0) pause_ms(turn < 100 ? 1 : 100);
  }
  CHECK(*calls == 1 || is_deaf());
}

static void deliver(void) {
  call_addon("deliver", 0, NULL);
}

/* Uses the addon as a program does. */
static void live(void) {
  if (!load_addon()) return;
  int answered = 0, watched = 0, stuck = 0;
  napi_value socket = open_socket(&answered);
  if (socket == NULL) return;
  if (submit(socket, 5000)) expect_call(&answered);
  deliver();
  napi_value watching = open_socket(&watched);
  if (watching != NULL) {
    /* A watched socket rejects calls. */
    bool is_watching = call_addon("watch", 1, &watching) != NULL;
    bool is_pending = submit(watching, 5000);
    CHECK(!is_watching || !is_pending);
    if (is_pending) expect_call(&watched);
    call_addon("close", 1, &watching);
  }
  const napi_value no_socket = number_value(0);
  CHECK(call_addon("readPeer", 1, &no_socket) == NULL);
  const napi_value table[] = {undefined_value(), number_value(4), number_value(0)};
  CHECK(call_addon("readLegacyTable", 3, table) == NULL);
  /* Nothing is delivered once a socket is closed, even if the kernel returns later. */
  napi_value closing = open_socket(&stuck);
  stall_sends();
  bool is_closed = false;
  if (closing != NULL && submit(closing, 5000)) {
    wait_for_stalled_send();
    is_closed = call_addon("close", 1, &closing) != NULL;
    CHECK(!is_closed || !submit(closing, 5000));
  }
  let_sends_go();
  deliver();
  CHECK(!is_closed || stuck == 0);
  call_addon("close", 1, &socket);
}

static void survives_each_failing_call(void) {
  int nth = 1;
  do {
    fail_call(nth++);
    live();
    end_environment_of_addon();
  } while (failed_call() != NULL);
  /* Loading the addon alone makes four Node-API calls. */
  CHECK(nth > 40);
  fail_call(0);
  wait_for_threads();
}

static void delivers_without_memory_for_the_replies(void) {
  int calls = 0;
  CHECK(load_addon());
  napi_value socket = open_socket(&calls);
  CHECK(submit(socket, 5000));
  fail_calls_of("napi_create_arraybuffer");
  expect_call(&calls);
  CHECK_EQUAL(last_argument_count(), 2);
  CHECK_EQUAL(number_of(last_argument(1)), ENOMEM);
  fail_calls_of(NULL);
  calls = 0;
  CHECK(submit(socket, 5000));
  expect_call(&calls);
  CHECK_EQUAL(last_argument_count(), 3);
  CHECK_EQUAL(number_of(last_argument(0)), 1);
  CHECK_EQUAL(number_of(last_argument(1)), 0);
  end_environment_of_addon();
  wait_for_threads();
}

void run_addon_cases(void) {
  static const struct test_case cases[] = {
      {"each Node-API call fails once", survives_each_failing_call},
      {"a call ends even without memory for its replies", delivers_without_memory_for_the_replies},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}
