/** Modules that are loaded only when a command needs them, so that `--version` is instant. */

type Load<Module, Name extends keyof Module> = () => Promise<Pick<Module, Name>>;

export interface Programs {
  readonly daemon: Load<
    typeof import("../daemon/run.ts"),
    "runDaemon" | "prepareNode" | "cleanUpNode"
  >;
  readonly plan: Load<
    typeof import("../daemon/print-plan.ts"),
    "planSync" | "planApplied" | "planNodeCleanUp"
  >;
  readonly endpointController: Load<
    typeof import("../daemon/run-endpoint-controller.ts"),
    "runEndpointController"
  >;
  readonly firstSync: Load<
    typeof import("../daemon/operator/answer-without-daemon.ts"),
    "answerWithoutDaemon"
  >;
  readonly doctor: Load<typeof import("../doctor/examine-node.ts"), "examineNode">;
  readonly explain: Load<
    typeof import("../explain/explain.ts"),
    "explain" | "record" | "explainRecorded"
  >;
  readonly sysdump: Load<typeof import("../sysdump/sysdump.ts"), "sysdump">;
  readonly top: Load<typeof import("../top/run-top.ts"), "readTraffic" | "runLive">;
}

export const programs: Programs = {
  daemon: () => import("../daemon/run.ts"),
  plan: () => import("../daemon/print-plan.ts"),
  endpointController: () => import("../daemon/run-endpoint-controller.ts"),
  firstSync: () => import("../daemon/operator/answer-without-daemon.ts"),
  doctor: () => import("../doctor/examine-node.ts"),
  explain: () => import("../explain/explain.ts"),
  sysdump: () => import("../sysdump/sysdump.ts"),
  top: () => import("../top/run-top.ts"),
};
