import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { listOf } from "../../../src/answer/answer.ts";
import { apiVersion } from "../../../src/answer/answers.ts";
import type { Plan } from "../../../src/answer/plan.ts";
import type { Config } from "../../../src/config/config.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import type { RunContext } from "../../../src/daemon/run.ts";
import type { DoctorReport } from "../../../src/doctor/render.ts";
import { failuresIn } from "../../support/failure-lines.ts";
import { type CommandRun, type Fakes, runCommand } from "../../support/run-command.ts";
import { well } from "../../support/well-status.ts";

const fileText =
  "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: ipvs\nfoo: 1\n";

const noChanges: Plan = { apiVersion, kind: "Plan", changes: [], conflicts: [] };

interface Outcome extends CommandRun {
  /** Written texts, by path. */
  readonly files: ReadonlyMap<string, string>;
  /** Called functions, with their configuration. */
  readonly calls: readonly (readonly [name: string, config: Config])[];
}

async function run(args: readonly string[], fakes: Fakes = {}): Promise<Outcome> {
  const calls: (readonly [string, Config])[] = [];
  const files = new Map<string, string>();
  const note = (name: string, config: Config): void => void calls.push([name, config]);
  const nothing = noChanges;
  const outcome = await runCommand(
    args,
    {
      daemon: {
        async runDaemon(config, parts) {
          note("run", config);
          await fakes.daemon?.runDaemon?.(config, parts);
        },
        prepareNode: async (config) => note("prepare", config),
        async cleanUpNode(config, parts) {
          note("clean-up", config);
          return (await fakes.daemon?.cleanUpNode?.(config, parts)) ?? true;
        },
      },
      endpointController: {
        runEndpointController: async (config) => note("endpoint-controller", config),
      },
      firstSync: {
        async answerWithoutDaemon(config, _parts, target) {
          note(target, config);
          const kind = target.startsWith("/v1/services") ? "ServiceList" : "DrainList";
          return JSON.stringify({ apiVersion, kind, items: [] });
        },
      },
      top: {
        runLive: async () => undefined,
        readTraffic: async () => ({
          ...listOf("TrafficList", []),
          ...{ intervalSeconds: 2, estimator: "on", notes: [] },
        }),
      },
      plan: {
        async planSync(config, parts, daemon) {
          note("plan", config);
          return (await fakes.plan?.planSync?.(config, parts, daemon)) ?? nothing;
        },
        async planApplied(config, parts, file) {
          note(`plan -f ${file.name}`, config);
          return (await fakes.plan?.planApplied?.(config, parts, file)) ?? nothing;
        },
        async planNodeCleanUp(config, parts) {
          note("plan --cleanup", config);
          return (await fakes.plan?.planNodeCleanUp?.(config, parts)) ?? nothing;
        },
      },
      doctor: {
        async examineNode(config, clock, isBeforeInstall) {
          note(`doctor ${isBeforeInstall}`, config);
          const report = fakes.doctor?.examineNode?.(config, clock, isBeforeInstall);
          return (await report) ?? reportOf("ok");
        },
      },
    },
    {
      writeFile: (path, text) => {
        if (path.startsWith("/missing/")) throw new Error("ENOENT: no such file or directory");
        files.set(path, text);
      },
      readFile: (path) => {
        if (path === "/config") return fileText;
        if (path === "/no-mode") return fileText.replace(/^mode:.*$/m, 'mode: ""');
        if (path === "/json") return `${fileText}logging: {format: json}\n`;
        throw new Error(`ENOENT: no such file or directory, open '${path}'`);
      },
    },
  );
  return { ...outcome, calls, files };
}

function reportOf(verdict: DoctorReport["verdict"]): DoctorReport {
  return { apiVersion, kind: "DoctorReport", verdict, checks: [], skipped: [] };
}

type PlanSync = NonNullable<NonNullable<Fakes["plan"]>["planSync"]>;
type CleanUp = NonNullable<NonNullable<Fakes["daemon"]>["cleanUpNode"]>;

describe("the program", () => {
  it("runs the daemon and exits with 0 after the daemon has stopped", async () => {
    const { code, out, err, calls } = await run(["--proxy-mode=ipvs", "--ipvs-scheduler=lc"]);
    assert.deepEqual([code, out, err], [0, "", ""]);
    assert.deepEqual(
      calls.map(([name, { scheduler }]) => [name, scheduler]),
      [["run", "lc"]],
    );
  });

  it("logs notices about the configuration in the configured format", async () => {
    const { err } = await run(["--config=/config", "--logging-format=json"]);
    assert.match(
      err,
      /^\{"ts":\d+,"level":"warn","v":0,"msg":"Ignoring unknown configuration field","path":"foo"\}\n$/,
    );
  });

  it("passes the daemon the configuration and the flags to show, without passwords", async () => {
    let parts: RunContext | undefined;
    await run(["--config=/config", "-v=4", "--master=https://me:secret@10.0.0.1:6443"], {
      daemon: {
        async runDaemon(_config, given) {
          parts = given;
        },
      },
    });
    const { object, flags } = parts?.shown ?? { object: {}, flags: new Map() };
    const { kind, mode, logging } = object as { kind: string; mode: string; logging: object };
    assert.deepEqual([kind, mode], ["KubeProxyConfiguration", "ipvs"]);
    assert.equal((logging as { verbosity: number }).verbosity, 4);
    const told = ["config", "v", "master", "proxy-mode"].map((name) => flags.get(name));
    assert.deepEqual(told, ["/config", "4", "https://***@10.0.0.1:6443", ""]);
    assert.doesNotMatch(JSON.stringify([object, [...flags]]), /secret/);
  });

  it("cleans up with --cleanup instead of running the daemon", async () => {
    const { code, out, calls } = await run(["--cleanup"], {
      daemon: {
        async cleanUpNode(_config, { print }) {
          print("Removed 1 thing");
          return true;
        },
      },
    });
    assert.deepEqual([code, out], [0, "Removed 1 thing\n"]);
    assert.deepEqual(
      calls.map(([name]) => name),
      ["clean-up"],
    );
  });

  it("cleans up while a daemon is running only if a flag allows it", async () => {
    const forced: boolean[] = [];
    const cleanUpNode: CleanUp = async (_config, { isCleanupForced }) => {
      forced.push(isCleanupForced);
      return true;
    };
    await run(["--cleanup"], { daemon: { cleanUpNode } });
    await run(["--cleanup", "--kube-ipvs-force-cleanup"], { daemon: { cleanUpNode } });
    assert.deepEqual(forced, [false, true]);
  });

  it("only prepares the node with --init-only", async () => {
    const { code, calls } = await run(["--init-only"]);
    assert.deepEqual([code, calls.map(([name]) => name)], [0, ["prepare"]]);
  });

  it("only writes the configuration with --write-config-to", async () => {
    const args = ["--config=/config", "--write-config-to=/out", "--cleanup", "--init-only"];
    const { code, out, err, calls, files } = await run(args);
    assert.deepEqual([code, out, calls], [0, "Wrote configuration to: /out\n", []]);
    assert.match(err, /^W.* "Ignoring unknown configuration field" path="foo"\n$/);
    assert.match(files.get("/out") ?? "", /^kind: KubeProxyConfiguration$/m);
  });

  it("prints its version in kube-proxy's format", async () => {
    const { code, out, calls } = await run(["--version"]);
    assert.equal(code, 0);
    assert.match(out, /^Kubernetes v1\.36\.\d+ \(kube-ipvs v\d+\.\d+\.\d+\)\n$/);
    assert.deepEqual(calls, []);
  });

  it("prints its help", async () => {
    const { code, out, err } = await run(["--help"]);
    assert.deepEqual([code, err], [0, ""]);
    assert.match(out, /^Usage: kube-ipvs \[command\] \[flags\]\n/);
  });
});

describe("the last lines on stderr", () => {
  const failing = (message: string): Fakes => ({
    daemon: { runDaemon: () => Promise.reject(new Error(message)) },
  });
  const cases: readonly {
    readonly name: string;
    readonly args: readonly string[];
    readonly commands?: Fakes;
    readonly want: readonly string[];
  }[] = [
    {
      name: "for an unknown flag",
      args: ["--nonsense"],
      want: ["unknown option '--nonsense' (see --help)"],
    },
    {
      name: "for another proxy mode",
      args: ["--proxy-mode=nftables"],
      want: [
        "--proxy-mode: kube-ipvs supports the proxy modes ipvs, iptables and userspace; for nftables mode, use kube-proxy",
      ],
    },
    {
      name: "for several problems at once",
      args: ["--ipvs-sync-period=x", "--v=y"],
      want: [
        '--ipvs-sync-period: must be a duration string such as "30s"',
        "--v: must be an integer",
      ],
    },
    {
      name: "for a missing file",
      args: ["--config=/missing"],
      want: ["--config: cannot be read: ENOENT: no such file or directory"],
    },
    {
      name: "for a configuration that cannot be written",
      args: ["--write-config-to=/missing/x"],
      want: [
        "Cannot write the configuration to /missing/x: ENOENT: no such file or directory; set --write-config-to to a file in an existing, writable directory",
      ],
    },
    {
      name: "for a start that fails",
      args: [],
      commands: failing("Cannot reach\nthe kernel"),
      want: ["Cannot reach; the kernel"],
    },
    {
      name: "for an incomplete clean-up",
      args: ["--cleanup"],
      commands: { daemon: { cleanUpNode: () => Promise.resolve(false) } },
      want: ["Cleanup incomplete; see above"],
    },
  ];
  for (const { name, args, commands, want } of cases) {
    it(name, async () => {
      const { code, err } = await run(args, commands);
      assert.equal(code, 1);
      assert.deepEqual(failuresIn(err), want);
      assert.ok(err.endsWith("\n"));
    });
  }

  it("are JSON if a flag or the file requests it, whatever the error", async () => {
    const asJson = (text: string): unknown[] =>
      text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line) as unknown);
    const byFlag = await run(["--logging-format=json", "--v=y", "--ipvs-sync-period=x"]);
    assert.deepEqual(asJson(byFlag.err).at(-1), {
      ts: 1767225600000,
      level: "error",
      v: 0,
      msg: "Invalid configuration",
      path: "--v",
      value: "y",
      reason: "must be an integer",
    });
    const byFile = await run(["--config=/json", "--ipvs-sync-period=x"]);
    assert.equal(asJson(byFile.err).length, 1);
    const start = await run(["--config=/json", "--v=0"], failing("no kernel"));
    assert.partialDeepStrictEqual(asJson(start.err).at(-1), {
      msg: "Command failed",
      err: "no kernel",
    });
  });

  it("name the invalid value, which cannot break the line", async () => {
    const { err } = await run(["--ipvs-sync-period=x\ny"]);
    assert.match(err, /^E.* path="--ipvs-sync-period" value="x\\ny" reason=".*"\n$/);
  });
});

describe("the log of a command", () => {
  const commands: Fakes = {
    plan: {
      async planSync(_config, { log }) {
        log.with({ resource: "services" }).info("Listed");
        log.warn("Cannot list");
        log.verbose(1, "Asked");
        return noChanges;
      },
    },
    daemon: {
      async runDaemon(_config, { log }) {
        log.info("Listed");
      },
    },
  };
  const events = (text: string): readonly string[] =>
    [...text.matchAll(/\] "([^"]*)"/g)].map(([, event = ""]) => event);

  it("has only warnings, because the answer is on stdout", async () => {
    assert.deepEqual(events((await run(["plan"], commands)).err), ["Cannot list"]);
  });

  it("is complete with -v", async () => {
    const { err } = await run(["plan", "-v=1"], commands);
    assert.deepEqual(events(err), ["Listed", "Cannot list", "Asked"]);
  });

  it("has only warnings for a clean-up, which prints what it removes", async () => {
    const cleanUpNode: CleanUp = async (_config, { log }) => {
      log.info("Using iptables");
      log.warn("Both iptables backends are in use");
      return true;
    };
    const { err } = await run(["--cleanup"], { daemon: { cleanUpNode } });
    assert.deepEqual(events(err), ["Both iptables backends are in use"]);
  });

  it("is the daemon's log for commands that keep running", async () => {
    assert.deepEqual(events((await run(["--proxy-mode=ipvs"], commands)).err), ["Listed"]);
  });
});

describe("a failed command", () => {
  const refusing: Fakes = {
    plan: { planSync: () => Promise.reject(new Error("Cannot reach\nthe \u001b[2Jkernel")) },
  };
  const cases: readonly (readonly [
    name: string,
    args: readonly string[],
    want: string,
    commands?: Fakes,
  ])[] = [
    [
      "for unexpected arguments",
      ["plan", "web"],
      "kube-ipvs plan: too many arguments for 'plan'. Expected 0 arguments but got 1: web. (see --help)\n",
    ],
    [
      "for an unknown command",
      ["stauts"],
      "kube-ipvs: unknown command 'stauts' (commands are status, services, explain, compare, drains, history, top, doctor, plan, sysdump, show, completion, endpoint-controller, version, wait) (see --help)\n",
    ],
    [
      "for several settings at once",
      ["doctor", "--ipvs-sync-period=x", "--v=y"],
      'kube-ipvs doctor: --ipvs-sync-period "x": must be a duration string such as "30s"\n' +
        'kube-ipvs doctor: --v "y": must be an integer\n',
    ],
    [
      "for other errors",
      ["plan"],
      "kube-ipvs plan: Cannot reach; the \\u001b[2Jkernel\n",
      refusing,
    ],
    [
      "for a query without an object",
      ["explain", "--from=10.0.0.1"],
      "kube-ipvs explain: give NAMESPACE/NAME, ADDRESS:PORT, or --from ADDRESS --to ADDRESS:PORT (see --help)\n",
    ],
    [
      "for an unsupported shell",
      ["completion", "tcsh"],
      'kube-ipvs completion: no completion for "tcsh"; choose bash, zsh or fish (see --help)\n',
    ],
  ];
  for (const [name, args, want, commands] of cases) {
    it(`reports the error as plain text ${name}`, async () => {
      const { code, err } = await run(args, commands);
      assert.deepEqual([code, err], [1, want]);
    });
  }

  it("reports the error as a log line with JSON logging, and for commands that keep running", async () => {
    const asked = await run(["plan", "--logging-format=json"], refusing);
    assert.partialDeepStrictEqual(JSON.parse(asked.err), { msg: "Command failed" });
    const { err } = await run(["endpoint-controller", "web"]);
    assert.deepEqual(failuresIn(err), [
      "too many arguments for 'endpoint-controller'. Expected 0 arguments but got 1: web. (see --help)",
    ]);
  });
});

describe("an empty mode in a configuration file", () => {
  it("has no effect on commands that neither serve nor plan", async () => {
    for (const args of [["endpoint-controller"], ["drains"], ["top", "-b"], ["plan", "--cleanup"]])
      assert.doesNotMatch((await run([...args, "--config=/no-mode"])).err, /mode/, args[0]);
  });

  it("makes commands fail that plan or check a node for a mode", async () => {
    for (const args of [["plan"], ["services"], ["explain", "svc/web"], ["doctor"]]) {
      const { code, err } = await run([...args, "--config=/no-mode"]);
      assert.equal(code, 1, args[0]);
      assert.match(err, /mode: must be set: choose ipvs/, args[0]);
    }
  });
});

describe("--strict", () => {
  it("rejects unknown fields, settings without effect and ignored flags, each on its own line", async () => {
    const args = ["--config=/config", "--strict", "--ipvs-scheduler=lc", "--boot-id-file=x"];
    for (const more of [[], ["--write-config-to=/out"]]) {
      const { code, err, calls, files } = await run([...args, ...more]);
      assert.deepEqual([code, calls, files.size], [1, [], 0]);
      assert.deepEqual(failuresIn(err), [
        "foo: Ignoring unknown configuration field",
        "--boot-id-file: Setting has no effect: kube-ipvs does not read it",
        "--ipvs-scheduler: Ignoring flag because a configuration file is set",
      ]);
    }
  });

  it("accepts a configuration in which every setting has an effect", async () => {
    const { code, calls } = await run(["--strict", "--ipvs-scheduler=lc"]);
    assert.deepEqual([code, calls.length], [0, 1]);
  });

  it("plans and checks with the running daemon's configuration unless flags set a different one", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
    const socket = join(folder, "socket");
    const configuration = loadConfig(
      new Map([
        ["proxy-mode", ["iptables"]],
        ["ipvs-scheduler", ["wlc"]],
        ["v", ["4"]],
      ]),
      { readFile: () => "", hostname: () => "node-1" },
    ).object;
    const asked: string[] = [];
    const server = createServer(({ url = "" }, response) => {
      asked.push(url);
      const config = { apiVersion, kind: "Configuration", configuration };
      response.end(JSON.stringify(url === "/v1/config" ? config : well));
    });
    const daemons: unknown[] = [];
    const planSync: PlanSync = async (_config, _parts, daemon) => {
      daemons.push(daemon?.status);
      return noChanges;
    };
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    try {
      const at = `--kube-ipvs-operator-socket=${socket}`;
      for (const command of ["plan", "doctor"]) {
        const { code, err, calls } = await run([command, at], { plan: { planSync } });
        assert.deepEqual([code, err], [0, ""]);
        const [, config] = calls[0] ?? assert.fail();
        assert.deepEqual(
          [config.mode, config.scheduler, config.logging.verbosity],
          ["iptables", "wlc", 0],
        );
        const given = await run([command, at, "--ipvs-scheduler=lc"], { plan: { planSync } });
        assert.deepEqual(given.calls[0]?.[1].scheduler, "lc");
      }
      assert.deepEqual(asked, ["/v1/config", "/v1/status?all=true", "/v1/config"]);
      assert.deepEqual(daemons, [well, undefined]);
    } finally {
      server.close();
      rmSync(folder, { recursive: true });
    }
    const { calls } = await run(["plan", `--kube-ipvs-operator-socket=${socket}`]);
    assert.equal(calls[0]?.[1].mode, "ipvs");
  });

  it("names the cause if the running daemon's configuration has a value that only another version knows", async () => {
    const folder = mkdtempSync(join(tmpdir(), "kube-ipvs-"));
    const socket = join(folder, "socket");
    const configuration = {
      ...{ apiVersion: "kubeproxy.config.k8s.io/v1alpha1", kind: "KubeProxyConfiguration" },
      ...{ mode: "ipvs", kubeIpvs: { manualWeights: "later" } },
    };
    const server = createServer((_, response) =>
      response.end(JSON.stringify({ apiVersion, kind: "Configuration", configuration })),
    );
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    try {
      const { code, err } = await run(["doctor", `--kube-ipvs-operator-socket=${socket}`]);
      assert.equal(code, 1);
      assert.match(err, /^kube-ipvs doctor: .*kubeIpvs\.manualWeights.*daemon's version differs/);
    } finally {
      server.close();
      rmSync(folder, { recursive: true });
    }
  });

  it("plans with the daemon's flags, and exits with 0 without changes and 2 with changes", async () => {
    const without = await run(["plan", "--ipvs-scheduler=lc"]);
    assert.deepEqual(
      [without.code, without.calls.map(([name, { scheduler }]) => [name, scheduler])],
      [0, [["plan", "lc"]]],
    );
    const change = { kind: "set-create", subject: { type: "set" }, text: "+ A", reason: "missing" };
    const plan: Plan = { ...noChanges, changes: [{ ...change, services: [] }] };
    const planSync = async () => plan;
    const some = await run(["plan", "-o", "json"], { plan: { planSync } });
    assert.equal(some.code, 2);
    assert.deepEqual(JSON.parse(some.out), plan);
    const text = (await run(["plan"], { plan: { planSync } })).out;
    assert.equal(
      text,
      "Sets: 1\n  + A  # missing\n\n1 change would be made, so plan exits with 2.\n",
    );
    const planNodeCleanUp = planSync;
    const cleanup = await run(["plan", "--cleanup"], { plan: { planNodeCleanUp } });
    assert.deepEqual([cleanup.code, cleanup.calls[0]?.[0]], [2, "plan --cleanup"]);
    const both = await run(["plan", "-f", "/json", "--cleanup"]);
    assert.deepEqual(
      [both.code, both.err],
      [1, "kube-ipvs plan: -f: cannot be combined with --cleanup\n"],
    );
    const applied = await run(["plan", "-f", "/json"], { plan: { planApplied: planSync } });
    assert.deepEqual(
      [applied.code, applied.out, applied.calls[0]?.[0]],
      [2, text, "plan -f /json"],
    );
    const absent = await run(["plan", "-f", "/absent"]);
    assert.deepEqual([absent.code, absent.calls], [1, []]);
    const clean = await run(["plan", "--cleanup", "-o", "json"]);
    assert.deepEqual([clean.code, clean.calls[0]?.[0]], [0, "plan --cleanup"]);
    const mistaken = await run(["plan", "-o", "xml"]);
    const checked = await run(["doctor", "--before-install", "-ojson"]);
    assert.deepEqual([checked.code, checked.calls[0]?.[0]], [0, "doctor true"]);
    assert.deepEqual(JSON.parse(checked.out), reportOf("ok"));
    const codes = { ok: 0, unknown: 1, warn: 2, fail: 2 } as const;
    for (const verdict of ["ok", "unknown", "warn", "fail"] as const) {
      const examineNode = async () => reportOf(verdict);
      const { code, calls } = await run(["doctor"], { doctor: { examineNode } });
      assert.deepEqual([code, calls[0]?.[0]], [codes[verdict], "doctor false"]);
    }
    assert.equal(mistaken.code, 1);
    assert.match(mistaken.err, /Allowed choices are text, wide, json/);
    const script = await run(["completion", "bash"]);
    assert.deepEqual([script.code, script.out.split("\n")[1]], [0, "_kube_ipvs() {"]);
    const none = await run(["completion", "tcsh"]);
    assert.equal(none.code, 1);
    assert.match(none.err, /no completion for .*tcsh.*; choose bash, zsh or fish/);
  });
});
