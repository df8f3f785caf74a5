/** Tests the setup's one-line messages about missing things that it cannot install. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";

const toolchain = join(import.meta.dirname, "../../../toolchain");
const root = mkdtempSync(join(tmpdir(), "kube-ipvs-setup-"));
after(() => rmSync(root, { recursive: true, force: true }));

/** Fake commands by name that the machine has in addition to the basic ones. */
type Machine = Readonly<Record<string, string>>;

const base = [
  "sh",
  "dirname",
  "pwd",
  "readlink",
  "mkdir",
  "ln",
  "cat",
  "rm",
  "mktemp",
  "date",
  "sleep",
];
const amd64 = { uname: "echo x86_64" };
const arm64 = { uname: "echo aarch64" };
const asRoot = { id: "echo 0" };
const asUser = { id: "echo 1000" };
const apt = { "apt-get": "exit 100" };
const noModule = { modprobe: "exit 1" };
/** Simulates a kernel with IPVS as a module. Loading the module creates its file. */
const loadsIpvs = { modprobe: ': > "$LAB_IPVS_FILE"' };

let machineCount = 0;

/** Runs a copy of the scripts in a separate project, with a PATH that contains the machine's commands. */
function run(machine: Machine, script: string, ...groups: string[]): Ending {
  const { status, lines } = runWith({}, machine, script, ...groups);
  return { status, lines };
}

interface Ending {
  readonly status: number;
  readonly lines: readonly string[];
}

function runWith(
  environment: Readonly<Record<string, string>>,
  machine: Machine,
  script: string,
  ...groups: string[]
): Ending & { readonly hasLoadedIpvs: boolean } {
  const project = join(root, `machine-${machineCount++}`);
  const commands = join(project, "commands");
  mkdirSync(commands, { recursive: true });
  cpSync(toolchain, join(project, "toolchain"), {
    recursive: true,
    filter: (path) => !path.includes("node_modules"),
  });
  for (const name of base) symlinkSync(whereIs(name), join(commands, name));
  for (const [name, body] of Object.entries(machine)) {
    writeFileSync(join(commands, name), `#!/bin/sh\n${body}\n`);
    chmodSync(join(commands, name), 0o755);
  }
  const ipvsFile = join(project, "ip_vs");
  const { status, stderr, stdout } = spawnSync(join(project, "toolchain", script), groups, {
    encoding: "utf8",
    env: { PATH: commands, LAB_IPVS_FILE: ipvsFile, ...environment },
  });
  const lines = `${stdout}${stderr}`.split("\n").filter((line) => line !== "");
  return { status: status ?? -1, lines, hasLoadedIpvs: existsSync(ipvsFile) };
}

function whereIs(command: string): string {
  return spawnSync("sh", ["-c", `command -v ${command}`], { encoding: "utf8" }).stdout.trim();
}

interface Case {
  readonly name: string;
  readonly machine: Machine;
  readonly environment?: Readonly<Record<string, string>>;
  readonly command: readonly [script: string, ...groups: string[]];
  readonly says: string;
}

const cases: readonly Case[] = [
  {
    name: "no compiler and no apt",
    machine: { ...amd64, ...asRoot },
    command: ["install-packages.sh", "build"],
    says: "setup: missing: gcc; apt-get is not available to install it: use Debian 12, or install these manually",
  },
  {
    name: "no compiler, not root",
    machine: { ...amd64, ...asUser, ...apt },
    command: ["install-packages.sh", "build"],
    says: "setup: missing: gcc; only root can install it: run as root, or first: sudo apt-get install gcc",
  },
  {
    name: "no npm, no Node.js, no apt",
    machine: { ...amd64, ...asRoot },
    command: ["install-node.sh"],
    says: "setup: missing: npm; apt-get is not available to install it: use Debian 12, or install these manually",
  },
  {
    name: "an old Node.js and an architecture without a pinned one",
    machine: { uname: "echo riscv64", node: "exit 1", ...asRoot },
    command: ["install-node.sh"],
    says: "setup: Node.js is missing or older than 22.19.0, and there is no pinned one for riscv64: install Node.js 22.19.0 or later",
  },
  {
    name: "dependencies without npm, not root",
    machine: { ...amd64, ...asUser, ...apt },
    command: ["install-dependencies.sh"],
    says: "setup: missing: npm; only root can install it: run as root, or first: sudo apt-get install npm",
  },
  {
    name: "no Prometheus and no apt",
    machine: { ...amd64, ...asRoot },
    command: ["extract-prometheus.sh"],
    says: "setup: missing: prometheus; apt-get is not available to fetch it: use Debian 12, or put prometheus and promtool in PATH",
  },
  {
    name: "not root",
    machine: { ...amd64, ...asUser, ...noModule },
    command: ["require-lab.sh"],
    says: "setup: not root: the lab needs network and process namespaces; run as root, or: sudo make …",
  },
  {
    name: "no lab kernel and no apt, regardless of the machine's own kernel",
    machine: { ...amd64, ...asRoot, ...loadsIpvs },
    command: ["require-lab.sh"],
    says: "setup: missing: user-mode-linux; apt-get is not available to install it: use Debian 12, or install these manually",
  },
  {
    name: "no lab kernel for the architecture",
    machine: { ...arm64, ...asRoot, ...loadsIpvs, ...apt },
    command: ["require-lab.sh"],
    says: "setup: there is no lab kernel for aarch64: use an amd64 machine, or LAB=host with this machine's own kernel (make test-host)",
  },
  {
    name: "LAB=host on a kernel without IPVS",
    machine: { ...amd64, ...asRoot, ...noModule },
    environment: { LAB: "host" },
    command: ["require-lab.sh"],
    says: "setup: LAB=host: this machine's kernel has no IPVS (modprobe ip_vs fails); without LAB=host the lab kernel is used",
  },
];

describe("setup", () => {
  for (const { name, machine, environment = {}, command, says } of cases) {
    it(`reports what is missing: ${name}`, () => {
      const [script, ...groups] = command;
      const { status, lines } = runWith(environment, machine, script, ...groups);
      assert.deepEqual({ status, lines }, { status: 1, lines: [says] });
    });
  }

  it("loads IPVS into the machine's own kernel with LAB=host only", () => {
    const machine = { ...amd64, ...asRoot, ...loadsIpvs, "linux.uml": "exit 0" };
    const done = { status: 0, lines: [] };
    const usual = runWith({}, machine, "require-lab.sh");
    assert.deepEqual(usual, { ...done, hasLoadedIpvs: false });
    const onRequest = runWith({ LAB: "host" }, machine, "require-lab.sh");
    assert.deepEqual(onRequest, { ...done, hasLoadedIpvs: true });
  });

  it("does nothing if everything is installed", () => {
    const machine = { ...amd64, ...asUser, gcc: "exit 0" };
    assert.deepEqual(run(machine, "install-packages.sh", "build"), { status: 0, lines: [] });
  });

  it("installs all missing packages together, and reports that apt failed", () => {
    const failing = { "apt-get": 'echo "E: $*"; exit 100' };
    const machine = { ...amd64, ...asRoot, ...failing };
    const { status, lines } = run(machine, "install-packages.sh", "build", "lab-kernel");
    assert.equal(status, 1);
    assert.match(lines[0] ?? "", /^Installing gcc user-mode-linux .*FAILED after \d+\.\d s$/);
    assert.equal(lines[1], "E: update -q");
    assert.match(lines[2] ?? "", /^setup: apt-get could not install: gcc user-mode-linux; /);
  });

  it("continues with the installed lab kernel if apt cannot fetch 6.12", () => {
    const debian12 = { sed: "echo 12", head: "cat" };
    const failing = { "apt-get": 'echo "E: failed"; exit 100' };
    const machine = { ...amd64, ...asRoot, ...debian12, ...failing };
    const { status, lines } = run(machine, "extract-lab-kernel.sh");
    assert.equal(status, 0);
    assert.match(lines[0] ?? "", /^Fetching user-mode Linux 6\.12 .*FAILED after \d+\.\d s$/);
    assert.match(lines.at(-1) ?? "", /^setup: the lab runs on the installed user-mode Linux, /);
  });

  it("lets npm use the machine's certificate authorities, and disables install scripts", () => {
    const machine = { npm: 'echo "$*, $NODE_EXTRA_CA_CERTS"' };
    const authorities = "/etc/ssl/certs/ca-certificates.crt";
    const trusted = existsSync(authorities) ? authorities : "";
    const lines = [`ci --ignore-scripts --omit=dev, ${trusted}`];
    assert.deepEqual(run(machine, "npm-ci.sh", root, "--omit=dev"), { status: 0, lines });
  });

  it("uses the machine's own Node.js if it is new enough", () => {
    const own = process.execPath;
    const machine = { ...amd64, node: `exec ${own} "$@"` };
    assert.deepEqual(run(machine, "install-node.sh"), { status: 0, lines: [] });
  });
});
