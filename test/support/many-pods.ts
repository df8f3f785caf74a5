/** Runs `kubectl kube-ipvs` with a kubectl that answers for a cluster of 50 pods. */
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const shim = join(import.meta.dirname, "../../deploy/kubectl-kube_ipvs");
const main = join(import.meta.dirname, "../../src/main.ts");

/**
 * The pod on node-7 hangs, node-8 has no daemon, node-9 is degraded and kills the command drains, and the pod on node-10
 * is pending. `__nodes` is the real program. With TOGETHER=N, commands answer only after N have started, and node-7 answers too.
 */
const kubectl = `#!/bin/sh
echo "$*" >> "$0.calls"
case " $* " in
  *" get nodes "*) echo node/node-2; echo node/node-9; echo node/unserved; exit ;;
  *" get pods "*)
    for n in $(seq 1 50); do
      phase=Running; [ $n != 10 ] || phase=Pending
      echo "node-$n pod-$n $phase"
    done
    echo "node-5 pod-5-old Failed"
    exit ;;
  *" exec "*" -o json"*)
    pod=$4
    trap 'echo $pod >> "$0.ended"' EXIT
    if [ -n "$TOGETHER" ]; then
      echo "$pod" >> "$0.started"
      until [ "$(wc -l < "$0.started")" -ge "$TOGETHER" ]; do sleep 0.1; done
    elif [ "$pod" = pod-7 ]; then
      sleep 60 &
      trap 'kill $!; exit 143' TERM
      wait
    fi ;;
esac
case " $* " in
  *" __nodes "*) while [ "$1" != __nodes ]; do shift; done; exec ${process.execPath} ${main} "$@" ;;
  *" pod-8 "*) echo "Cannot query kube-ipvs" >&2; exit 1 ;;
  *" pod-9 "*" drains "*) echo "command terminated with exit code 137" >&2; exit 137 ;;
  *" drains "*) echo '{"apiVersion":"kube-ipvs/v1","kind":"DrainList","items":[]}'; exit ;;
  *" doctor "*)
    echo '{"verdict":"warn","checks":[{"name":"a","verdict":"ok","evidence":"yes"},{"name":"b","verdict":"warn","evidence":"two"}]}'
    exit 2 ;;
  *" explain "*) echo '{"items":[{"verdict":"balanced","summary":"Packets are balanced"}]}'; exit ;;
  *" compare "*)
    facts='"namespace":"shop","name":"web","frontend":"cluster-ip","protocol":"TCP","address":"10.96.0.2","port":80'
    scheduler=rr; case " $* " in *" pod-3 "*) scheduler=wlc ;; esac
    echo '{"apiVersion":"kube-ipvs/v1","kind":"NodeServices","time":"2026-01-02T03:04:05Z","problems":[],"history":[],"items":[{'"$facts"',"scheduler":"'$scheduler'","affinitySeconds":0}]}'
    exit ;;
  *" services "*)
    echo '{"items":[{"namespace":"shop","name":"web","protocol":"TCP","address":"10.96.0.2","port":80,"realServers":{"planned":2,"programmed":2,"draining":0}}]}'
    exit ;;
  *" pod-9 "*) echo '{"verdict":"Degraded","summary":"Degraded: 1 object rejected"}'; exit 2 ;;
  *) echo '{"verdict":"OK","summary":"OK, 3 Services","mode":"ipvs","versions":{"program":"0.2.0"}}'; exit ;;
esac
`;

export class ManyPods {
  readonly #folder = mkdtempSync(join(tmpdir(), "kubectl-many-"));
  readonly #kubectl = join(this.#folder, "kubectl");

  constructor() {
    writeFileSync(this.#kubectl, kubectl, { mode: 0o755 });
  }

  run(args: readonly string[], together: string = ""): SpawnSyncReturns<string> {
    this.#forget();
    return spawnSync(shim, args, {
      encoding: "utf8",
      env: { PATH: `${this.#folder}:/usr/bin:/bin`, TOGETHER: together },
      timeout: 120_000,
    });
  }

  /** The arguments of all calls of kubectl in the last run, one call per line. */
  calls(): string {
    return readFileSync(`${this.#kubectl}.calls`, "utf8");
  }

  /** The pods in which a command has ended in the last run, in this order. */
  ended(): readonly string[] {
    return readFileSync(`${this.#kubectl}.ended`, "utf8").split("\n").slice(0, -1);
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true });
  }

  #forget(): void {
    for (const kind of ["calls", "started", "ended"])
      rmSync(`${this.#kubectl}.${kind}`, { force: true });
  }
}
