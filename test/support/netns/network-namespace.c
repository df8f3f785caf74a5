/*
 * Creates and enters network namespaces without starting a program, because starting one takes 20
 * ms in a lab kernel. For tests only. Functions take a path and return 0 or an errno:
 *
 * - create(path): creates a namespace as `ip netns add` does, with `lo` up. The calling thread does
 *   not move.
 * - enter(path): moves the calling thread into the namespace that a file represents (setns(2)).
 *   Only the JavaScript main thread moves, with the sockets that it opens, the processes that it
 *   starts, and its view of /proc/sys/net and /proc/net. Pool threads that are already running do
 *   not move.
 * - remove(path): removes a namespace that create or `ip netns add` made.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <node_api.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/run/netns"
#define OWN_NAMESPACE "/proc/thread-self/ns/net"

/*
 * Namespaces are mounts. Mounts in this folder are visible in the mount namespaces that `ip netns
 * exec` creates.
 */
static int share_folder(void) {
  if (mkdir(FOLDER, 0755) != 0 && errno != EEXIST) return errno;
  if (mount("", FOLDER, "none", MS_SHARED | MS_REC, NULL) == 0) return 0;
  /* EINVAL means that the folder is not a mount yet. */
  if (errno != EINVAL || mount(FOLDER, FOLDER, "none", MS_BIND | MS_REC, NULL) != 0) return errno;
  return mount("", FOLDER, "none", MS_SHARED | MS_REC, NULL) == 0 ? 0 : errno;
}

static int set_loopback_up(void) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  int error = 0, any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0) error = errno;
  if (any >= 0) close(any);
  return error;
}

/*
 * The thread is in the new namespace afterwards, even if the namespace could not be bound to the
 * path.
 */
static int create_and_enter(const char *path) {
  int file = open(path, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0);
  if (file < 0) return errno;
  close(file);
  int error = 0;
  if (unshare(CLONE_NEWNET) != 0 || mount(OWN_NAMESPACE, path, "none", MS_BIND, NULL) != 0) error = errno;
  if (error == 0) return set_loopback_up();
  unlink(path);
  return error;
}

static int enter(const char *path) {
  int error = 0, file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || setns(file, CLONE_NEWNET) != 0) error = errno;
  if (file >= 0) close(file);
  return error;
}

static int create(const char *path) {
  int origin = open(OWN_NAMESPACE, O_RDONLY | O_CLOEXEC);
  if (origin < 0) return errno;
  int error = share_folder();
  if (error == 0) error = create_and_enter(path);
  if (setns(origin, CLONE_NEWNET) != 0 && error == 0) error = errno;
  close(origin);
  return error;
}

static int remove_namespace(const char *path) {
  return umount2(path, MNT_DETACH) == 0 && unlink(path) == 0 ? 0 : errno;
}

struct function {
  const char *name;
  int (*of_path)(const char *path);
};

static const struct function functions[] = {
    {"create", create}, {"enter", enter}, {"remove", remove_namespace}};

static napi_value call(napi_env env, napi_callback_info info) {
  napi_value argument, result;
  size_t count = 1, length;
  char path[PATH_MAX];
  void *function;

  napi_get_cb_info(env, info, &count, &argument, NULL, &function);
  if (count < 1 || napi_get_value_string_utf8(env, argument, path, sizeof(path), &length) != napi_ok) {
    napi_throw_type_error(env, NULL, "A path is needed");
    return NULL;
  }
  napi_create_int32(env, ((const struct function *)function)->of_path(path), &result);
  return result;
}

NAPI_MODULE_INIT() {
  for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
    napi_value function;
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, call, (void *)&functions[i], &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
