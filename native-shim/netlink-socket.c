#include "netlink-socket.h"

#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_WATCHED_IN_QUEUE = 64 };

/* Stack size of a socket's thread. musl's default is of the same order. */
enum { STACK_BYTES = 256 * 1024 };

/* The owner, the thread and every delivery each hold a reference. */
struct netlink_socket {
  pthread_mutex_t lock;
  /* Signaled when any of the fields below changes. */
  pthread_cond_t changed;
  atomic_int references;
  struct completion_queue *completion_queue;
  void *context;
  int fd;
  /* Becomes readable when the socket is closed, which ends a wait in poll(2). -1 if there is no thread. */
  int wake_fd;
  bool has_thread;
  bool is_closed;
  bool is_watched;
  /* False after an error has ended the watch. */
  bool is_watching;
  size_t watched_in_queue;
  struct delivery *first, *last;
};

struct completion_queue {
  pthread_mutex_t lock;
  struct delivery *first, *last;
  void (*ring)(void *context);
  void *context;
};

struct completion_queue *completion_queue_create(void (*ring)(void *context), void *context) {
  struct completion_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) return NULL;
  pthread_mutex_init(&queue->lock, NULL);
  queue->ring = ring;
  queue->context = context;
  return queue;
}

void completion_queue_free(struct completion_queue *queue) {
  pthread_mutex_destroy(&queue->lock);
  free(queue);
}

/*
 * Adds a delivery, and rings if the queue was empty. After a ring, the owner takes deliveries until
 * the queue is empty.
 */
static void completion_queue_put(struct completion_queue *queue, struct delivery *delivery) {
  delivery->next = NULL;
  pthread_mutex_lock(&queue->lock);
  bool was_empty = queue->first == NULL;
  if (was_empty) queue->first = delivery;
  else queue->last->next = delivery;
  queue->last = delivery;
  pthread_mutex_unlock(&queue->lock);
  if (was_empty) queue->ring(queue->context);
}

struct delivery *completion_queue_take(struct completion_queue *queue) {
  pthread_mutex_lock(&queue->lock);
  struct delivery *delivery = queue->first;
  if (delivery != NULL) queue->first = delivery->next;
  pthread_mutex_unlock(&queue->lock);
  return delivery;
}

static void socket_release(struct netlink_socket *socket) {
  if (atomic_fetch_sub(&socket->references, 1) != 1) return;
  pthread_cond_destroy(&socket->changed);
  pthread_mutex_destroy(&socket->lock);
  free(socket);
}

/* Creates a delivery with a zeroed request. Returns NULL if there is no memory. */
static struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length) {
  struct delivery *delivery = calloc(1, sizeof *delivery + request_length);
  if (delivery == NULL) return NULL;
  atomic_fetch_add(&socket->references, 1);
  delivery->socket = socket;
  delivery->context = socket->context;
  return delivery;
}

void delivery_free(struct delivery *delivery) {
  struct netlink_socket *socket = delivery->socket;
  if (delivery->call == 0) {
    pthread_mutex_lock(&socket->lock);
    socket->watched_in_queue--;
    pthread_cond_broadcast(&socket->changed);
    pthread_mutex_unlock(&socket->lock);
  }
  reply_buffer_free(&delivery->exchange.replies);
  free(delivery);
  socket_release(socket);
}

static struct netlink_socket *socket_create(int fd, void *context,
                                            struct completion_queue *completion_queue) {
  struct netlink_socket *socket = calloc(1, sizeof *socket);
  if (socket == NULL) return NULL;
  pthread_mutex_init(&socket->lock, NULL);
  pthread_cond_init(&socket->changed, NULL);
  atomic_init(&socket->references, 1);
  socket->completion_queue = completion_queue;
  socket->context = context;
  socket->fd = fd;
  socket->wake_fd = -1;
  return socket;
}

/*
 * SO_RCVBUFFORCE ignores net.core.rmem_max. Without CAP_NET_ADMIN, it fails, and SO_RCVBUF is
 * limited to that maximum.
 */
static int set_receive_buffer(int fd, int bytes) {
  if (bytes == 0) return 0;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0) return 0;
  return setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/*
 * A netfilter transaction is one datagram, and the kernel rejects datagrams larger than the send
 * buffer. The buffer itself takes no memory. Without CAP_NET_ADMIN, the kernel's default remains.
 */
static void raise_send_buffer(int fd) {
  int bytes = 16 * 1024 * 1024;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
}

/*
 * Sets an option if requested. Also succeeds on kernels that do not have the option (ENOPROTOOPT).
 */
static int set_optional(int fd, int option, bool is_requested) {
  int one = 1;
  if (!is_requested || setsockopt(fd, SOL_NETLINK, option, &one, sizeof one) == 0) return 0;
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

/* Returns the name of the step that failed and sets errno, or returns NULL. */
static const char *set_up(int fd, const struct open_options *options) {
  if (set_receive_buffer(fd, options->receive_buffer_bytes) != 0) return "receive buffer";
  raise_send_buffer(fd);
  if (set_optional(fd, NETLINK_EXT_ACK, options->extended_ack) != 0) return "extended ack";
  if (set_optional(fd, NETLINK_CAP_ACK, options->cap_ack) != 0) return "cap ack";
  if (set_optional(fd, NETLINK_GET_STRICT_CHK, options->strict_check) != 0) return "strict check";
  if (bind_to_kernel_chosen_port(fd) != 0) return "bind";
  if (join_groups(fd, options) != 0) return "join group";
  return NULL;
}

struct netlink_socket *netlink_socket_open(int protocol, const struct open_options *options,
                                           struct completion_queue *completion_queue,
                                           const char **failed) {
  *failed = "socket";
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
  if (fd < 0) return NULL;
  struct netlink_socket *opened = NULL;
  *failed = set_up(fd, options);
  if (*failed == NULL) {
    opened = socket_create(fd, options->context, completion_queue);
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
  socket_release(socket);
}

/*
 * Puts a delivery into the completion queue unless the socket is closed. The caller holds the lock,
 * so the owner of a socket can be freed as soon as the socket is closed.
 */
static void deliver(struct netlink_socket *socket, struct delivery *delivery) {
  if (!socket->is_closed) {
    completion_queue_put(socket->completion_queue, delivery);
    return;
  }
  pthread_mutex_unlock(&socket->lock);
  delivery_free(delivery);
  pthread_mutex_lock(&socket->lock);
}

/*
 * Moves the replies from `received`, the thread's own large buffer, to a buffer of the right size,
 * because results may wait a long time for their owner. Small replies, the usual case, are copied.
 * Large replies take over the buffer.
 */
static int move_bytes(struct reply_buffer *received, struct reply_buffer *result) {
  if (received->length == 0) return 0;
  if (received->length > received->capacity / 2) {
    *result = *received;
    *received = (struct reply_buffer){0};
    return 0;
  }
  result->bytes = malloc(received->length);
  if (result->bytes == NULL) return ENOMEM;
  memcpy(result->bytes, received->bytes, received->length);
  result->length = result->capacity = received->length;
  received->length = 0;
  return 0;
}

static void carry_out(struct netlink_socket *socket, struct exchange *exchange,
                      struct reply_buffer *received) {
  received->length = 0;
  exchange->replies = *received;
  exchange_run(exchange, socket->fd, socket->wake_fd);
  *received = exchange->replies;
  exchange->replies = (struct reply_buffer){0};
  int error = move_bytes(received, &exchange->replies);
  if (error != 0) exchange->error = error;
}

/* Executes the oldest queued call. Enters and leaves with the lock held. */
static void run_next(struct netlink_socket *socket, struct reply_buffer *received) {
  struct delivery *call = socket->first;
  struct exchange *exchange = &call->exchange;
  socket->first = call->next;
  pthread_mutex_unlock(&socket->lock);
  /* The owner is no longer waiting for a call that is past its deadline. */
  if (monotonic_ns() >= exchange->deadline_ns) exchange->error = ETIMEDOUT;
  else carry_out(socket, exchange, received);
  pthread_mutex_lock(&socket->lock);
  deliver(socket, call);
}

/*
 * Enters and leaves with the lock held. If there is no memory for a delivery, the event is lost,
 * and the loss cannot be reported either.
 */
static void deliver_watched(struct netlink_socket *socket, int error,
                            struct reply_buffer *received) {
  struct delivery *delivery = delivery_create(socket, 0);
  if (delivery == NULL) return;
  delivery->exchange.error = error;
  if (move_bytes(received, &delivery->exchange.replies) != 0) delivery->exchange.error = ENOBUFS;
  socket->watched_in_queue++;
  deliver(socket, delivery);
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
    bool may_watch = socket->is_watching && socket->watched_in_queue < MAX_WATCHED_IN_QUEUE;
    if (socket->first != NULL) run_next(socket, &received);
    else if (may_watch) watch_once(socket, &received);
    else pthread_cond_wait(&socket->changed, &socket->lock);
  }
  struct delivery *call = socket->first;
  pthread_mutex_unlock(&socket->lock);
  while (call != NULL) {
    struct delivery *next = call->next;
    delivery_free(call);
    call = next;
  }
  close(socket->fd);
  close(socket->wake_fd);
  reply_buffer_free(&received);
  socket_release(socket);
  return NULL;
}

/*
 * Starts a detached thread with all signals blocked, because the main thread handles signals;
 * pthread_create(3). The thread is in the caller's network namespace. Returns 0 or an errno.
 */
static int start_thread(struct netlink_socket *socket) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, thread_main, socket);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

/*
 * Starts the socket's thread unless it is running. Returns 0 or an errno. The caller holds the
 * lock.
 */
static int ensure_thread(struct netlink_socket *socket) {
  if (socket->has_thread) return 0;
  socket->wake_fd = eventfd(0, EFD_CLOEXEC);
  if (socket->wake_fd < 0) return errno;
  atomic_fetch_add(&socket->references, 1);
  int error = start_thread(socket);
  if (error == 0) {
    socket->has_thread = true;
    return 0;
  }
  atomic_fetch_sub(&socket->references, 1);
  close(socket->wake_fd);
  socket->wake_fd = -1;
  return error;
}

/* Returns the errno if no call can be made, otherwise 0. The caller holds the lock. */
static int refusal(const struct netlink_socket *socket) {
  if (socket->is_closed) return EBADF;
  return socket->is_watched ? EBUSY : 0;
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
  queued->call = call->id;
  if (call->request_length > 0)
    memcpy(queued->request, call->request, call->request_length);
  queued->exchange = (struct exchange){.request = queued->request,
                                       .request_length = call->request_length,
                                       .last_sequence = call->last_sequence,
                                       .piece_bytes = call->piece_bytes,
                                       .one_by_one = call->one_by_one,
                                       .deadline_ns = call->deadline_ns};
  pthread_mutex_lock(&socket->lock);
  int error = refusal(socket);
  if (error == 0) error = ensure_thread(socket);
  if (error == 0) enqueue(socket, queued);
  pthread_mutex_unlock(&socket->lock);
  if (error != 0) delivery_free(queued);
  return error;
}

int netlink_socket_watch(struct netlink_socket *socket) {
  pthread_mutex_lock(&socket->lock);
  int error = refusal(socket);
  if (error == 0) error = ensure_thread(socket);
  if (error == 0) {
    socket->is_watched = socket->is_watching = true;
    pthread_cond_broadcast(&socket->changed);
  }
  pthread_mutex_unlock(&socket->lock);
  return error;
}
