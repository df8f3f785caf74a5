#ifndef CORE_DUMPS_H
#define CORE_DUMPS_H

/*
 * From now on the kernel writes no core dump of this process, neither to a file nor to a program or socket that
 * kernel.core_pattern names, which a limit of 0 (RLIMIT_CORE) does not prevent; and processes without CAP_SYS_PTRACE can
 * neither trace it nor read its memory. Programs that it starts are as dumpable as ever. Returns an errno, 0: done.
 * prctl(2), PR_SET_DUMPABLE.
 */
int forbid_core_dumps(void);

#endif
