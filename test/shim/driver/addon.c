/* The addon under a Node-API of which any call may fail: no crash, no leak, and no call that is never settled. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "check.h"
#include "fake-node-api.h"

static bool has_failed(const char *name) {
  return failed_call() != NULL && strcmp(failed_call(), name) == 0;
}

/* JavaScript cannot be told if these fail. */
static bool is_deaf(void) {
  return has_failed("napi_call_function") || has_failed("napi_get_reference_value") ||
         has_failed("napi_get_undefined");
}

static napi_value open_socket(void) {
  const napi_value arguments[] = {number_value(NETLINK_ROUTE), number_value(0), number_value(0),
                                  bytes_value("", 0)};
  return call_addon("open", 4, arguments);
}

/* Submits a NOOP that the kernel acknowledges. True if a callback has to come. */
static bool submit(napi_value socket, double timeout_ms, int *calls) {
  const struct nlmsghdr request = {.nlmsg_len = sizeof request,
                                   .nlmsg_type = NLMSG_NOOP,
                                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
                                   .nlmsg_seq = 7};
  const napi_value arguments[] = {socket,
                                  bytes_value(&request, sizeof request),
                                  number_value(7),
                                  number_value(timeout_ms),
                                  number_value(0),
                                  number_value(0),
                                  counting_function(calls)};
  napi_value refused = call_addon("submit", 7, arguments);
  return refused != NULL && is_undefined(refused);
}

/* Waits until it was called, for up to ten seconds. */
static void expect_call(const int *calls) {
  for (int turn = 0; turn < 1000 && *calls == 0 && !is_deaf(); turn++) {
    turn_event_loop();
    if (*calls == 0) pause_ms(turn < 100 ? 1 : 100);
  }
  CHECK(*calls == 1 || is_deaf());
}

static void expire(napi_value socket) {
  call_addon("expire", 1, &socket);
}

/* Everything that a program does with the addon. */
static void live(void) {
  if (!load_addon()) return;
  int answered = 0, given_up = 0, refused = 0, watched = 0;
  napi_value socket = open_socket();
  if (socket == NULL) return;
  if (submit(socket, 5000, &answered)) expect_call(&answered);
  stall_sends();
  if (submit(socket, 0, &given_up)) {
    wait_for_stalled_send();
    /* It hands over although its own call may fail at the first step: so again, as the next timer does. */
    expire(socket);
    expire(socket);
    expect_call(&given_up);
  }
  let_sends_go();
  napi_value watching = open_socket();
  if (watching != NULL) {
    const napi_value arguments[] = {watching, counting_function(&watched)};
    /* A watched socket takes no calls. */
    bool is_watching = call_addon("watch", 2, arguments) != NULL;
    bool is_pending = submit(watching, 5000, &refused);
    CHECK(!is_watching || !is_pending);
    call_addon("close", 1, &watching);
    if (is_pending) expect_call(&refused);
  }
  const napi_value no_socket = number_value(0);
  CHECK(call_addon("readPeer", 1, &no_socket) == NULL);
  const napi_value table[] = {undefined_value(), number_value(4), number_value(0)};
  CHECK(call_addon("readLegacyTable", 3, table) == NULL);
  call_addon("close", 1, &socket);
}

static void survives_each_failing_call(void) {
  int nth = 1;
  do {
    fail_call(nth++);
    live();
    end_environment_of_addon();
  } while (failed_call() != NULL);
  /* Loading alone makes four. */
  CHECK(nth > 40);
  fail_call(0);
  wait_for_threads();
}

static void settles_without_memory_for_a_result(void) {
  int calls = 0;
  CHECK(load_addon());
  napi_value socket = open_socket();
  CHECK(submit(socket, 5000, &calls));
  fail_calls_of("napi_create_arraybuffer");
  expect_call(&calls);
  CHECK_EQUAL(last_argument_count(), 0);
  fail_calls_of(NULL);
  calls = 0;
  CHECK(submit(socket, 5000, &calls));
  expect_call(&calls);
  CHECK_EQUAL(number_of(property_of(last_argument(0), "errno")), 0);
  end_environment_of_addon();
  wait_for_threads();
}

static void throws_what_it_cannot_return(void) {
  int calls = 0;
  CHECK(load_addon());
  napi_value socket = open_socket();
  call_addon("close", 1, &socket);
  fail_calls_of("napi_create_object");
  CHECK(!submit(socket, 5000, &calls));
  fail_calls_of(NULL);
  CHECK(!submit(socket, 5000, &calls));
  CHECK_EQUAL(calls, 0);
  end_environment_of_addon();
}

void run_addon_cases(void) {
  static const struct test_case cases[] = {
      {"each call of Node-API fails once", survives_each_failing_call},
      {"a call is settled although there is no memory for its result", settles_without_memory_for_a_result},
      {"a refused call throws if there is no memory for its result", throws_what_it_cannot_return},
  };
  run_cases(cases, sizeof cases / sizeof cases[0]);
}
