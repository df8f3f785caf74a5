#include "netlink-socket.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* Enough for the receive loop; musl's default is of the same order. */
enum { THREAD_STACK_BYTES = 256 * 1024, MAX_WATCHED_IN_OUTBOX = 64 };

struct outbox {
  pthread_mutex_t lock;
  struct delivery *first, *last;
  void (*ring)(void *context);
  void *context;
  bool is_connected;
  atomic_int references;
};

struct netlink_socket {
  pthread_mutex_t lock;
  /* Signalled when any of the fields below changes. */
  pthread_cond_t changed;
  atomic_int references;
  struct outbox *outbox;
  int fd;
  /* Readable once the socket is closed, so that a wait in poll(2) ends; -1 without a thread. */
  int wake_fd;
  bool has_thread;
  bool is_closed;
  bool is_watching;
  void *watch_context;
  size_t watched_in_outbox;
  struct delivery *first, *last;
  /* The call that the thread is carrying out; its context is NULL once it is abandoned. */
  struct delivery *running;
  /* Replies of synchronous calls; the owner's. */
  struct reply_buffer scratch;
};

/* ---- outbox ---- */

struct outbox *outbox_create(void (*ring)(void *context), void *context) {
  struct outbox *outbox = calloc(1, sizeof *outbox);
  if (outbox == NULL) return NULL;
  pthread_mutex_init(&outbox->lock, NULL);
  outbox->ring = ring;
  outbox->context = context;
  outbox->is_connected = true;
  atomic_init(&outbox->references, 1);
  return outbox;
}

void outbox_release(struct outbox *outbox) {
  if (atomic_fetch_sub(&outbox->references, 1) != 1) return;
  pthread_mutex_destroy(&outbox->lock);
  free(outbox);
}

/*
 * Rings for the first delivery only: the owner takes until nothing is left. Under the lock, so that no
 * ring can come after `outbox_disconnect` has returned. Returns false when nobody will take it.
 */
static bool outbox_put(struct outbox *outbox, struct delivery *delivery) {
  delivery->next = NULL;
  pthread_mutex_lock(&outbox->lock);
  bool is_connected = outbox->is_connected;
  bool was_empty = outbox->first == NULL;
  if (is_connected) {
    if (was_empty) outbox->first = delivery;
    else outbox->last->next = delivery;
    outbox->last = delivery;
    if (was_empty) outbox->ring(outbox->context);
  }
  pthread_mutex_unlock(&outbox->lock);
  return is_connected;
}

struct delivery *outbox_take(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  struct delivery *delivery = outbox->first;
  if (delivery != NULL) outbox->first = delivery->next;
  pthread_mutex_unlock(&outbox->lock);
  return delivery;
}

void outbox_disconnect(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  outbox->is_connected = false;
  pthread_mutex_unlock(&outbox->lock);
  for (struct delivery *left; (left = outbox_take(outbox)) != NULL;) delivery_free(left);
}

/* ---- life of a socket ---- */

static void socket_release(struct netlink_socket *socket) {
  if (atomic_fetch_sub(&socket->references, 1) != 1) return;
  outbox_release(socket->outbox);
  pthread_cond_destroy(&socket->changed);
  pthread_mutex_destroy(&socket->lock);
  free(socket);
}

static struct netlink_socket *socket_create(int fd, struct outbox *outbox) {
  struct netlink_socket *socket = calloc(1, sizeof *socket);
  if (socket == NULL) return NULL;
  pthread_mutex_init(&socket->lock, NULL);
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&socket->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  atomic_init(&socket->references, 1);
  atomic_fetch_add(&outbox->references, 1);
  socket->outbox = outbox;
  socket->fd = fd;
  socket->wake_fd = -1;
  return socket;
}

/* The privileged option ignores net.core.?mem_max; without CAP_NET_ADMIN the plain one caps there. */
static int set_buffer(int fd, int forced, int plain, int bytes) {
  if (bytes == 0) return 0;
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) == 0) return 0;
  return setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof bytes);
}

/* Wishes: a kernel too old for one answers ENOPROTOOPT and does without. */
static int set_wish(int fd, int option, bool is_wanted) {
  int one = 1;
  if (!is_wanted || setsockopt(fd, SOL_NETLINK, option, &one, sizeof one) == 0) return 0;
  return errno == ENOPROTOOPT ? 0 : -1;
}

static int bind_to_kernel_chosen_port(int fd) {
  struct sockaddr_nl address = {.nl_family = AF_NETLINK};
  return bind(fd, (const struct sockaddr *)&address, sizeof address);
}

static int join_groups(int fd, const struct open_options *options) {
  for (size_t index = 0; index < options->group_count; index++) {
    const uint32_t *group = &options->groups[index];
    if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group, sizeof *group) != 0) return -1;
  }
  return 0;
}

/* Returns the name of what failed, with errno, or NULL. */
static const char *set_up(int fd, const struct open_options *options) {
  if (set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options->receive_buffer_bytes) != 0) return "receive buffer";
  if (set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options->send_buffer_bytes) != 0) return "send buffer";
  if (set_wish(fd, NETLINK_EXT_ACK, options->extended_ack) != 0) return "extended ack";
  if (set_wish(fd, NETLINK_CAP_ACK, options->cap_ack) != 0) return "cap ack";
  if (set_wish(fd, NETLINK_GET_STRICT_CHK, options->strict_check) != 0) return "strict check";
  if (bind_to_kernel_chosen_port(fd) != 0) return "bind";
  if (join_groups(fd, options) != 0) return "join group";
  return NULL;
}

struct netlink_socket *netlink_socket_open(int protocol, const struct open_options *options,
                                           struct outbox *outbox, const char **failed) {
  *failed = "socket";
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return NULL;
  struct netlink_socket *opened = NULL;
  *failed = set_up(fd, options);
  if (*failed == NULL) {
    opened = socket_create(fd, outbox);
    if (opened == NULL) *failed = "allocate";
  }
  if (opened == NULL) {
    int error = errno;
    close(fd);
    errno = error;
  }
  return opened;
}

bool netlink_socket_is_closed(struct netlink_socket *socket) {
  pthread_mutex_lock(&socket->lock);
  bool is_closed = socket->is_closed;
  pthread_mutex_unlock(&socket->lock);
  return is_closed;
}

void netlink_socket_close(struct netlink_socket *socket) {
  pthread_mutex_lock(&socket->lock);
  socket->is_closed = true;
  if (socket->has_thread) eventfd_write(socket->wake_fd, 1);
  else close(socket->fd);
  pthread_cond_broadcast(&socket->changed);
  pthread_mutex_unlock(&socket->lock);
  reply_buffer_free(&socket->scratch);
  socket_release(socket);
}

/* ---- deliveries ---- */

static struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length) {
  struct delivery *delivery = calloc(1, sizeof *delivery + request_length);
  if (delivery == NULL) return NULL;
  atomic_fetch_add(&socket->references, 1);
  delivery->socket = socket;
  return delivery;
}

void delivery_free(struct delivery *delivery) {
  struct netlink_socket *socket = delivery->socket;
  if (delivery->is_watched) {
    pthread_mutex_lock(&socket->lock);
    socket->watched_in_outbox--;
    pthread_cond_broadcast(&socket->changed);
    pthread_mutex_unlock(&socket->lock);
  }
  reply_buffer_free(&delivery->exchange.replies);
  free(delivery);
  socket_release(socket);
}

/* ---- the thread ---- */

/* Carries out the oldest queued call. Enters and leaves with the lock held. */
static void run_next(struct netlink_socket *socket) {
  struct delivery *call = socket->first;
  socket->first = call->next;
  socket->running = call;
  pthread_mutex_unlock(&socket->lock);
  exchange_run(&call->exchange, socket->fd, socket->wake_fd);
  pthread_mutex_lock(&socket->lock);
  socket->running = NULL;
  pthread_cond_broadcast(&socket->changed);
  /* Still under the lock: whoever looks for a call finds it in the socket or in the outbox. */
  if (call->context != NULL && outbox_put(socket->outbox, call)) return;
  pthread_mutex_unlock(&socket->lock);
  delivery_free(call);
  pthread_mutex_lock(&socket->lock);
}

/* Copies what a watch has received, so that a small event does not keep a large buffer. */
static struct delivery *watched_delivery(struct netlink_socket *socket, int error,
                                         const struct reply_buffer *received) {
  struct delivery *delivery = delivery_create(socket, 0);
  if (delivery == NULL) return NULL;
  delivery->exchange.error = error;
  struct reply_buffer *replies = &delivery->exchange.replies;
  if (received->length > 0) replies->bytes = malloc(received->length);
  if (replies->bytes == NULL && received->length > 0) delivery->exchange.error = ENOBUFS;
  if (replies->bytes != NULL) {
    memcpy(replies->bytes, received->bytes, received->length);
    replies->length = replies->capacity = received->length;
  }
  return delivery;
}

/* Enters and leaves with the lock held. Without memory the event is lost; the kernel cannot be asked again. */
static void deliver_watched(struct netlink_socket *socket, int error, const struct reply_buffer *received) {
  struct delivery *delivery = watched_delivery(socket, error, received);
  if (delivery == NULL) return;
  delivery->is_watched = true;
  delivery->context = socket->watch_context;
  socket->watched_in_outbox++;
  if (!socket->is_closed && outbox_put(socket->outbox, delivery)) return;
  pthread_mutex_unlock(&socket->lock);
  delivery_free(delivery);
  pthread_mutex_lock(&socket->lock);
}

/* Receives one datagram, or waits for one. Enters and leaves with the lock held. */
static void watch_once(struct netlink_socket *socket, struct reply_buffer *received) {
  pthread_mutex_unlock(&socket->lock);
  received->length = 0;
  int error = receive_datagram(socket->fd, received);
  if (error == EAGAIN) error = wait_for(socket->fd, POLLIN, socket->wake_fd, INT64_MAX);
  pthread_mutex_lock(&socket->lock);
  bool is_quiet = error == 0 && received->length == 0;
  if (is_quiet || error == ECANCELED || error == ETIMEDOUT) return;
  if (error != 0 && error != ENOBUFS) socket->is_watching = false;
  deliver_watched(socket, error, received);
}

static void *thread_main(void *argument) {
  struct netlink_socket *socket = argument;
  struct reply_buffer received = {0};
  pthread_mutex_lock(&socket->lock);
  while (!socket->is_closed) {
    bool may_watch = socket->is_watching && socket->watched_in_outbox < MAX_WATCHED_IN_OUTBOX;
    if (socket->first != NULL) run_next(socket);
    else if (may_watch) watch_once(socket, &received);
    else pthread_cond_wait(&socket->changed, &socket->lock);
  }
  pthread_mutex_unlock(&socket->lock);
  close(socket->fd);
  close(socket->wake_fd);
  reply_buffer_free(&received);
  socket_release(socket);
  return NULL;
}

/* pthread_create(3), detached and with all signals blocked: they are the main thread's. */
static int create_thread(struct netlink_socket *socket) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, thread_main, socket);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

/* Starts the socket's thread unless it runs. Returns 0 or an errno. The lock is held. */
static int ensure_thread(struct netlink_socket *socket) {
  if (socket->has_thread) return 0;
  socket->wake_fd = eventfd(0, EFD_CLOEXEC);
  if (socket->wake_fd < 0) return errno;
  atomic_fetch_add(&socket->references, 1);
  int error = create_thread(socket);
  if (error == 0) {
    socket->has_thread = true;
    return 0;
  }
  atomic_fetch_sub(&socket->references, 1);
  close(socket->wake_fd);
  socket->wake_fd = -1;
  return error;
}

/* ---- calls ---- */

/* Why no call can be made; 0 when it can. The lock is held. */
static int refusal(const struct netlink_socket *socket) {
  if (socket->is_closed) return EBADF;
  return socket->watch_context != NULL ? EBUSY : 0;
}

static void enqueue(struct netlink_socket *socket, struct delivery *call) {
  if (socket->first == NULL) socket->first = call;
  else socket->last->next = call;
  socket->last = call;
  pthread_cond_broadcast(&socket->changed);
}

int netlink_socket_submit(struct netlink_socket *socket, const struct call *call) {
  struct delivery *queued = delivery_create(socket, call->request_length);
  if (queued == NULL) return ENOMEM;
  memcpy(queued->request, call->request, call->request_length);
  queued->context = call->context;
  queued->exchange = (struct exchange){.request = queued->request,
                                       .request_length = call->request_length,
                                       .last_sequence = call->last_sequence,
                                       .deadline_ns = call->deadline_ns};
  pthread_mutex_lock(&socket->lock);
  int error = refusal(socket);
  if (error == 0) error = ensure_thread(socket);
  if (error == 0) enqueue(socket, queued);
  pthread_mutex_unlock(&socket->lock);
  if (error != 0) delivery_free(queued);
  return error;
}

/* Waits until nothing is queued or running. Returns 0, ETIMEDOUT or a refusal. */
static int wait_for_turn(struct netlink_socket *socket, int64_t deadline_ns) {
  struct timespec deadline = {.tv_sec = deadline_ns / 1000000000, .tv_nsec = deadline_ns % 1000000000};
  pthread_mutex_lock(&socket->lock);
  int error = refusal(socket);
  while (error == 0 && (socket->first != NULL || socket->running != NULL))
    error = pthread_cond_timedwait(&socket->changed, &socket->lock, &deadline);
  pthread_mutex_unlock(&socket->lock);
  return error;
}

void netlink_socket_transact(struct netlink_socket *socket, struct exchange *exchange) {
  if (socket->scratch.capacity > 16 * RECEIVE_BYTES) reply_buffer_free(&socket->scratch);
  atomic_store(&exchange->operation, OPERATION_SEND);
  exchange->error = wait_for_turn(socket, exchange->deadline_ns);
  if (exchange->error != 0) return;
  exchange->replies = socket->scratch;
  exchange->replies.length = 0;
  exchange_run(exchange, socket->fd, -1);
  socket->scratch = exchange->replies;
}

int netlink_socket_watch(struct netlink_socket *socket, void *context) {
  pthread_mutex_lock(&socket->lock);
  int error = refusal(socket);
  if (error == 0) error = ensure_thread(socket);
  if (error == 0) {
    socket->watch_context = context;
    socket->is_watching = true;
    pthread_cond_broadcast(&socket->changed);
  }
  pthread_mutex_unlock(&socket->lock);
  return error;
}

/* Unlinks the first queued call whose deadline is not later than `deadline_ns`. The lock is held. */
static struct delivery *take_queued(struct netlink_socket *socket, int64_t deadline_ns) {
  struct delivery *before = NULL;
  struct delivery *call = socket->first;
  while (call != NULL && call->exchange.deadline_ns > deadline_ns) {
    before = call;
    call = call->next;
  }
  if (call == NULL) return NULL;
  if (before == NULL) socket->first = call->next;
  else before->next = call->next;
  if (socket->last == call) socket->last = before;
  return call;
}

bool netlink_socket_abandon(struct netlink_socket *socket, int64_t deadline_ns,
                            struct abandoned *abandoned) {
  struct delivery *queued = NULL;
  pthread_mutex_lock(&socket->lock);
  struct delivery *running = socket->running;
  bool takes_running =
      running != NULL && running->context != NULL && running->exchange.deadline_ns <= deadline_ns;
  if (takes_running) {
    *abandoned = (struct abandoned){running->context, atomic_load(&running->exchange.operation)};
    running->context = NULL;
  } else {
    queued = take_queued(socket, deadline_ns);
    if (queued != NULL) *abandoned = (struct abandoned){queued->context, OPERATION_SEND};
  }
  pthread_mutex_unlock(&socket->lock);
  if (queued != NULL) delivery_free(queued);
  return takes_running || queued != NULL;
}
