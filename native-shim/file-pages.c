#include "file-pages.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* A mapping of /proc/self/smaps, as far as its lines were read. proc_pid_smaps(5). */
struct mapping {
  unsigned long start, end;
  /* Of a file, private, and not to be written. */
  bool is_constant;
  long resident_kb;
};

/* Reads the line that begins a mapping: `00400000-00746000 r--p 00000000 fe:01 2235 /usr/bin/node`. */
static bool read_header(const char *line, struct mapping *mapping) {
  char rights[5];
  unsigned long start, end, inode;
  int count = sscanf(line, "%lx-%lx %4s %*x %*x:%*x %lu", &start, &end, rights, &inode);
  if (count != 4) return false;
  bool is_constant = inode != 0 && rights[1] == '-' && rights[3] == 'p';
  *mapping = (struct mapping){.start = start, .end = end, .is_constant = is_constant};
  return true;
}

/* Called when all that matters of a mapping is known; gives what was released. */
static long release(const struct mapping *mapping, long own_kb) {
  if (!mapping->is_constant || own_kb != 0 || mapping->resident_kb == 0) return 0;
  size_t length = mapping->end - mapping->start;
  if (madvise((void *)mapping->start, length, MADV_DONTNEED) != 0) return 0;
  return mapping->resident_kb;
}

long release_file_pages(void) {
  FILE *file = fopen("/proc/self/smaps", "re");
  if (file == NULL) return 0;
  struct mapping mapping = {0};
  char *line = NULL;
  size_t capacity = 0;
  long released_kb = 0, own_kb;
  while (getline(&line, &capacity, file) >= 0) {
    if (read_header(line, &mapping)) continue;
    sscanf(line, "Rss: %ld kB", &mapping.resident_kb);
    if (sscanf(line, "Anonymous: %ld kB", &own_kb) == 1) released_kb += release(&mapping, own_kb);
  }
  free(line);
  fclose(file);
  return released_kb;
}
