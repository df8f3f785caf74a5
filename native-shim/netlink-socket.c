#include "netlink-socket.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket-state.h"

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

void completion_queue_put(struct completion_queue *queue, struct delivery *delivery) {
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

struct netlink_socket *socket_retain(struct netlink_socket *socket) {
  atomic_fetch_add(&socket->references, 1);
  return socket;
}

void socket_release(struct netlink_socket *socket) {
  if (atomic_fetch_sub(&socket->references, 1) != 1) return;
  pthread_cond_destroy(&socket->changed);
  pthread_mutex_destroy(&socket->lock);
  free(socket);
}

struct delivery *delivery_create(struct netlink_socket *socket, size_t request_length) {
  struct delivery *delivery = calloc(1, sizeof *delivery + request_length);
  if (delivery == NULL) return NULL;
  delivery->socket = socket_retain(socket);
  return delivery;
}

void delivery_free(struct delivery *delivery) {
  struct netlink_socket *socket = delivery->socket;
  if (delivery->is_watched) {
    pthread_mutex_lock(&socket->lock);
    socket->watched_in_queue--;
    pthread_cond_broadcast(&socket->changed);
    pthread_mutex_unlock(&socket->lock);
  }
  reply_buffer_free(&delivery->exchange.replies);
  free(delivery);
  socket_release(socket);
}

static struct netlink_socket *socket_create(int fd, struct completion_queue *completion_queue) {
  struct netlink_socket *socket = calloc(1, sizeof *socket);
  if (socket == NULL) return NULL;
  pthread_mutex_init(&socket->lock, NULL);
  pthread_cond_init(&socket->changed, NULL);
  atomic_init(&socket->references, 1);
  socket->completion_queue = completion_queue;
  socket->fd = fd;
  socket->wake_fd = -1;
  return socket;
}

/*
 * SO_RCVBUFFORCE ignores net.core.rmem_max. Without CAP_NET_ADMIN it fails, and SO_RCVBUF is
 * limited to that maximum.
 */
static int set_receive_buffer(int fd, int bytes) {
  if (bytes == 0) return 0;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) == 0) return 0;
  return setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

/*
 * A netfilter transaction is one datagram, and the kernel rejects a datagram that is larger than the send buffer. The
 * buffer takes no memory of its own. Without CAP_NET_ADMIN, the kernel's default remains.
 */
static void raise_send_buffer(int fd) {
  int bytes = 16 * 1024 * 1024;
  (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes);
}

/*
 * Sets an option if it is requested. Succeeds without it on kernels that do not have the option
 * (ENOPROTOOPT).
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
    opened = socket_create(fd, completion_queue);
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

/* Returns the errno if no call can be made, otherwise 0. The caller holds the lock. */
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
  if (call->request_length > 0)
    memcpy(queued->request, call->request, call->request_length);
  queued->context = call->context;
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

/*
 * Unlinks the first queued call whose deadline is not later than `deadline_ns`. The caller holds
 * the lock.
 */
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

void *netlink_socket_abandon(struct netlink_socket *socket, int64_t deadline_ns) {
  void *context = NULL;
  struct delivery *queued = NULL;
  pthread_mutex_lock(&socket->lock);
  struct delivery *running = socket->running;
  if (running != NULL && running->exchange.deadline_ns <= deadline_ns) {
    context = running->context;
    running->context = NULL;
  }
  if (context == NULL) queued = take_queued(socket, deadline_ns);
  pthread_mutex_unlock(&socket->lock);
  if (queued == NULL) return context;
  context = queued->context;
  delivery_free(queued);
  return context;
}
