#include "thread.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* Enough for all that runs on one; musl's default is of the same order. */
enum { STACK_BYTES = 256 * 1024 };

int thread_start(void *(*body)(void *argument), void *argument) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, body, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}
