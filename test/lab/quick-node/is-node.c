#include "is-node.h"
#include <string.h>
#include <unistd.h>

char is_node;

__attribute__((constructor(AFTER_IS_NODE - 1))) static void look(void) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  path[length < 0 ? 0 : length] = '\0';
  const char *name = strrchr(path, '/');
  is_node = name != NULL && strcmp(name, "/node") == 0;
}
