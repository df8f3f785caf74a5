/**
 * Parses strace output for the netlink messages that a daemon sent, the files that it opened, and the processes that it
 * started.
 */

/** Arguments for strace: follow all threads, distinguish sockets, show the first bytes of each payload. */
export function straceArguments(pid: number, output: string): readonly string[] {
  const calls = "sendto,sendmsg,execve,execveat,fork,vfork,clone,clone3,open,openat,openat2,creat";
  const what = ["-e", `trace=${calls}`, "-yy", "-x", "-s", "24"];
  return ["-f", ...what, "-o", output, "-p", String(pid)];
}

export interface SystemCalls {
  /** Netlink messages that modify state: new, set, delete, add, swap, flush. */
  readonly changeMessages: readonly string[];
  /** Netlink messages that read: GET, LIST and dumps. */
  readonly readMessages: readonly string[];
  readonly openedFiles: readonly string[];
  readonly startedProcesses: readonly string[];
}

/** Read-only commands of the generic family IPVS: IPVS_CMD_GET_*, linux/ip_vs.h. */
const ipvsQueries: ReadonlySet<number> = new Set([4, 8, 12, 13, 14]);

/** Reads strace's output. */
export function readSystemCalls(text: string): SystemCalls {
  const lines = text.split("\n");
  const messages = lines
    .filter((line) => /\b(sendto|sendmsg)\(\d+<NETLINK:/.test(line))
    .flatMap(messagesOf);
  return {
    changeMessages: messages.filter((message) => !isQuery(message)),
    readMessages: messages.filter(isQuery),
    openedFiles: lines.filter((line) => /\b(open|openat|openat2|creat)\(/.test(line)),
    startedProcesses: lines.filter((line) =>
      /\b(execve|execveat|fork|vfork|clone|clone3)\(/.test(line),
    ),
  };
}

/** Splits a datagram into one text for each message, from its header to the next one. */
function messagesOf(line: string): readonly string[] {
  return line.split("{nlmsg_len=").slice(1);
}

function isQuery(message: string): boolean {
  const type = /nlmsg_type=([^,]+)/.exec(message)?.[1] ?? "";
  if (type === "IPVS")
    return ipvsQueries.has(Number(`0x${/"\\x([0-9a-f]{2})/.exec(message)?.[1]}`));
  return /IPSET_CMD_(LIST|SAVE|HEADER|TYPE|TEST)|RTM_GET|CTRL_CMD_GET|IPCTNL_MSG_CT_GET/.test(
    message,
  );
}

/** Whether a message belongs to the set-size check, which runs every 5 s regardless of changes. */
export function isSetLook(message: string): boolean {
  return message.includes("IPSET_CMD_LIST");
}

/** Whether an opened file belongs to the check of the estimator, half a minute after the start and every ten minutes. */
export function isEstimatorCheck(openedFile: string): boolean {
  return openedFile.includes("/net/ipv4/vs/run_estimation");
}
