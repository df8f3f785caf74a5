/**
 * Creates a container's OCI runtime specification (config.json, version 1.0.2). It has the mounts, capabilities and
 * read-only paths in /proc that containerd and CRI-O use for pods with hostNetwork.
 */

import type { ContainerTemplate, EnvironmentVariable, SecurityContext } from "./pod.ts";
import { seccompOf } from "./seccomp.ts";

export interface Mount {
  readonly destination: string;
  readonly type: string;
  readonly source: string;
  readonly options: readonly string[];
}

/** Paths of the pod's volumes on the node, by name. */
export type VolumePaths = Readonly<Record<string, string>>;

export interface PodFacts {
  readonly rootPath: string;
  readonly nodeName: string;
  readonly volumePaths: VolumePaths;
  /** The folder with token and ca.crt. */
  readonly serviceAccountPath: string;
}

/** From linux/capability.h, in the order of their numbers. */
const allCapabilities: readonly string[] = [
  ...["CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"],
  ...["SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW"],
  ...["IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT"],
  ...["SYS_ADMIN", "SYS_BOOT", "SYS_NICE", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD"],
  ...["LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG"],
  ...["WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE"],
];

/** A container's capabilities without a security context. */
const defaultCapabilities: readonly string[] = [
  ...["CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID"],
  ...["SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"],
];

const maskedPaths: readonly string[] = [
  ...["/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats"],
  ...["/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"],
];

const readonlyPaths: readonly string[] = [
  ...["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
];

/** The capabilities that remain with a security context, such as `CAP_NET_ADMIN`, sorted by number. */
export function capabilitiesOf(context: SecurityContext = {}): readonly string[] {
  const { drop = [], add = [] } = context.capabilities ?? {};
  const start = context.privileged === true ? allCapabilities : defaultCapabilities;
  const kept = drop.includes("ALL") ? [] : start.filter((name) => !drop.includes(name));
  const wanted = new Set([...kept, ...add]);
  return allCapabilities.filter((name) => wanted.has(name)).map((name) => `CAP_${name}`);
}

/** The specification as an object, to be written as JSON. */
export function runtimeSpec(container: ContainerTemplate, pod: PodFacts): object {
  const context = container.securityContext ?? {};
  const isPrivileged = context.privileged === true;
  const capabilities = capabilitiesOf(context);
  return {
    ociVersion: "1.0.2",
    process: {
      user: { uid: context.runAsUser ?? 0, gid: 0 },
      cwd: "/",
      args: expanded(container.command, pod),
      env: [`PATH=${path}`, ...(container.env ?? []).map((one) => environmentLine(one, pod))],
      capabilities: {
        bounding: capabilities,
        effective: capabilities,
        permitted: capabilities,
      },
      noNewPrivileges: context.allowPrivilegeEscalation === false,
    },
    root: { path: pod.rootPath, readonly: context.readOnlyRootFilesystem === true },
    mounts: [...systemMounts(isPrivileged), ...volumeMounts(container, pod)],
    linux: {
      namespaces: ["pid", "ipc", "uts", "mount"].map((type) => ({ type })),
      ...(isPrivileged ? {} : { maskedPaths, readonlyPaths }),
      ...seccompOf(context, capabilities),
    },
  };
}

const path = "/usr/local/bin:/usr/sbin:/usr/bin";

function systemMounts(isPrivileged: boolean): readonly Mount[] {
  const safe = ["nosuid", "noexec", "nodev"];
  return [
    { destination: "/proc", type: "proc", source: "proc", options: safe },
    {
      destination: "/dev",
      type: "tmpfs",
      source: "tmpfs",
      options: ["nosuid", "strictatime", "mode=755"],
    },
    {
      destination: "/sys",
      type: "sysfs",
      source: "sysfs",
      options: [...safe, isPrivileged ? "rw" : "ro"],
    },
  ];
}

function volumeMounts(container: ContainerTemplate, pod: PodFacts): readonly Mount[] {
  const mounts = (container.volumeMounts ?? []).map(({ name, mountPath, readOnly }) => {
    const source = pod.volumePaths[name];
    if (source === undefined) throw new Error(`No volume ${name}`);
    return bind(source, mountPath, readOnly === true);
  });
  return [
    ...mounts,
    bind(pod.serviceAccountPath, "/var/run/secrets/kubernetes.io/serviceaccount", true),
  ];
}

function bind(source: string, destination: string, isReadOnly: boolean): Mount {
  return {
    destination,
    type: "bind",
    source,
    options: ["rbind", "rprivate", isReadOnly ? "ro" : "rw"],
  };
}

/** Expands `$(NAME)` as the kubelet does. */
function expanded(command: readonly string[], pod: PodFacts): readonly string[] {
  return command.map((word) => word.replaceAll("$(NODE_NAME)", pod.nodeName));
}

function environmentLine({ name, value, valueFrom }: EnvironmentVariable, pod: PodFacts): string {
  if (value !== undefined) return `${name}=${value}`;
  const field = valueFrom?.fieldRef?.fieldPath;
  if (field !== "spec.nodeName") throw new Error(`No value for ${name} from ${field}`);
  return `${name}=${pod.nodeName}`;
}
