import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { BackendChoice } from "../../../../src/kernel/iptables/backend.ts";
import { IptablesClient } from "../../../../src/kernel/iptables/client.ts";
import { longestWaitMs } from "../../../../src/kernel/iptables/restore-ahead.ts";
import type { RulesChange } from "../../../../src/kernel/kernel.ts";
import {
  type ProgramCall,
  ProgramError,
  type ProgramResult,
} from "../../../../src/kernel/program.ts";
import { FakeClock } from "../../../support/fake-clock.ts";

const legacy: BackendChoice = {
  backend: "legacy",
  programs: { IPv4: "iptables-legacy", IPv6: "ip6tables-legacy" },
  reason: "in tests",
};
const empty = "*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n";
const ours = "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n";
const written = "*nat\n:KUBE-A - [0:0]\nCOMMIT\n";
const change: RulesChange = {
  kind: "write-chain",
  chain: { table: "nat", name: "KUBE-A", rules: [] },
};
const done: ProgramResult = { exitCode: 0, output: "", errorOutput: "" };

/** A restore that reads all of its input and ends; `dies`: the first one ends before that. */
class Restores {
  readonly inputs: string[] = [];
  started = 0;
  readonly #saved: string;
  readonly #dies: boolean;

  constructor(saved: string, dies = false) {
    this.#saved = saved;
    this.#dies = dies;
  }

  readonly run = async (call: ProgramCall): Promise<ProgramResult> => {
    if (call.program.endsWith("-save")) return { ...done, output: this.#saved };
    this.started += 1;
    if (this.#dies && this.started === 1) throw new ProgramError(call.program, "killed", "killed");
    this.inputs.push((await call.input) ?? "");
    return done;
  };
}

async function prepared(restores: Restores): Promise<{ client: IptablesClient; clock: FakeClock }> {
  const clock = new FakeClock();
  const generations = { read: async () => 7 };
  const client = new IptablesClient({ runProgram: restores.run, generations, clock }, legacy);
  client.readAhead("IPv4");
  client.applyAhead("IPv4");
  await settled();
  return { client, clock };
}

/** Everything that waits for nothing else is over. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe("a restore that is started ahead", () => {
  it("takes the first input, and the next restore is another one", async () => {
    const restores = new Restores(empty);
    const { client } = await prepared(restores);
    assert.equal(restores.started, 1);
    await client.apply("IPv4", [change]);
    assert.equal(restores.started, 1);
    await client.apply("IPv4", [change]);
    assert.equal(restores.started, 2);
    assert.deepEqual(restores.inputs, [written, written]);
  });

  it("is of its family", async () => {
    const restores = new Restores(empty);
    const { client } = await prepared(restores);
    await client.apply("IPv6", [change]);
    assert.equal(restores.started, 2);
    client.close();
  });

  it("is not started where chains of ours are there", async () => {
    const restores = new Restores(ours);
    await prepared(restores);
    assert.equal(restores.started, 0);
  });

  it("ends without input when nobody needs it in time", async () => {
    const restores = new Restores(empty);
    const { client, clock } = await prepared(restores);
    await clock.advance(longestWaitMs);
    await settled();
    assert.deepEqual(restores.inputs, [""]);
    await client.apply("IPv4", [change]);
    assert.deepEqual(restores.inputs, ["", written]);
  });

  it("takes no input after its time, though it has not ended yet", async () => {
    const restores = new Restores(empty);
    const end = Promise.withResolvers<void>();
    const run = restores.run;
    const held = Object.assign(restores, {
      run: async (call: ProgramCall): Promise<ProgramResult> => {
        const result = await run(call);
        if (restores.inputs.at(-1) === "") await end.promise;
        return result;
      },
    });
    const { client, clock } = await prepared(held);
    await clock.advance(longestWaitMs);
    await client.apply("IPv4", [change]);
    assert.deepEqual(restores.inputs, ["", written]);
    end.resolve();
  });

  it("ends without input when the client is closed, and none starts after that", async () => {
    const restores = new Restores(empty);
    const { client } = await prepared(restores);
    client.close();
    await settled();
    assert.deepEqual(restores.inputs, [""]);
    client.readAhead("IPv4");
    client.applyAhead("IPv4");
    await settled();
    assert.equal(restores.started, 1);
  });

  it("is replaced by another one where it died", async () => {
    const restores = new Restores(empty, true);
    const { client } = await prepared(restores);
    await client.apply("IPv4", [change]);
    assert.deepEqual(restores.inputs, [written]);
  });
});
