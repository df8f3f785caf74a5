/*
 * Makes Node.js start programs without copying its memory.
 *
 * libuv calls fork(2) and then execve(2). In user-mode Linux a fork costs a page fault of 100 µs for each page that
 * either side touches afterwards, a hundred times what it costs elsewhere: with the heap of a test, up to a second for
 * each program. This library stands in front of fork(2) (LD_PRELOAD) and calls vfork(2) where the program is `node`:
 * the child borrows the memory until it executes the program, and the thread that called waits for that.
 *
 * The child runs on in its caller, as after vfork(2) in libc: the return address is kept in a register, since the child
 * overwrites the stack that it shares. libuv's child sets `environ`, which is shared, too: it is put back. Two threads
 * that did so at once would put back each other's, which is freed then; so only the main thread does it, and worker
 * threads fork.
 */
#define _GNU_SOURCE
#include "is-node.h"
#include <dlfcn.h>
#include <stddef.h>
#include <unistd.h>

/* Looked for when it is called: most programs do not, and it takes some page faults. */
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
