/*
 * Threads of the shim: detached, with a small stack, and deaf to signals: they are the main
 * thread's.
 */
#ifndef THREAD_H
#define THREAD_H

/* pthread_create(3). The thread is in the network namespace of the one that calls. Returns 0 or an
 * errno. */
int thread_start(void *(*body)(void *argument), void *argument);

#endif
