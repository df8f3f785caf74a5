/** The systemd unit for nodes without a cluster. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parseCommandLine } from "../../src/cli/command-line.ts";

import { podOf, readManifests } from "../support/container/pod.ts";

const unit = readFileSync(
  join(import.meta.dirname, "../../deploy/systemd/kube-ipvs.service"),
  "utf8",
);
const setting = (name: string): readonly string[] =>
  new RegExp(`^${name}=(.*)$`, "m").exec(unit)?.[1]?.split(" ") ?? [];

describe("the systemd unit", () => {
  it("starts the program with valid flags", () => {
    const [program, ...flags] = setting("ExecStart");
    assert.equal(program, "/usr/local/bin/kube-ipvs");
    assert.equal(parseCommandLine(flags).kind, "flags");
  });

  it("grants the container's capabilities and module loading", () => {
    const [container] = podOf(readManifests("replace-kube-proxy")).containers;
    const granted = container?.securityContext?.capabilities?.add ?? [];
    const expected = [...granted, "SYS_MODULE"].map((name) => `CAP_${name}`);
    assert.deepEqual(setting("CapabilityBoundingSet"), expected);
  });
});
