/**
 * Runs a command as root on a kernel as a distribution ships it, in full emulation by QEMU: computation is about 20
 * times slower than on the machine. The root is the machine's own file system, or that of another architecture, below an
 * overlay. Output appears on standard output, together with kernel messages.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface StockKernel {
  /** Folder of fetch-kernel.sh. */
  readonly folder: string;
  readonly architecture: "amd64" | "arm64";
  /** The root's folder. Undefined means the machine's root. */
  readonly root?: string;
}

const project: string = join(import.meta.dirname, "../../..");
const machines = {
  amd64: { program: "qemu-system-x86_64", machine: "q35", console: "ttyS0" },
  arm64: { program: "qemu-system-aarch64", machine: "virt", console: "ttyAMA0" },
} as const;
const timeoutMs = 3_600_000;

/** Boots the kernel and runs the shell lines. Without iptables, the node has neither its modules nor its programs. */
export async function runOnStock(
  kernel: StockKernel,
  hasIptables: boolean,
  lines: readonly string[],
): Promise<{ readonly status: number; readonly output: string }> {
  const lab = mkdtempSync(join(tmpdir(), "kube-ipvs-stock-"));
  const { program, machine, console } = machines[kernel.architecture];
  const modules = join(kernel.folder, hasIptables ? "usual" : "without-xtables", "lib/modules");
  writeFileSync(join(lab, "environment"), hasIptables ? "" : "LAB_IPTABLES=none\n");
  writeFileSync(join(lab, "command"), `${lines.join("\n")}\n`);
  const qemuArguments = [
    `-machine ${machine} -accel tcg,thread=multi -cpu max -smp 2 -m 3072 -nographic -no-reboot -nic none`,
    `-kernel ${join(kernel.folder, "vmlinuz")} -initrd ${join(kernel.folder, "initramfs")}`,
    "-fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
    "-device virtio-9p-pci,fsdev=host,mount_tag=host",
    `-fsdev local,id=lab,path=${lab},security_model=none`,
    "-device virtio-9p-pci,fsdev=lab,mount_tag=lab",
  ].flatMap((line) => line.split(" "));
  const parameters = [
    `console=${console} panic=-1 quiet mitigations=off`,
    `LAB_ROOT=${kernel.root ?? ""} LAB_MODULES=${modules} LAB_PROJECT=${project}`,
  ];
  const child = spawn(program, [...qemuArguments, "-append", parameters.join(" ")], {
    stdio: ["ignore", "inherit", "inherit"],
    timeout: timeoutMs,
  });
  await new Promise((resolve, reject) => child.once("close", resolve).once("error", reject));
  const read = (name: string): string => {
    const path = join(lab, name);
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  };
  const [status, output] = [read("status"), read("output")];
  rmSync(lab, { recursive: true });
  return { status: status === "" ? 125 : Number(status), output };
}
