/** In both formats, every log entry must be a single line that contains the logged values. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { parseJson } from "../../../src/base/parse-json.ts";
import { formatJson, formatText } from "../../../src/daemon/log/log-format.ts";
import { nastyTexts, nastyValues } from "../mutations.ts";
import type { FuzzTarget } from "../target.ts";

type Keys = Readonly<Record<string, unknown>>;

const line = { severity: "warn", timeMs: 1_700_000_000_000, pid: 1, level: 0 } as const;
const names = fc.constantFrom("subject", "err", "reason", "before", "ts", "msg", "__proto__");
const others = fc.constantFrom<unknown>(new Error("x\ny"), 10n, undefined, Symbol("s"), new Map());

const logLines: FuzzTarget<Keys> = {
  name: "log-lines",
  isDecoder: false,
  kept: nastyTexts.map((text) => ({ subject: text, err: new Error(text) })),
  inputs: fc.dictionary(names, fc.oneof({ weight: 9, arbitrary: nastyValues }, others), {
    maxKeys: 4,
  }),
  run(keys) {
    const event = "Ignoring invalid field";
    const text = formatText({ ...line, event, keys });
    assert.doesNotMatch(text, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
    const json = formatJson({ ...line, event, keys });
    assert.doesNotMatch(json, /[\p{Cc}\p{Cf}\u2028\u2029]/u);
    const read = parseJson(json) as Record<string, unknown>;
    assert.deepEqual([read["ts"], read["msg"], read["level"]], [line.timeMs, event, "warn"]);
    assert.ok(text.length < 40_000 && json.length < 60_000, `${text.length} ${json.length}`);
    return "taken";
  },
};

export const targets: readonly FuzzTarget<Keys>[] = [logLines];
