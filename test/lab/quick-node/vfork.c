/*
 * Lets Node.js start programs without copying its memory.
 *
 * libuv calls fork(2) and then execve(2). In user-mode Linux, a fork causes a page fault for each
 * page that either process touches afterwards. A page fault takes 100 µs, a hundred times as long
 * as on other kernels. With a test's heap, starting one program takes up to a second. If the
 * program is `node`, this library (LD_PRELOAD) replaces fork(2) with vfork(2): the child uses the
 * parent's memory until it executes the program, and the calling thread waits until then.
 *
 * As in libc's vfork(2), the child returns into the caller. The return address is kept in a
 * register, because the child overwrites the stack that it shares. libuv's child sets `environ`,
 * which is also shared, so the parent restores it. If two threads did this at the same time, each
 * would restore the other's value, which may already be freed. Therefore only the main thread uses
 * vfork, and worker threads use fork.
 */
#define _GNU_SOURCE
#include "is-node.h"
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

/*
 * Looked up on the first call, because most programs never fork and the lookup causes page faults.
 */
__attribute__((visibility("hidden"))) pid_t real_fork(void) {
  static pid_t (*found)(void);
  if (found == NULL) found = (pid_t (*)(void))dlsym(RTLD_NEXT, "fork");
  return found();
}

/* asm/unistd_64.h: 39 getpid, 186 gettid, 58 vfork. */
__asm__(
    ".globl fork\n"
    ".type fork, @function\n"
    "fork:\n"
    "  cmpb $0, is_node(%rip)\n"
    "  je 1f\n"
    "  movl $39, %eax\n"
    "  syscall\n"
    "  movl %eax, %edi\n"
    "  movl $186, %eax\n"
    "  syscall\n"
    "  cmpl %eax, %edi\n"
    "  jne 1f\n"
    "  popq %rdi\n"
    "  movq environ@GOTPCREL(%rip), %rdx\n"
    "  movq (%rdx), %rsi\n"
    "  movl $58, %eax\n"
    "  syscall\n"
    "  pushq %rdi\n"
    "  testl %eax, %eax\n"
    "  jz 2f\n"
    "  movq %rsi, (%rdx)\n"
    "  js 3f\n"
    "2: ret\n"
    "1: jmp real_fork\n"
    "3: negl %eax\n"
    "  pushq %rax\n"
    "  call __errno_location@PLT\n"
    "  popq %rcx\n"
    "  movl %ecx, (%rax)\n"
    "  movl $-1, %eax\n"
    "  ret\n"
    ".section .note.GNU-stack, \"\", @progbits\n");
