/** Text from the kernel and its tools. */
import assert from "node:assert/strict";
import { parseSaved, SavedTextError } from "../../../src/kernel/iptables/parse.ts";
import { readCorpusTexts } from "../corpus.ts";
import { mutatedTexts } from "../mutations.ts";
import { type FuzzTarget, type Verdict, verdictOf } from "../target.ts";

function targetOf(name: string, run: (text: string) => Verdict): FuzzTarget<string> {
  const kept = readCorpusTexts(name);
  return { name, isDecoder: true, kept, inputs: mutatedTexts(kept), run };
}

/** A rule must be parsed with its whole line. Otherwise, third-party rules could look like those of kube-ipvs. */
function readRules(text: string): Verdict {
  return verdictOf(
    () => {
      const lines = new Set(text.split("\n"));
      for (const { name, rules } of parseSaved(text)) {
        for (const { text: rule } of rules) {
          const line = `-A ${name}${rule === "" ? "" : ` ${rule}`}`;
          assert.ok(
            [...lines].some((whole) => whole.endsWith(line)),
            line,
          );
        }
      }
    },
    (error) => error instanceof SavedTextError,
  );
}

export const targets: readonly FuzzTarget<string>[] = [targetOf("iptables-save", readRules)];
