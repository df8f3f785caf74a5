/** Where a command runs: a container of a pod. */
export interface PodPlace {
  readonly namespace: string;
  readonly pod: string;
  /** Absent: the pod has one. */
  readonly container?: string;
}

export interface CommandResult {
  readonly exitCode: number;
  readonly out: string;
  readonly err: string;
}

/** A command that runs until it is stopped. */
export interface RunningCommand {
  /** Its first line of output. Rejects where it ends without one. */
  firstLine(): Promise<string>;
  /** Sends it a byte on its standard input, which ends it, and resolves with what it printed in all. */
  stop(): Promise<CommandResult>;
}

/** Runs commands in pods. A command that runs and fails is a result; where none can be run, it rejects. */
export interface PodShell {
  run(place: PodPlace, command: readonly string[]): Promise<CommandResult>;
  start(place: PodPlace, command: readonly string[]): Promise<RunningCommand>;
}

/** `kube-system/kube-ipvs-x7f2k`. */
export function placeText({ namespace, pod }: PodPlace): string {
  return `${namespace}/${pod}`;
}
