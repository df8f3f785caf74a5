/*
 * Maps the memory of Node.js in large pieces instead of page by page.
 *
 * In user-mode Linux, a page fault takes 60 to 110 µs, a hundred times as long as on other kernels,
 * and starting Node.js causes 5,000 of them. Each page that is faulted in separately is also a
 * separate mapping in the machine's kernel, and all mappings are copied and discarded whenever the
 * process starts a program. Pages that are requested together (MADV_POPULATE) are adjacent and
 * become one mapping.
 *
 * If the program is `node`, this library (LD_PRELOAD) requests in large pieces all memory that will
 * certainly be used: the code and constants of the program and its libraries, the first megabytes
 * of malloc(3)'s heap, and the memory that V8 maps.
 *
 * The lab kernel (6.1) does not tell the machine about a populated page until its first use, which
 * causes a page fault after all. It does so for a whole range when the range's protection changes.
 * Each range therefore gets its final protection last.
 */
#define _GNU_SOURCE
#include "is-node.h"
#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * These constants have existed since Linux 5.14 and are missing from older headers. On older
 * kernels the calls fail, and pages are faulted in one by one.
 */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE 4096ul
/*
 * V8 maps twice this size less one page, keeps a piece that starts at a multiple of this size, and
 * unmaps the rest.
 */
#define V8_PAGE (256ul << 10)
#define SMALLEST_PIECE (64ul << 10)
#define LARGEST_PIECE (1ul << 20)
#define HEAP_PIECE (6 << 20)

static uintptr_t round_up(uintptr_t value, uintptr_t to) { return (value + to - 1) & ~(to - 1); }

/* The code of this library and of libc is running here, so it must stay executable. */
static int is_running(uintptr_t begin, uintptr_t end) {
  uintptr_t own = (uintptr_t)round_up, libc = (uintptr_t)syscall;
  return (begin <= own && own < end) || (begin <= libc && libc < end);
}

static int populate_object(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size, (void)unused;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W)) continue;
    uintptr_t address = object->dlpi_addr + segment->p_vaddr;
    uintptr_t begin = address & ~(PAGE - 1), end = round_up(address + segment->p_memsz, PAGE);
    if (is_running(begin, end)) continue;
    int protection = segment->p_flags & PF_X ? PROT_READ | PROT_EXEC : PROT_READ;
    mprotect((void *)begin, end - begin, protection ^ PROT_EXEC);
    madvise((void *)begin, end - begin, MADV_POPULATE_READ);
    mprotect((void *)begin, end - begin, protection);
  }
  return 0;
}

/* Creates one heap for all threads, which grows in large steps. Large allocations use it, too. */
static void populate_heap(void) {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TOP_PAD, HEAP_PIECE);
  free(malloc(1));
  uintptr_t end = (uintptr_t)sbrk(0) & ~(PAGE - 1), begin = end - HEAP_PIECE;
  mprotect((void *)begin, HEAP_PIECE, PROT_READ | PROT_WRITE | PROT_EXEC);
  madvise((void *)begin, HEAP_PIECE, MADV_POPULATE_WRITE);
  mprotect((void *)begin, HEAP_PIECE, PROT_READ | PROT_WRITE);
}

__attribute__((constructor(AFTER_IS_NODE))) static void populate(void) {
  if (!is_node) return;
  dl_iterate_phdr(populate_object, NULL);
  populate_heap();
}

static int is_for_v8(size_t length, int protection, int flags, int descriptor) {
  return is_node && descriptor == -1 && protection == (PROT_READ | PROT_WRITE) &&
         !(flags & (MAP_STACK | MAP_NORESERVE | MAP_SHARED | MAP_FIXED)) &&
         length >= SMALLEST_PIECE && length <= LARGEST_PIECE;
}

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) {
  if (!is_for_v8(length, protection, flags, descriptor))
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
  void *mapping = (void *)syscall(SYS_mmap, address, length, protection | PROT_EXEC, flags, -1, offset);
  if (mapping == MAP_FAILED) return mapping;
  uintptr_t begin = (uintptr_t)mapping, end = begin + length;
  if (length >= 2 * V8_PAGE - PAGE && length <= 2 * V8_PAGE) {
    begin = round_up(begin, V8_PAGE);
    if (begin + V8_PAGE < end) end = begin + V8_PAGE;
  }
  madvise((void *)begin, end - begin, MADV_POPULATE_WRITE);
  mprotect(mapping, length, protection);
  return mapping;
}

void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset)
    __attribute__((alias("mmap64")));
