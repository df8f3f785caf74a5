/**
 * Runs the ```console lab blocks of all documents in order on one node, with the program that the first document
 * starts.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import {
  type DocumentedCommand,
  isAsShown,
  readCommands,
} from "../support/documents/console-blocks.ts";
import { ShellSession } from "../support/documents/shell-session.ts";
import { shell } from "../support/netns/network-namespace.ts";
import { patienceMs } from "../support/patience.ts";

const project = join(import.meta.dirname, "../..");
/** The documents in order. The last one cleans up. */
const order = [
  "quick-start.md",
  "upgrade.md",
  "kernel.md",
  "troubleshooting.md",
  "troubleshooting-traffic.md",
  "clean-up.md",
];
const retryMs = 300;

const example = join(project, "docs/examples/web.yaml");
const exampleWrittenMs = statSync(example).mtimeMs;

const session = new ShellSession(project, `${project}/dist:${process.env["PATH"]}`);

/** Repeats a command until it prints the documented output, because the program may need a moment. */
async function settled({ command, output }: DocumentedCommand): Promise<string> {
  const deadlineMs = performance.now() + patienceMs;
  for (;;) {
    const printed = await session.run(command);
    if (isAsShown(output, printed) || performance.now() > deadlineMs) return printed;
    await pause(retryMs);
  }
}

before(() => {
  // The same setup as in shell.sh.
  shell(
    "ip link add eth0 type dummy; ip link set eth0 up; ip address add 192.168.10.11/24 dev eth0; " +
      "ip link add pods0 type dummy; ip link set pods0 up; ip route add 10.244.0.0/16 dev pods0",
  );
});

after(async () => {
  await session.run("pkill -KILL -f 'manifests /tmp/exampl[e]s'");
  session.end();
});

describe("the documents", () => {
  it("with lab blocks are listed here", () => {
    const found = readdirSync(join(project, "docs"))
      .filter((name) => name.endsWith(".md") && name !== "README.md")
      .filter((name) => readCommands(readFileSync(join(project, "docs", name), "utf8")).length > 0);
    assert.deepEqual(found.toSorted(), order.toSorted());
  });

  for (const name of order) {
    it(`${name} shows what its commands print`, async () => {
      const wrong: string[] = [];
      for (const one of readCommands(readFileSync(join(project, "docs", name), "utf8"))) {
        const printed = await settled(one);
        if (isAsShown(one.output, printed)) continue;
        const shown = one.output.join("\n");
        wrong.push(
          `docs/${name}:${one.line}: $ ${one.command}\nshown:\n${shown}\nprinted:\n${printed}`,
        );
      }
      assert.equal(wrong.join("\n"), "");
    });
  }

  it("leave the repository's examples unchanged", () => {
    assert.equal(statSync(example).mtimeMs, exampleWrittenMs);
  });
});
