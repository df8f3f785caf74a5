import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { parseCommandLine } from "../../../src/cli/command-line.ts";
import { commands } from "../../../src/cli/commands.ts";
import { flags } from "../../../src/cli/flags.ts";

function valuesOf(...args: string[]): Record<string, readonly string[]> {
  const parsed = parseCommandLine(args);
  assert.equal(parsed.kind, "flags");
  return parsed.kind === "flags" ? Object.fromEntries(parsed.values) : {};
}

function helpText(): string {
  const parsed = parseCommandLine(["--help"]);
  return parsed.kind === "help" ? parsed.text : assert.fail("no help");
}

describe("arguments", () => {
  it("can be empty", () => assert.deepEqual(valuesOf(), {}));

  it("are parsed as kubeadm's DaemonSet passes them", () => {
    assert.deepEqual(
      valuesOf("--config=/var/lib/kube-proxy/config.conf", "--hostname-override=n1"),
      {
        config: ["/var/lib/kube-proxy/config.conf"],
        "hostname-override": ["n1"],
      },
    );
  });

  it("are parsed as k3s and others pass them", () => {
    const given =
      "--cluster-cidr=10.42.0.0/16 --proxy-mode ipvs --masquerade_all -v=2 --cleanup=false";
    assert.deepEqual(valuesOf(...given.split(" ")), {
      cleanup: ["false"],
      "cluster-cidr": ["10.42.0.0/16"],
      "proxy-mode": ["ipvs"],
      "masquerade-all": ["true"],
      v: ["2"],
    });
  });

  it("keep each value of a repeated flag", () => {
    assert.deepEqual(valuesOf("--nodeport-addresses=a", "--nodeport-addresses", "b"), {
      "nodeport-addresses": ["a", "b"],
    });
  });

  it("accept every flag of the table", () => {
    for (const { name } of flags) {
      assert.deepEqual(valuesOf(`--${name}=x`), { [name]: ["x"] });
    }
  });

  for (const args of [["--version"], ["--version=raw"], ["-v", "2", "--version"]]) {
    it(`${args.join(" ")} requests the version`, () => {
      assert.deepEqual(parseCommandLine(args), { kind: "version" });
    });
  }
});

describe("a mistake", () => {
  const names = commands.map(({ name }) => name).join(", ");
  const tooMany = "too many arguments. Expected 0 arguments but got 1: ";
  const cases: readonly (readonly [args: readonly string[], message: string, caller?: string])[] = [
    [["--nonsense"], "unknown option '--nonsense'"],
    [["--ipvs-schedular=rr"], "unknown option '--ipvs-schedular' (Did you mean --ipvs-scheduler?)"],
    [["-x"], "unknown option '-x'"],
    [["--network-name=x"], "unknown option '--network-name'"],
    [["--config"], "option '--config <string>' argument missing"],
    [["run"], `unknown command 'run' (commands are ${names})`, "kube-ipvs"],
    [["stauts"], `unknown command 'stauts' (commands are ${names})`, "kube-ipvs"],
    [["-v=1", "plan"], `${tooMany}plan.`],
    [
      ["plan", "web"],
      "too many arguments for 'plan'. Expected 0 arguments but got 1: web.",
      "kube-ipvs plan",
    ],
    [
      ["endpoint-controller", "web"],
      "too many arguments for 'endpoint-controller'. Expected 0 arguments but got 1: web.",
    ],
    [
      ["doctor", "--before-instal"],
      "unknown option '--before-instal' (Did you mean --before-install?)",
      "kube-ipvs doctor",
    ],
    [
      ["services", "--watch=yes"],
      "option '-w, --watch <true|false>' argument 'yes' is invalid. Allowed choices are true, false.",
      "kube-ipvs services",
    ],
    [["--masquerade-all", "false"], `${tooMany}false.`],
    [["--", "--v=1"], `${tooMany}--v=1.`],
    [["--v=1", "a\nb"], `${tooMany}a b.`],
    [["--a\u001b[2J"], "unknown option '--a?[2J'"],
  ];
  for (const [args, message, caller] of cases) {
    it(JSON.stringify(args), () => {
      const want = { kind: "mistake", message, ...(caller === undefined ? {} : { caller }) };
      assert.deepEqual(parseCommandLine(args), want);
    });
  }
});

describe("--help", () => {
  it("lists every flag that has a description, under its heading", () => {
    const text = helpText();
    const headings = text.split("\n").filter((line) => /^[A-Z][^.]*:$/.test(line));
    assert.deepEqual(headings, [
      "Start:",
      "Node and cluster:",
      "IPVS:",
      "Servers:",
      "Connection tracking:",
      "Process:",
      "Logging:",
      "Options specific to kube-ipvs:",
      "Ignored for compatibility:",
      "Commands (each has --help; without a command, kube-ipvs runs as the daemon):",
      "Examples:",
    ]);
    for (const { name, help } of flags) {
      assert.equal(new RegExp(`--${name}\\s`).test(text), help !== "", name);
    }
  });

  it("prints defaults, and no value for a switch", () => {
    assert.match(
      helpText(),
      /^ {2}--ipvs-sync-period <duration>\n {8}maximum .* \(default 30s\)$/m,
    );
    assert.match(helpText(), /^ {2}--masquerade-all\n {8}masquerade all/m);
  });

  for (const { name, summary, examples } of commands) {
    it(`describes ${name} with examples, in at most 80 columns`, () => {
      assert.match(helpText(), new RegExp(`^ {2}${name} +${summary}$`, "m"));
      const own = parseCommandLine([name, "--help"]);
      const text = own.kind === "help" ? own.text : assert.fail();
      assert.ok(examples.length > 0);
      for (const { command } of examples) assert.ok(text.includes(`\n  ${command}\n`), command);
      for (const line of [...helpText().split("\n"), ...text.split("\n")]) {
        assert.ok(line.length <= 80, line);
      }
    });

    it(`fills the lines of the help text for ${name} without early line breaks`, () => {
      const own = parseCommandLine([name, "--help"]);
      const [, description = ""] = own.kind === "help" ? own.text.split("\n\n") : [];
      const lines = description.split("\n");
      for (const [index, line] of lines.entries()) {
        const [next = ""] = (lines[index + 1] ?? "").split(" ");
        assert.ok(line.endsWith(".") || line.length + 1 + next.length > 80, line);
      }
    });
  }

  it("is also printed for -h, regardless of other arguments", () => {
    assert.equal(parseCommandLine(["-v=1", "-h"]).kind, "help");
  });
});
