import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { systemClock } from "../../../../src/base/clock.ts";
import type { Config } from "../../../../src/config/config.ts";
import type { ConfigState } from "../../../../src/config/config-change.ts";
import { configText } from "../../../../src/config/config-text.ts";
import {
  type ConfigFileSource,
  ConfigReload,
  type ConfigReloadDependencies,
  followConfigFile,
} from "../../../../src/daemon/process/config-reload.ts";
import { FakeClock } from "../../../support/fake-clock.ts";
import { RecordingLogger } from "../../../support/recording-logger.ts";
import { load, loadFile } from "../../config/loading.ts";

function reloadOf(
  lines: readonly string[],
  apply?: ConfigReloadDependencies["apply"],
  check: ConfigReloadDependencies["check"] = async () => {},
) {
  const [first = "", ...later] = lines;
  const log = new RecordingLogger();
  const applied: Config[] = [];
  const failures: string[] = [];
  const read = (): ConfigState => loadFile(later.shift() ?? "");
  const reload = new ConfigReload(
    { path: "/config", text: first, initial: loadFile(first), read },
    {
      clock: new FakeClock(),
      log,
      check,
      apply: apply ?? (async (config) => void applied.push(config)),
      fail: ({ message }) => failures.push(message),
    },
  );
  return { reload, log, applied, failures };
}

describe("a configuration file that is read again", () => {
  it("is applied except for settings that need a restart, which are logged", async () => {
    const changed = "ipvs: {scheduler: lc}\nkubeIpvs: {lockName: x}\nfoo: 1";
    const { reload, log, applied } = reloadOf(["", changed]);
    await reload.run();
    assert.deepEqual(
      applied.map(({ scheduler, lockName }) => [scheduler, lockName]),
      [["lc", "kube-ipvs"]],
    );
    assert.deepEqual(
      log.lines.map(({ level, event, keys }) => [level, event, keys]),
      [
        ["info", "Configuration file reloaded", { path: "/config", applied: ["ipvs.scheduler"] }],
        ["warn", "Changed settings require a restart", { settings: ["kubeIpvs.lockName"] }],
      ],
    );
  });

  it("is passed on with its changed settings, except those that need a restart", async () => {
    const texts: string[] = [];
    const changed = "ipvs: {scheduler: lc}\nhealthzBindAddress: 127.0.0.1";
    const { reload } = reloadOf(["", changed], async (config, values) => {
      texts.push(configText(values, config));
    });
    await reload.run();
    assert.match(texts[0] ?? "", /^ +scheduler: lc$/m);
    assert.match(texts[0] ?? "", /^healthzBindAddress: 0\.0\.0\.0:10256$/m);
  });

  it("is not applied if it is invalid, but a later valid one is", async () => {
    const lines = ["", "ipvs: {scheduler: 1}", "ipvs: {scheduler: lc}"];
    const { reload, log, applied } = reloadOf(lines);
    await reload.run();
    assert.equal(applied.length, 0);
    assert.equal(log.lines[0]?.event, "Cannot apply changed configuration file");
    assert.match(String(log.lines[0]?.keys["err"]), /ipvs\.scheduler: 1: must be a string/);
    await reload.run();
    assert.equal(applied[0]?.scheduler, "lc");
  });

  it("is ignored if its mode is empty", async () => {
    const { reload, log, applied } = reloadOf(["", 'mode: ""\nipvs: {scheduler: lc}']);
    await reload.run();
    assert.deepEqual(applied, []);
    assert.match(String(log.lines[0]?.keys["err"]), /mode: must be set: choose ipvs/);
  });

  it("is retried with the next change if the kernel rejected it", async () => {
    let isRefused = true;
    const tried: string[] = [];
    const lines = ["", "ipvs: {scheduler: mh}", "ipvs: {scheduler: mh}\noomScoreAdj: 5"];
    const { reload, log } = reloadOf(lines, async ({ scheduler }) => {
      tried.push(scheduler);
      if (isRefused) throw new Error("no scheduler mh");
    });
    await reload.run();
    assert.equal(String(log.lines[0]?.keys["err"]), "Error: no scheduler mh");
    isRefused = false;
    await reload.run();
    assert.deepEqual(tried, ["mh", "mh"]);
    assert.deepEqual(log.lines[1]?.keys["applied"], ["ipvs.scheduler", "oomScoreAdj"]);
  });
});

describe("a changed kubeIpvs.rules in a configuration file that is read again", () => {
  const lines = ["", "ipvs: {scheduler: lc}\nkubeIpvs: {rules: nftables}"];

  it("ends the program, and nothing is applied before the restart", async () => {
    const checked: string[] = [];
    const { reload, applied, failures } = reloadOf(lines, undefined, async ({ rules }) => {
      checked.push(rules);
    });
    await reload.run();
    assert.deepEqual(checked, ["nftables"]);
    assert.deepEqual(applied, []);
    assert.deepEqual(failures, [
      "Configuration file /config has a different value of kubeIpvs.rules, exiting to restart",
    ]);
  });

  it("is logged and changes nothing if it does not work on this node", async () => {
    const { reload, log, applied, failures } = reloadOf(lines, undefined, async () => {
      throw new Error("nf_tables does not work on this node");
    });
    await reload.run();
    assert.deepEqual([applied, failures], [[], []]);
    assert.deepEqual(
      log.lines.map(({ event, keys }) => [event, String(keys["err"])]),
      [["Cannot apply changed configuration file", "Error: nf_tables does not work on this node"]],
    );
  });
});

describe("a configuration file whose change stops the program", () => {
  const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

  it("stops it only if it is valid: an empty mode is logged, and the program keeps running", async (test) => {
    const folder = mkdtempSync(join(tmpdir(), "config-reload-"));
    const path = join(folder, "config.conf");
    test.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(path, `${head}mode: ipvs\n`);
    const read = (): ConfigState => load({}, readFileSync(path, "utf8"));
    const source: ConfigFileSource = { path, text: `${head}mode: ipvs\n`, initial: read(), read };
    const log = new RecordingLogger();
    const { promise: failure, resolve: fail } = Promise.withResolvers<Error>();
    const isLogged = Promise.withResolvers<void>();
    const error = log.error.bind(log);
    log.error = (...line) => {
      error(...line);
      isLogged.resolve();
    };
    const stop = followConfigFile(source, {
      clock: systemClock,
      log,
      apply: async () => {},
      check: async () => {},
      fail,
    });
    test.after(stop);

    writeFileSync(path, `${head}mode: ""\n`);
    await isLogged.promise;
    assert.equal(log.lines[0]?.event, "Cannot apply changed configuration file");

    writeFileSync(path, `${head}mode: iptables\n`);
    assert.equal(
      (await failure).message,
      `Configuration file ${path} was written, exiting to restart`,
    );
  });

  it("does not stop it if it is replaced without a change, as in a ConfigMap volume", async (test) => {
    const folder = mkdtempSync(join(tmpdir(), "config-reload-"));
    const path = join(folder, "config.conf");
    test.after(() => rmSync(folder, { recursive: true }));
    writeFileSync(path, `${head}mode: ipvs\n`);
    const read = (): ConfigState => load({}, readFileSync(path, "utf8"));
    const failures: Error[] = [];
    const clock = new FakeClock();
    const stop = followConfigFile(
      { path, text: `${head}mode: ipvs\n`, initial: read(), read },
      {
        ...{ clock, log: new RecordingLogger(), apply: async () => {}, check: async () => {} },
        fail: (error) => failures.push(error),
      },
    );
    test.after(stop);
    writeFileSync(`${path}.new`, `${head}mode: iptables\n`);
    renameSync(`${path}.new`, path);
    await clock.advance(60_000);
    assert.deepEqual(failures, []);
    writeFileSync(path, `${head}mode: ipvs\nipvs: {scheduler: lc}\n`);
    await clock.advance(60_000);
    assert.deepEqual(failures, []);
  });
});
