import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { isSetLook, readSystemCalls } from "../../bench/system-calls.ts";

/** In strace 6.1 format, with truncated lines. */
const newServer = String.raw`828 sendto(27<NETLINK:[GENERIC:810]>, [{nlmsg_len=140, nlmsg_type=IPVS, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK, nlmsg_seq=1205, nlmsg_pid=0}, "\x05\x01\x00\x00"...`;
const listServers = newServer.replace(String.raw`"\x05`, String.raw`"\x08`);
const twoServers = `828 sendto(27<NETLINK:[GENERIC:810]>, [${[5, 7]
  .map((command) => `[{nlmsg_len=140, nlmsg_type=IPVS, nlmsg_seq=1}, "\\x0${command}\\x01"...]`)
  .join(", ")}], 280`;
const lookAtSets =
  "831 sendto(22<NETLINK:[NETFILTER:810]>, [{nlmsg_len=36, nlmsg_type=NFNL_SUBSYS_IPSET<<8|IPSET_CMD_LIST, nlmsg_flags=NLM_F_REQUEST|0x300";
const newAddress =
  "828 sendto(23<NETLINK:[ROUTE:810]>, [{nlmsg_len=40, nlmsg_type=RTM_NEWADDR, nlmsg_flags";

describe("system calls seen by strace", () => {
  it("distinguishes messages that change from messages that read", () => {
    const calls = readSystemCalls([newServer, listServers, lookAtSets, newAddress].join("\n"));
    assert.equal(calls.changeMessages.length, 2);
    assert.equal(calls.readMessages.length, 2);
    assert.equal(calls.readMessages.filter(isSetLook).length, 1);
  });

  it("counts every message of a datagram", () => {
    assert.equal(readSystemCalls(twoServers).changeMessages.length, 2);
  });

  it("counts files and processes, and ignores writes to other sockets", () => {
    const calls = readSystemCalls(
      [
        '814 openat(AT_FDCWD</>, "/proc/self/stat", O_RDONLY) = 38',
        '814 execve("/usr/sbin/iptables-save", ["iptables-save"]',
        "814 clone3({flags=CLONE_VM|CLONE_VFORK} => {parent_tid=[0]}, 88) = 900",
        '814 sendto(20<TCP:[10.0.0.1:80]>, "GET", 3, 0, NULL, 0) = 3',
      ].join("\n"),
    );
    assert.equal(calls.openedFiles.length, 1);
    assert.equal(calls.startedProcesses.length, 2);
    assert.deepEqual([...calls.changeMessages, ...calls.readMessages], []);
  });
});
