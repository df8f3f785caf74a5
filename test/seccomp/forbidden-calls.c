/*
 * Makes system calls that the program never makes, without arguments, and prints each call's name
 * and errno (0 if it succeeded).
 */
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	long number;
	long first;
} calls[] = {
	{ "mount", SYS_mount, 0 },
	{ "umount2", SYS_umount2, 0 },
	{ "unshare", SYS_unshare, 0 },
	{ "setns", SYS_setns, -1 },
	{ "bpf", SYS_bpf, 0 },
	{ "init_module", SYS_init_module, 0 },
	{ "finit_module", SYS_finit_module, -1 },
	{ "reboot", SYS_reboot, 0 },
	{ "kexec_load", SYS_kexec_load, 0 },
	{ "open_by_handle_at", SYS_open_by_handle_at, -1 },
	{ "keyctl", SYS_keyctl, 0 },
	{ "sethostname", SYS_sethostname, 0 },
	{ "socket(AF_PACKET)", SYS_socket, AF_PACKET },
	{ "ptrace", SYS_ptrace, 0 },
};

int main(void)
{
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		long second = calls[i].number == SYS_socket ? SOCK_DGRAM : 0;
		long result = syscall(calls[i].number, calls[i].first, second, 0, 0, 0, 0);
		printf("%s %d\n", calls[i].name, result < 0 ? errno : 0);
	}
	return 0;
}
